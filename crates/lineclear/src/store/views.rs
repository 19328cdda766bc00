//! Looking at the store: lists and details, page by page. Nothing here changes anything.

use lineclear_model::job::{ExecutionOutcome, JobState, Origin};
use lineclear_model::{DeadReason, Manifest, Micros, Name};

use super::db::{Row, Session, Value, Verb};
use super::sql::Statement;
use super::verbs::manifest::manifest_of;
use super::{DeadLetterId, JobId, ManifestId, NodeId, Store, StoreResult};

/// Rows per page at most.
pub const PAGE_MAX: u32 = 1_000;

/// Rows of each table that a filtered page of jobs may look through.
const WINDOW: u32 = 10_000;

/// A page, and where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T, C> {
    /// What was found.
    pub items: Vec<T>,
    /// Pass this to get the next page; `None`: this was the last. A page may be empty and not the last: a filter on
    /// rare things looks through a bounded number of rows at a time.
    pub next: Option<C>,
}

/// Which jobs.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<JobState>,
    /// Of this kind.
    pub kind: Option<Name>,
    /// Of this manifest.
    pub manifest: Option<ManifestId>,
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Where it is in its life.
    pub state: JobState,
    /// The kind of work, as it is stored.
    pub kind: String,
    /// The manifest it stands for.
    pub manifest: Option<ManifestId>,
    /// The tick it stands for.
    pub tick_at: Option<Micros>,
    /// What made it.
    pub origin: Origin,
    /// Claims so far.
    pub claim_no: u32,
    /// Tries that failed since it was accepted or revived; unknown once it is over.
    pub failures: Option<u32>,
    /// When it was accepted.
    pub created_at: Micros,
    /// When it is or was due.
    pub due_at: Micros,
    /// When it ended.
    pub finished_at: Option<Micros>,
    /// Who runs or ran it.
    pub node: Option<NodeId>,
    /// What went wrong last.
    pub last_error: Option<String>,
}

impl JobView {
    fn of(row: &Row) -> StoreResult<JobView> {
        Ok(JobView {
            id: JobId(row.get("id")?),
            state: row.word("state", JobState::from_word)?,
            kind: row.get("kind")?,
            manifest: row.get::<Option<i64>>("manifest_id")?.map(ManifestId),
            tick_at: row.get("tick_at")?,
            origin: row.word("origin", Origin::from_word)?,
            claim_no: row.get("claim_no")?,
            failures: row.get("failures")?,
            created_at: row.get("created_at")?,
            due_at: row.get("due_at")?,
            finished_at: row.get("finished_at")?,
            node: row.get::<Option<i64>>("node")?.map(NodeId),
            last_error: row.get("last_error")?,
        })
    }
}

/// One ended claim of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionView {
    /// Its number.
    pub claim_no: u32,
    /// Whether it ended the job.
    pub is_final: bool,
    /// How it ended.
    pub outcome: ExecutionOutcome,
    /// Who ran it.
    pub node: Option<NodeId>,
    /// What the handler returned.
    pub output: Option<String>,
    /// What kind of error.
    pub error_type: Option<String>,
    /// What it said.
    pub error_message: Option<String>,
    /// The family of errors it belongs to.
    pub fingerprint: Option<String>,
    /// When it was claimed.
    pub claimed_at: Option<Micros>,
    /// When it ended.
    pub finished_at: Micros,
}

/// A job with its input and its claims.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDetail {
    /// The job.
    pub job: JobView,
    /// What its handler gets; `None` once the job is over and the input was short.
    pub input: Option<String>,
    /// Its ended claims, oldest first.
    pub executions: Vec<ExecutionView>,
}

/// A manifest in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestView {
    /// Its row.
    pub id: ManifestId,
    /// Its key.
    pub key: Name,
    /// What it says, or why that cannot be read: one broken row must not hide the others.
    pub manifest: Result<Manifest, String>,
    /// Waits for a person to look at its dead letter.
    pub held: bool,
    /// The next tick.
    pub next_due_at: Option<Micros>,
    /// When one of its jobs last completed.
    pub last_success_at: Option<Micros>,
    /// Which one.
    pub last_success_job: Option<JobId>,
}

/// What became of a tick, or of a range of ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickView {
    /// The tick, or the first of a skipped range.
    pub tick_at: Micros,
    /// The last of a skipped range.
    pub until_tick_at: Option<Micros>,
    /// The job it became.
    pub job: Option<JobId>,
    /// Why it became none.
    pub skip_reason: Option<String>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its name; `*` is everybody's.
    pub name: String,
    /// Its limit.
    pub limit: Option<u32>,
    /// Its priority.
    pub priority: u8,
    /// Its switch.
    pub enabled: bool,
    /// Its jobs that are handed out now.
    pub active: u64,
}

