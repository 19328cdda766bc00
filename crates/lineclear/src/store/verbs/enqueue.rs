//! enqueue: a caller → work_queue.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lineclear_model::job::Origin;
use lineclear_model::{Micros, Name, Payload};

use crate::store::db::{Column, Session, Value, Verb};
use crate::store::sql::Statement;
use crate::store::{JobId, StoreError, StoreResult};

/// Things that one call may be given: jobs, settlements, manifests.
pub const BATCH_MAX: usize = 10_000;

/// A job to be.
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
    /// At most one job with this key lives at a time; a second one gets the first one's id.
    pub unique_key: Option<UniqueKey>,
    /// At most so many jobs with this key are active at a time: one, or what was set for the key.
    pub limit_key: Option<String>,
    /// Tries after the first; `None` leaves it to the kind.
    pub retries: Option<u32>,
    /// Longest run; `None` leaves it to the kind.
    pub timeout: Option<Duration>,
    /// Trace context of the caller.
    pub trace: Option<String>,
    /// Words to find it by.
    pub tags: Option<String>,
}

/// A key that only one living job may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// The key.
    pub key: String,
    /// Keeps the key at least so long, even if the job ends before: an idempotency key. `None`: while the job lives.
    pub keep: Option<Duration>,
}

/// What became of a job that was enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The job that does the work.
    pub id: JobId,
    /// Its unique key was taken: this is the job that has it, and nothing new was queued.
    pub existing: bool,
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
            unique_key: None,
            limit_key: None,
            retries: None,
            timeout: None,
            trace: None,
            tags: None,
        }
    }
}

/// The route of whoever names none.
pub fn main_route() -> Name {
    Name::new("main").expect("main is a name")
}

/// A row of `work_queue` as it is written, whoever makes it.
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
    pub(crate) limit_key: Option<String>,
    pub(crate) unique_key: Option<String>,
    pub(crate) retries: Option<i64>,
    pub(crate) timeout_ms: Option<i64>,
    pub(crate) trace: Option<String>,
    pub(crate) tags: Option<String>,
}

/// Writes rows; returns the id of each, or `None` where a fresh row found its manifest's place taken.
pub(crate) async fn queue(session: &mut Session, rows: &[QueueRow]) -> StoreResult<Vec<Option<JobId>>> {
    let mut ids = vec![None; rows.len()];
    if rows.is_empty() {
        return Ok(ids);
    }
    for row in session.rows(Statement::Enqueue, columns(rows)).await? {
        let turn: usize = row.get("turn")?;
        ids[turn] = Some(JobId(row.get("id")?));
    }
    Ok(ids)
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
    ]
}

/// What enqueueing jobs in somebody else's transaction takes.
pub(crate) fn for_transaction(jobs: &[NewJob], group_ids: &HashMap<Name, i64>) -> StoreResult<Vec<Column>> {
    if jobs.iter().any(|job| job.unique_key.is_some()) {
        let why =
            "a unique key cannot be taken here; call lineclear.enqueue(…) in SQL, or Store::enqueue outside";
        return Err(StoreError::refused("unique_key", why));
    }
    let rows = jobs.iter().map(|job| row(job, None, group_ids)).collect::<StoreResult<Vec<_>>>()?;
    Ok(columns(&rows))
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
        let owners = take_keys(session, &self.jobs).await?;
        let mut queued_keys = HashSet::new();
        let mut rows = Vec::with_capacity(self.jobs.len());
        let mut answer: Vec<Option<Enqueued>> = vec![None; self.jobs.len()];
        let mut places = Vec::with_capacity(self.jobs.len());
        for (place, job) in self.jobs.iter().enumerate() {
            let owner = job.unique_key.as_ref().map(|unique| &owners[&unique.key]);
            if let (Some(unique), Some(owner)) = (&job.unique_key, owner)
                && (!owner.ours || !queued_keys.insert(&unique.key))
            {
                answer[place] = Some(Enqueued { id: owner.id, existing: true });
                continue;
            }
            rows.push(row(job, owner.map(|owner| owner.id.0), &self.group_ids)?);
            places.push(place);
        }
        for (place, id) in places.into_iter().zip(queue(session, &rows).await?) {
            let id =
                id.ok_or_else(|| StoreError::Corrupt { what: "an ad-hoc job was not queued".to_owned() })?;
            answer[place] = Some(Enqueued { id, existing: false });
        }
        Ok(answer.into_iter().flatten().collect())
    }
}

struct Owner {
    id: JobId,
    ours: bool,
}

/// Takes the unique keys of a batch, and tells for each whose it is.
async fn take_keys(session: &mut Session, jobs: &[NewJob]) -> StoreResult<HashMap<String, Owner>> {
    let mut wanted: HashMap<&str, Option<i64>> = HashMap::new();
    for unique in jobs.iter().filter_map(|job| job.unique_key.as_ref()) {
        wanted.entry(&unique.key).or_insert(unique.keep.map(millis));
    }
    let mut owners = HashMap::new();
    if wanted.is_empty() {
        return Ok(owners);
    }
    let keys = wanted.keys().map(|key| Some((*key).to_owned())).collect();
    let keeps = wanted.values().copied().collect();
    let taken = session.rows(Statement::EnqueueKeys, vec![Column::Texts(keys), Column::Ints(keeps)]).await?;
    for row in taken {
        owners.insert(row.get("key")?, Owner { id: JobId(row.get("job_id")?), ours: true });
    }
    let others: Vec<String> =
        wanted.keys().filter(|key| !owners.contains_key(**key)).map(|key| (*key).to_owned()).collect();
    if !others.is_empty() {
        let missing = others.len();
        let rows = session.rows(Statement::EnqueueOwners, vec![Value::Texts(others)]).await?;
        if rows.len() < missing {
            // Freed between the two statements: the caller's next try will get it.
            return Err(StoreError::Contended { source: "a unique key was freed at this moment".into() });
        }
        for row in rows {
            owners.insert(row.get("key")?, Owner { id: JobId(row.get("job_id")?), ours: false });
        }
    }
    Ok(owners)
}

fn row(job: &NewJob, id: Option<i64>, group_ids: &HashMap<Name, i64>) -> StoreResult<QueueRow> {
    let group_id = match &job.group {
        Some(group) => Some(*group_ids.get(group).ok_or_else(|| {
            StoreError::refused(
                "group_unknown",
                format!("there is no group {group}; declare it before jobs use it"),
            )
        })?),
        None => None,
    };
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
        limit_key: job.limit_key.clone(),
        unique_key: job.unique_key.as_ref().map(|unique| unique.key.clone()),
        retries: job.retries.map(i64::from),
        timeout_ms: job.timeout.map(millis),
        trace: job.trace.clone(),
        tags: job.tags.clone(),
    })
}

/// Longest time that statements reckon with, in milliseconds: a thousand years. "For ever" is longer, and added to a
/// date it would be out of either database's range.
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
pub(crate) async fn group_ids(session: &mut Session, names: &[Name]) -> StoreResult<HashMap<Name, i64>> {
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let names = names.iter().map(ToString::to_string).collect();
    let rows = session.rows(Statement::GroupIds, vec![Value::Texts(names)]).await?;
    rows.iter().map(|row| Ok((row.word("name", |n| Name::new(n).ok())?, row.get("id")?))).collect()
}
