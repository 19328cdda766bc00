//! enqueue: a caller → work_queue.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use lineclear_model::job::Origin;
use lineclear_model::{Micros, Name, Outcome, Payload};

use crate::db::statements::Statement;
use crate::db::{Column, Executor, Session, Value, Verb, values};
use crate::journey::enqueue::unique_key;
pub use crate::journey::enqueue::unique_key::{OnConflict, UniqueKey};
use crate::store::{JobId, StoreError, StoreResult};

/// Most items of one call: jobs, settlements, manifests.
pub const BATCH_MAX: usize = 10_000;

/// A job to enqueue.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The kind of work.
    pub kind: Name,
    /// The lane it waits in.
    pub route: Name,
    /// What the handler gets.
    pub input: Payload,
    /// The group whose limit, priority and switch it shares.
    pub group: Option<Name>,
    /// 0 to 31; each step is worth ten minutes of waiting.
    pub priority: u8,
    /// Not before; `None` is now.
    pub due_at: Option<Micros>,
    /// Not before so long after `due_at`. Without that, the database adds it to its own clock: clocks of programs may differ.
    pub delay: Option<Duration>,
    /// At most one job with this key is alive at a time; for a second one, the key says what happens: by default, the caller
    /// gets the id of the first.
    pub unique_key: Option<UniqueKey>,
    /// Limits how many jobs with this key are active at a time: one, unless a limit was set for the key.
    pub limit_key: Option<String>,
    /// Tries after the first; `None` leaves it to the kind.
    pub retries: Option<u32>,
    /// Longest run; `None` leaves it to the kind.
    pub timeout: Option<Duration>,
    /// Trace context of the caller.
    pub trace: Option<String>,
    /// Words to find it by: names, with one space between two.
    pub tags: Option<String>,
}

/// The result of enqueueing a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The job that does the work.
    pub id: JobId,
    /// Whether it is a new one.
    pub result: EnqueueResult,
    /// The outcome of its handler, if the jobs of its kind run inline.
    pub outcome: Option<Outcome>,
}

/// Whether a job was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnqueueResult {
    /// It is a new job.
    Inserted,
    /// Its unique key was taken: this is the job that has it, and nothing was changed.
    Existing,
    /// Its unique key was taken by a job that still waited: that one has the new input, due time and priority now.
    Replaced,
}

impl Enqueued {
    /// Nothing was queued or changed: another job has the unique key.
    pub fn existing(&self) -> bool {
        self.result == EnqueueResult::Existing
    }
}

impl NewJob {
    /// A job of `kind`, due now, on the route `main`, without a group.
    pub fn new(kind: Name, input: Payload) -> NewJob {
        NewJob {
            kind,
            route: main_route(),
            input,
            group: None,
            priority: 0,
            due_at: None,
            delay: None,
            unique_key: None,
            limit_key: None,
            retries: None,
            timeout: None,
            trace: None,
            tags: None,
        }
    }
}

/// The default route.
pub fn main_route() -> Name {
    Name::new("main").expect("main is a name")
}

/// A row of `work_queue` to insert, from a caller, the planner, a parent or a trigger.
pub(crate) struct QueueRow {
    pub(crate) id: Option<i64>,
    pub(crate) manifest_id: Option<i64>,
    pub(crate) tick_at: Option<Micros>,
    pub(crate) origin: Origin,
    pub(crate) fresh: bool,
    pub(crate) kind: String,
    pub(crate) route: String,
    pub(crate) input: String,
    pub(crate) group_id: Option<i64>,
    pub(crate) priority: i64,
    pub(crate) due_at: Option<Micros>,
    /// After `due_at`, or after now.
    pub(crate) delay: Option<Duration>,
    pub(crate) limit_key: Option<String>,
    pub(crate) unique_key: Option<String>,
    pub(crate) retries: Option<i64>,
    pub(crate) timeout_ms: Option<i64>,
    pub(crate) trace: Option<String>,
    pub(crate) tags: Option<String>,
}