/// A dead letter in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterView {
    /// Its id.
    pub id: DeadLetterId,
    /// Its job.
    pub job: JobId,
    /// Key of its manifest.
    pub manifest: Option<String>,
    /// The kind of work.
    pub kind: String,
    /// Why it died.
    pub reason: DeadReason,
    /// The family of errors.
    pub fingerprint: Option<String>,
    /// awaiting, revived or acknowledged.
    pub status: String,
    /// What a person wrote.
    pub note: Option<String>,
    /// Tries that failed.
    pub failures: u32,
    /// Workers that vanished.
    pub crashes: u32,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When it died.
    pub dead_at: Micros,
    /// When it was resolved.
    pub resolved_at: Option<Micros>,
    /// By whom.
    pub resolved_by: Option<String>,
}

/// A node in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Its machine.
    pub host: String,
    /// When it started.
    pub started_at: Micros,
    /// When it was last heard of, on the database's clock.
    pub seen_at: Micros,
    /// What time it is there now.
    pub now: Micros,
}

/// A statement that only reads.
struct Look {
    statement: Statement,
    params: Vec<Value>,
}

impl Verb for Look {
    type Answer = Vec<Row>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Row>> {
        session.rows(self.statement, self.params.clone()).await
    }
}

/// The last item's key if the page is full, and so may not be the last.
fn next_of<T, C>(items: &[T], most: u32, key: impl Fn(&T) -> C) -> Option<C> {
    (items.len() >= most as usize).then(|| items.last().map(key)).flatten()
}

impl Store {
    async fn look(&self, statement: Statement, params: Vec<Value>) -> StoreResult<Vec<Row>> {
        self.db.read(Look { statement, params }).await
    }

