//! Jobs: lists and details.

use lineclear_model::explain::HolderRole;
use lineclear_model::job::{JobState, Origin};
use lineclear_model::query::{Names, Query as SearchQuery};
use lineclear_model::secret::Secrets;
use lineclear_model::{Micros, Name, Spec};

use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::read::{ExecutionView, PAGE_MAX, Page};
use crate::store::{JobId, ManifestId, NodeId, ProgressView, Store, StoreResult};

/// Selects jobs by state and kind; [`Store::search`] takes a query.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<JobState>,
    /// Of this kind.
    pub kind: Option<Name>,
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Its state.
    pub state: JobState,
    /// The kind of work, as it is stored.
    pub kind: String,
    /// Its manifest.
    pub manifest: Option<ManifestId>,
    /// The key of its manifest.
    pub manifest_key: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its route; unknown once it has completed or was cancelled.
    pub route: Option<String>,
    /// Its limit key; unknown once it has ended.
    pub limit_key: Option<String>,
    /// Its phase while it waits: later, ready, held or parked.
    pub phase: Option<String>,
    /// The tick it was planned for.
    pub tick_at: Option<Micros>,
    /// What made it.
    pub origin: Origin,
    /// Claims so far.
    pub claim_no: u32,
    /// Failed attempts since it was accepted or revived; unknown once it has ended.
    pub failures: Option<u32>,
    /// When it was accepted.
    pub created_at: Micros,
    /// When it is or was due.
    pub due_at: Micros,
    /// When it ended.
    pub finished_at: Option<Micros>,
    /// The node that runs or ran it.
    pub node: Option<NodeId>,
    /// The name of that node, if its row still exists.
    pub node_name: Option<String>,
    /// Its last error.
    pub last_error: Option<String>,
    /// Its progress, while it runs and if its handler reports any.
    pub progress: Option<ProgressView>,
}

impl JobView {
    pub(crate) fn of(row: &Row) -> StoreResult<JobView> {
        Ok(JobView {
            id: JobId(row.get("id")?),
            state: row.word("state", JobState::from_word)?,
            kind: row.get("kind")?,
            manifest: row.get::<Option<i64>>("manifest_id")?.map(ManifestId),
            manifest_key: row.get("manifest_key")?,
            group: row.get("group_name")?,
            tags: tags_of(row)?,
            route: row.get("route")?,
            limit_key: row.get("limit_key")?,
            phase: row.get("phase")?,
            tick_at: row.get("tick_at")?,
            origin: row.word("origin", Origin::from_word)?,
            claim_no: row.get("claim_no")?,
            failures: row.get("failures")?,
            created_at: row.get("created_at")?,
            due_at: row.get("due_at")?,
            finished_at: row.get("finished_at")?,
            node: row.get::<Option<i64>>("node")?.map(NodeId),
            node_name: row.get("node_name")?,
            last_error: row.get("last_error")?,
            progress: progress_of(row)?,
        })
    }
}

fn tags_of(row: &Row) -> StoreResult<Vec<String>> {
    let text: Option<String> = row.get("tags")?;
    Ok(text.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect())
}

pub(crate) fn progress_of(row: &Row) -> StoreResult<Option<ProgressView>> {
    let text: Option<String> = row.get("progress")?;
    // An unreadable progress must not hide the job.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// A recorded step of a job's handler.
#[derive(Clone, Debug, PartialEq)]
pub struct StepView {
    /// Its name.
    pub name: String,
    /// The claim that ran it last.
    pub claim_no: u32,
    /// What it returned, as JSON; `None`: it failed.
    pub output: Option<String>,
    /// Its error.
    pub error: Option<String>,
    /// When it began.
    pub started_at: Micros,
    /// When it ended.
    pub finished_at: Micros,
}

fn step_of(row: &Row) -> StoreResult<StepView> {
    Ok(StepView {
        name: row.get("name")?,
        claim_no: row.get("claim_no")?,
        output: row.get("output")?,
        error: row.get("error")?,
        started_at: row.get("started_at")?,
        finished_at: row.get("finished_at")?,
    })
}

/// A job with its input, executions and steps.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDetail {
    /// The job.
    pub job: JobView,
    /// Its input.
    pub input: Option<String>,
    /// Its executions, oldest first; of more than [`crate::read::PAGE_MAX`] the last ones.
    pub executions: Vec<ExecutionView>,
    /// The recorded steps of its handler, in order.
    pub steps: Vec<StepView>,
    /// Which fields of its input and outputs must not be shown.
    pub secrets: Secrets,
    /// When it was claimed; `None`: it does not run.
    pub claimed_at: Option<Micros>,
    /// What holds it, or held it last.
    pub holder: HolderRole,
    /// Its name in the system that has accepted it, while it runs.
    pub external_id: Option<String>,
    /// The database's clock.
    pub now: Micros,
}

/// The fields that the job's manifest marks or once marked as secret; its row stays when it is removed. If it cannot be read,
/// everything is secret.
fn secrets_of(row: &Row) -> StoreResult<Secrets> {
    let manifest: Option<i64> = row.get("manifest_id")?;
    let spec: Option<String> = row.get("spec")?;
    Ok(match (manifest, spec) {
        (None, _) => Secrets::by_name(),
        (Some(_), Some(spec)) => Secrets::marked(&Spec::secret_fields(&spec)),
        (Some(_), None) => Secrets::all(),
    })
}

/// What the node of a job is.
pub(crate) fn holder_role(row: &Row) -> StoreResult<HolderRole> {
    Ok(HolderRole::of_roles(row.get::<Option<String>>("node_roles")?.as_deref().unwrap_or_default()))
}

impl Store {
    /// Jobs in any state, newest first, before `before` if given.
    pub async fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<JobId>,
        most: u32,
    ) -> StoreResult<Page<JobView, JobId>> {
        let kind =
            Names { any_of: filter.kind.iter().map(ToString::to_string).collect(), none_of: Vec::new() };
        let states = (!filter.states.is_empty()).then(|| filter.states.clone());
        let found =
            self.search(&SearchQuery { states, kind, ..SearchQuery::default() }, before, most).await?;
        Ok(Page { items: found.items, next: found.next })
    }

    /// The state of a job; `None`: there is no such job, or its history was cleaned.
    pub async fn job_state(&self, id: JobId) -> StoreResult<Option<JobState>> {
        let read =
            || Query::first(Statement::JobState, values![id.0], |row| row.word("state", JobState::from_word));
        match self.db.read(read()).await? {
            // The job may have been moving between tables.
            None => self.db.read(read()).await,
            found => Ok(found),
        }
    }

    /// One job with its input, its last executions and its steps.
    pub async fn job(&self, id: JobId) -> StoreResult<Option<JobDetail>> {
        let mut found = self.read_rows(Statement::GetJob, values![id.0]).await?;
        if found.is_empty() {
            // The job may have been moving between tables.
            found = self.read_rows(Statement::GetJob, values![id.0]).await?;
        }
        let Some(row) = found.first() else { return Ok(None) };
        let executions = self.last_executions(id, PAGE_MAX).await?;
        let steps = self.db.read(Query::each(Statement::ListSteps, values![id.0, PAGE_MAX], step_of)).await?;
        Ok(Some(JobDetail {
            job: JobView::of(row)?,
            input: row.get("input")?,
            executions,
            steps,
            secrets: secrets_of(row)?,
            claimed_at: row.get("claimed_at")?,
            holder: holder_role(row)?,
            external_id: row.get("external_id")?,
            now: row.get("now")?,
        }))
    }
}