/// Writes rows; returns the id of each, or `None` for a fresh row whose manifest has one already.
pub(crate) async fn queue(session: &mut impl Executor, rows: &[QueueRow]) -> StoreResult<Vec<Option<JobId>>> {
    if let [row] = rows
        && !row.fresh
    {
        let rows = session.rows(Statement::EnqueueOne, values_of(row).into()).await?;
        return rows.iter().map(|row| Ok(Some(JobId(row.get("id")?)))).collect();
    }
    let mut ids = vec![None; rows.len()];
    if rows.is_empty() {
        return Ok(ids);
    }
    for row in session.rows(Statement::Enqueue, columns(rows).into()).await? {
        let turn: usize = row.get("turn")?;
        ids[turn] = Some(JobId(row.get("id")?));
    }
    Ok(ids)
}

/// The parameters of a statement for one row that is not fresh.
fn values_of(row: &QueueRow) -> Vec<Value> {
    values![
        row.id,
        row.manifest_id,
        row.tick_at,
        row.origin.as_str(),
        &row.kind,
        &row.route,
        &row.input,
        row.group_id,
        row.priority,
        row.due_at,
        row.limit_key.clone(),
        row.unique_key.clone(),
        row.retries,
        row.timeout_ms,
        row.trace.clone(),
        row.tags.clone(),
        row.delay.map(millis),
    ]
}

fn columns(rows: &[QueueRow]) -> Vec<Column> {
    let texts = |of: fn(&QueueRow) -> Option<String>| Column::Texts(rows.iter().map(of).collect());
    let ints = |of: fn(&QueueRow) -> Option<i64>| Column::Ints(rows.iter().map(of).collect());
    let times = |of: fn(&QueueRow) -> Option<Micros>| Column::Times(rows.iter().map(of).collect());
    vec![
        ints(|r| r.id),
        ints(|r| r.manifest_id),
        times(|r| r.tick_at),
        texts(|r| Some(r.origin.as_str().to_owned())),
        Column::Bools(rows.iter().map(|r| r.fresh).collect()),
        texts(|r| Some(r.kind.clone())),
        texts(|r| Some(r.route.clone())),
        texts(|r| Some(r.input.clone())),
        ints(|r| r.group_id),
        ints(|r| Some(r.priority)),
        times(|r| r.due_at),
        texts(|r| r.limit_key.clone()),
        texts(|r| r.unique_key.clone()),
        ints(|r| r.retries),
        ints(|r| r.timeout_ms),
        texts(|r| r.trace.clone()),
        texts(|r| r.tags.clone()),
        ints(|r| r.delay.map(millis)),
    ]
}

/// Verb: enqueue many jobs, all or none.
pub(crate) struct Enqueue {
    pub(crate) jobs: Vec<NewJob>,
    pub(crate) group_ids: HashMap<Name, i64>,
}

impl Verb for Enqueue {
    type Answer = Vec<Enqueued>;