    /// Jobs, newest first, waiting, running, dead and over, before `before` if given.
    pub async fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<JobId>,
        most: u32,
    ) -> StoreResult<Page<JobView, JobId>> {
        let most = most.clamp(1, PAGE_MAX);
        let states = filter.states.iter().map(|state| state.as_str().to_owned()).collect::<Vec<_>>();
        let params = vec![
            Value::Int(Some(before.map_or(i64::MAX, |before| before.0))),
            Value::Int(Some(i64::from(most))),
            Value::Int(Some(i64::from(WINDOW))),
            Value::MaybeTexts((!states.is_empty()).then_some(states)),
            Value::Text(filter.kind.as_ref().map(ToString::to_string)),
            Value::Int(filter.manifest.map(|id| id.0)),
            Value::Int(None),
        ];
        let rows = self.look(Statement::ListJobs, params).await?;
        let seen_down_to = rows.first().map_or(Ok(None), |row| row.get::<Option<i64>>("seen_down_to"))?;
        let mut items = Vec::new();
        for row in &rows {
            if row.get::<Option<i64>>("id")?.is_some() {
                items.push(JobView::of(row)?);
            }
        }
        let next = next_of(&items, most, |job| job.id).or(seen_down_to.map(JobId));
        Ok(Page { items, next })
    }

    /// One job with its input and its ended claims.
    pub async fn job(&self, id: JobId) -> StoreResult<Option<JobDetail>> {
        let mut found = self.look(Statement::GetJob, vec![Value::Int(Some(id.0))]).await?;
        if found.is_empty() {
            // It may have been on its way from one table to the other.
            found = self.look(Statement::GetJob, vec![Value::Int(Some(id.0))]).await?;
        }
        let Some(row) = found.first() else { return Ok(None) };
        let params = vec![Value::Int(Some(id.0)), Value::Int(Some(i64::from(PAGE_MAX)))];
        let executions = self.look(Statement::ListExecutions, params).await?;
        Ok(Some(JobDetail {
            job: JobView::of(row)?,
            input: row.get("input")?,
            executions: executions.iter().map(execution_of).collect::<StoreResult<_>>()?,
        }))
    }

    /// Manifests by key.
    pub async fn manifests(&self, after: Option<&Name>, most: u32) -> StoreResult<Page<ManifestView, Name>> {
        let most = most.clamp(1, PAGE_MAX);
        let after = after.map(ToString::to_string).unwrap_or_default();
        let params = vec![Value::Text(Some(after)), Value::Int(Some(i64::from(most)))];
        let rows = self.look(Statement::ListManifests, params).await?;
        let of = |row: &Row| {
            Ok(ManifestView {
                id: ManifestId(row.get("id")?),
                key: row.word("key", |key| Name::new(key).ok())?,
                manifest: manifest_of(row).map_err(|error| error.to_string()),
                held: row.get("held")?,
                next_due_at: row.get("next_due_at")?,
                last_success_at: row.get("last_success_at")?,
                last_success_job: row.get::<Option<i64>>("last_success_job_id")?.map(JobId),
            })
        };
        let items = rows.iter().map(of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |view| view.key.clone());
        Ok(Page { items, next })
    }

    /// What became of a manifest's ticks, newest first.
    pub async fn ticks(
        &self,
        manifest: ManifestId,
        before: Option<Micros>,
        most: u32,
    ) -> StoreResult<Page<TickView, Micros>> {
        let most = most.clamp(1, PAGE_MAX);
        let params =
            vec![Value::Int(Some(manifest.0)), Value::Time(before), Value::Int(Some(i64::from(most)))];
        let rows = self.look(Statement::ListTicks, params).await?;
        let of = |row: &Row| {
            Ok(TickView {
                tick_at: row.get("tick_at")?,
                until_tick_at: row.get("until_tick_at")?,
                job: row.get::<Option<i64>>("job_id")?.map(JobId),
                skip_reason: row.get("skip_reason")?,
            })
        };
        let items = rows.iter().map(of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |tick| tick.tick_at);
        Ok(Page { items, next })
    }

    /// Groups by name.
    pub async fn groups(&self, after: Option<&str>, most: u32) -> StoreResult<Page<GroupView, String>> {
        let most = most.clamp(1, PAGE_MAX);
        let params =
            vec![Value::Text(Some(after.unwrap_or_default().to_owned())), Value::Int(Some(i64::from(most)))];
        let rows = self.look(Statement::ListGroups, params).await?;
        let of = |row: &Row| {
            Ok(GroupView {
                name: row.get("name")?,
                limit: row.get("max_active")?,
                priority: row.get("priority")?,
                enabled: row.get("enabled")?,
                active: row.get("active")?,
            })
        };
        let items = rows.iter().map(of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |group| group.name.clone());
        Ok(Page { items, next })
    }

    /// Dead letters, newest first; `status` is awaiting, revived or acknowledged.
    pub async fn dead_letters(
        &self,
        status: Option<&str>,
        before: Option<DeadLetterId>,
        most: u32,
    ) -> StoreResult<Page<DeadLetterView, DeadLetterId>> {
        let most = most.clamp(1, PAGE_MAX);
        let params = vec![
            Value::Int(Some(before.map_or(i64::MAX, |before| before.0))),
            Value::Text(status.map(str::to_owned)),
            Value::Int(Some(i64::from(most))),
        ];
        let rows = self.look(Statement::ListDeadLetters, params).await?;
        let items = rows.iter().map(dead_letter_of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |letter| letter.id);
        Ok(Page { items, next })
    }

    /// Nodes, last seen first.
    pub async fn nodes(&self, most: u32) -> StoreResult<Vec<NodeView>> {
        let params = vec![Value::Int(Some(i64::from(most.clamp(1, PAGE_MAX))))];
        let of = |row: &Row| {
            Ok(NodeView {
                id: NodeId(row.get("id")?),
                name: row.get("name")?,
                host: row.get("host")?,
                started_at: row.get("started_at")?,
                seen_at: row.get("seen_at")?,
                now: row.get("now")?,
            })
        };
        self.look(Statement::ListNodes, params).await?.iter().map(of).collect()
    }
}

fn execution_of(row: &Row) -> StoreResult<ExecutionView> {
    Ok(ExecutionView {
        claim_no: row.get("claim_no")?,
        is_final: row.get("final")?,
        outcome: row.word("outcome", ExecutionOutcome::from_word)?,
        node: row.get::<Option<i64>>("node")?.map(NodeId),
        output: row.get("output")?,
        error_type: row.get("error_type")?,
        error_message: row.get("error_message")?,
        fingerprint: row.get("fingerprint")?,
        claimed_at: row.get("claimed_at")?,
        finished_at: row.get("finished_at")?,
    })
}

fn dead_letter_of(row: &Row) -> StoreResult<DeadLetterView> {
    Ok(DeadLetterView {
        id: DeadLetterId(row.get("id")?),
        job: JobId(row.get("job_id")?),
        manifest: row.get("manifest_key")?,
        kind: row.get("kind")?,
        reason: row.word("reason", DeadReason::from_word)?,
        fingerprint: row.get("fingerprint")?,
        status: row.get("status")?,
        note: row.get("note")?,
        failures: row.get("failures")?,
        crashes: row.get("crashes")?,
        last_error: row.get("last_error")?,
        dead_at: row.get("dead_at")?,
        resolved_at: row.get("resolved_at")?,
        resolved_by: row.get("resolved_by")?,
    })
}