    fn is_transaction(&self) -> bool {
        self.jobs.iter().any(|job| job.unique_key.is_some())
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Enqueued>> {
        enqueue(session, &self.jobs, &self.group_ids, false).await
    }
}

/// Enqueues jobs, in our transaction or the caller's (`theirs`). After an error, some rows may be written: the caller rolls
/// back.
pub(crate) async fn enqueue(
    session: &mut impl Executor,
    jobs: &[NewJob],
    group_ids: &HashMap<Name, i64>,
    theirs: bool,
) -> StoreResult<Vec<Enqueued>> {
    let owners = unique_key::acquire(session, jobs, theirs).await?;
    let mut rows: Vec<QueueRow> = Vec::with_capacity(jobs.len());
    let mut row_of_key: HashMap<&str, usize> = HashMap::new();
    let mut replacements: BTreeMap<JobId, &NewJob> = BTreeMap::new();
    // Where each job's answer comes from: a row, or the job that has its key.
    let mut sources: Vec<(Option<usize>, JobId, EnqueueResult)> = Vec::with_capacity(jobs.len());
    for (n, job) in jobs.iter().enumerate() {
        let row = |id| row(job, id, group_ids).map_err(|error| error.of_job(n, "group"));
        let owner = job.unique_key.as_ref().and_then(|unique| Some((unique, owners.get(&unique.key)?)));
        let Some((unique, owner)) = owner else {
            sources.push((Some(rows.len()), JobId(0), EnqueueResult::Inserted));
            rows.push(row(None)?);
            continue;
        };
        match row_of_key.get(unique.key.as_str()) {
            None if owner.ours => {
                row_of_key.insert(&unique.key, rows.len());
                sources.push((None, owner.id, EnqueueResult::Inserted));
                rows.push(row(Some(owner.id.0))?);
                continue;
            }
            // The same key twice in one batch.
            Some(earlier) if unique.on_conflict == OnConflict::Replace => {
                let earlier = &mut rows[*earlier];
                if earlier.kind != job.kind.as_str() {
                    return Err(unique_key::taken(unique, owner.id));
                }
                earlier.input = job.input.as_str().to_owned();
                (earlier.priority, earlier.due_at) = (i64::from(job.priority), job.due_at);
                earlier.delay = job.delay;
                sources.push((None, owner.id, EnqueueResult::Replaced));
                continue;
            }
            _ => owner.admit(unique, job)?,
        }
        if unique.on_conflict == OnConflict::Replace {
            replacements.insert(owner.id, job);
        }
        sources.push((None, owner.id, EnqueueResult::Existing));
    }
    let ids = queue(session, &rows).await?;
    let replaced = unique_key::replace(session, &replacements).await?;
    let answer = |(row, id, result): (Option<usize>, JobId, EnqueueResult), job: &NewJob| {
        let id = row.map_or(Some(id), |at| ids[at]);
        let id = id.ok_or_else(|| StoreError::Corrupt { what: "an ad-hoc job was not queued".to_owned() })?;
        let wants = job.unique_key.as_ref().is_some_and(|unique| unique.on_conflict == OnConflict::Replace);
        let was_replaced = result == EnqueueResult::Existing && wants && replaced.contains(&id);
        let result = if was_replaced { EnqueueResult::Replaced } else { result };
        Ok(Enqueued { id, result, outcome: None })
    };
    sources.into_iter().zip(jobs).map(|(source, job)| answer(source, job)).collect()
}

/// The id of a job's group.
pub(crate) fn group_id(job: &NewJob, group_ids: &HashMap<Name, i64>) -> StoreResult<Option<i64>> {
    let Some(group) = &job.group else { return Ok(None) };
    let why = || format!("there is no group {group}; declare it before jobs use it");
    group_ids.get(group).copied().map(Some).ok_or_else(|| StoreError::refused("group_unknown", why()))
}

fn row(job: &NewJob, id: Option<i64>, group_ids: &HashMap<Name, i64>) -> StoreResult<QueueRow> {
    let group_id = group_id(job, group_ids)?;
    Ok(QueueRow {
        id,
        manifest_id: None,
        tick_at: None,
        origin: Origin::Adhoc,
        fresh: false,
        kind: job.kind.to_string(),
        route: job.route.to_string(),
        input: job.input.as_str().to_owned(),
        group_id,
        priority: i64::from(job.priority),
        due_at: job.due_at,
        delay: job.delay,
        limit_key: job.limit_key.clone(),
        unique_key: job.unique_key.as_ref().map(|unique| unique.key.clone()),
        retries: job.retries.map(i64::from),
        timeout_ms: job.timeout.map(millis),
        trace: job.trace.clone(),
        tags: job.tags.clone(),
    })
}

/// The longest duration in statements, in milliseconds: a thousand years. A longer one, added to a date, would exceed the
/// range of the databases.
const MILLIS_MAX: i64 = 1_000 * 365 * 86_400_000;

/// Milliseconds, rounded up so that a short time is not none at all.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).map_or(MILLIS_MAX, |ms| ms.min(MILLIS_MAX))
}

/// Verb: ids of groups by name.
pub(crate) struct GroupIds(pub(crate) Vec<Name>);

impl Verb for GroupIds {
    type Answer = HashMap<Name, i64>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<HashMap<Name, i64>> {
        group_ids(session, &self.0).await
    }
}

/// Ids of groups by name; a group that does not exist is absent.
pub(crate) async fn group_ids(
    session: &mut impl Executor,
    names: &[Name],
) -> StoreResult<HashMap<Name, i64>> {
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let names = names.iter().map(ToString::to_string).collect();
    let rows = session.rows(Statement::GroupIds, vec![Value::Texts(names)].into()).await?;
    rows.iter().map(|row| Ok((row.word("name", |n| Name::new(n).ok())?, row.get("id")?))).collect()
}
