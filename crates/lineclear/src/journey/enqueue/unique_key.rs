//! Unique keys: at most one job that is not over has a key, and a second job says what happens on a conflict.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::db::options::fnv1a;
use crate::db::statements::Statement;
use crate::db::{Column, Executor, Row, Value, values};
use crate::journey::enqueue::insert::{NewJob, millis};
use crate::store::{JobId, StoreError, StoreResult};

/// A key that only one living job may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// The key.
    pub key: String,
    /// Keeps the key at least so long, even if the job ends before. `None`: while the job lives.
    pub keep: Option<Duration>,
    /// What happens if another job has the key.
    pub on_conflict: OnConflict,
}

/// What happens to a job whose unique key another job has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Nothing is queued; the answer is the job that has the key.
    #[default]
    Existing,
    /// Like `Existing` if that job has the same kind and input; otherwise the new one is refused (`unique_key_conflict`).
    Same,
    /// It is refused (`unique_key_taken`), and the reason names the job that has the key.
    Refuse,
    /// If the job that has the key was never claimed, it gets this input, due time and priority, and keeps its id.
    /// Otherwise nothing is queued; the answer is the job that has the key.
    Replace,
}

impl UniqueKey {
    /// A key that its job has while it lives; a second job gets the first one's id.
    pub fn new(key: impl Into<String>) -> UniqueKey {
        UniqueKey { key: key.into(), keep: None, on_conflict: OnConflict::Existing }
    }

    /// A key that makes a repeated call harmless for at least `keep`, and refuses another job under the same key.
    pub fn idempotency(key: impl Into<String>, keep: Duration) -> UniqueKey {
        UniqueKey { key: key.into(), keep: Some(keep), on_conflict: OnConflict::Same }
    }

    /// Keeps the key at least so long, even if its job ends before.
    pub fn keep(self, keep: Duration) -> UniqueKey {
        UniqueKey { keep: Some(keep), ..self }
    }

    /// What happens if another job has the key.
    pub fn on_conflict(self, on_conflict: OnConflict) -> UniqueKey {
        UniqueKey { on_conflict, ..self }
    }
}

/// The job that has a key.
pub(crate) struct Owner {
    pub(crate) id: JobId,
    /// Taken by this call.
    pub(crate) ours: bool,
    body_hash: Option<i64>,
}

impl Owner {
    fn of(row: &Row) -> StoreResult<(String, Owner)> {
        let owner = Owner { id: JobId(row.get("job_id")?), ours: false, body_hash: row.get("body_hash")? };
        Ok((row.get("key")?, owner))
    }

    /// Refuses a job under a key that it may not share.
    pub(crate) fn admit(&self, unique: &UniqueKey, job: &NewJob) -> StoreResult<()> {
        let UniqueKey { key, on_conflict, .. } = unique;
        match on_conflict {
            OnConflict::Refuse => Err(taken(unique, self.id)),
            OnConflict::Same if self.body_hash.is_some_and(|hash| hash != body_hash(job)) => {
                let why = format!("the key {key:?} was used for job {}, with another kind or input", self.id);
                Err(StoreError::refused("unique_key_conflict", why))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn taken(unique: &UniqueKey, id: JobId) -> StoreError {
    StoreError::refused("unique_key_taken", format!("the key {:?} is taken by job {id}", unique.key))
}

/// A hash of kind and input; a kind has no line break.
fn body_hash(job: &NewJob) -> i64 {
    fnv1a(&format!("{}\n{}", job.kind, job.input.as_str())).cast_signed()
}

/// Takes the unique keys of a batch, and returns the owner of each. `look_first`: without a lock on keys of other jobs, for
/// transactions that may be long.
pub(crate) async fn acquire(
    session: &mut impl Executor,
    jobs: &[NewJob],
    look_first: bool,
) -> StoreResult<HashMap<String, Owner>> {
    let mut wanted: BTreeMap<&str, (Option<i64>, i64)> = BTreeMap::new();
    for job in jobs {
        let Some(unique) = &job.unique_key else { continue };
        let body = wanted.entry(&unique.key).or_insert((unique.keep.map(millis), body_hash(job)));
        if unique.on_conflict == OnConflict::Replace {
            body.1 = body_hash(job);
        }
    }
    let mut owners = HashMap::new();
    if look_first && !wanted.is_empty() {
        for row in read(session, wanted.keys()).await? {
            if !row.get::<bool>("expired")? && !row.get::<bool>("gone")? {
                owners.extend([Owner::of(&row)?]);
            }
        }
        wanted.retain(|key, _| !owners.contains_key(*key));
    }
    let mut first = true;
    while !wanted.is_empty() {
        let columns = vec![
            Column::Texts(wanted.keys().map(|key| Some((*key).to_owned())).collect()),
            Column::Ints(wanted.values().map(|(keep, _)| *keep).collect()),
            Column::Ints(wanted.values().map(|(_, hash)| Some(*hash)).collect()),
        ];
        for row in session.rows(Statement::EnqueueKeys, columns.into()).await? {
            let key: String = row.get("key")?;
            let body_hash = wanted.remove(key.as_str()).map(|(_, hash)| hash);
            owners.insert(key, Owner { id: JobId(row.get("job_id")?), ours: true, body_hash });
        }
        if wanted.is_empty() {
            break;
        }
        let others = read(session, wanted.keys()).await?;
        if others.len() < wanted.len() {
            // Freed between the two statements: the next try will get it.
            return Err(StoreError::Contended { source: "a unique key was freed at this moment".into() });
        }
        let mut gone = Vec::new();
        for row in &others {
            if first && row.get("gone")? {
                gone.push(row.get::<String>("key")?);
            } else {
                owners.extend([Owner::of(row)?]);
            }
        }
        wanted.retain(|key, _| gone.iter().any(|gone| gone == key));
        if !gone.is_empty() {
            session.rows(Statement::EnqueueFree, values![gone].into()).await?;
        }
        first = false;
    }
    Ok(owners)
}

async fn read<'a>(
    session: &mut impl Executor,
    keys: impl Iterator<Item = &'a &'a str>,
) -> StoreResult<Vec<Row>> {
    let keys = keys.map(|key| (*key).to_owned()).collect();
    session.rows(Statement::EnqueueOwners, vec![Value::Texts(keys)].into()).await
}

/// Gives jobs that were never claimed another input, due time and priority; returns those that got it.
pub(crate) async fn replace(
    session: &mut impl Executor,
    jobs: &BTreeMap<JobId, &NewJob>,
) -> StoreResult<Vec<JobId>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let texts =
        |of: fn(&NewJob) -> &str| Column::Texts(jobs.values().map(|job| Some(of(job).to_owned())).collect());
    let columns = vec![
        Column::Ints(jobs.keys().map(|id| Some(id.0)).collect()),
        texts(|job| job.kind.as_str()),
        texts(|job| job.input.as_str()),
        Column::Ints(jobs.values().map(|job| Some(i64::from(job.priority))).collect()),
        Column::Times(jobs.values().map(|job| job.due_at).collect()),
        Column::Ints(jobs.values().map(|job| Some(body_hash(job))).collect()),
        Column::Ints(jobs.values().map(|job| job.delay.map(millis)).collect()),
    ];
    let mut replaced = Vec::new();
    for row in session.rows(Statement::EnqueueReplace, columns.into()).await? {
        let (id, kind) = (JobId(row.get("id")?), row.get::<String>("kind")?);
        let Some(job) = jobs.get(&id) else { continue };
        if kind != job.kind.as_str() {
            let why = format!(
                "job {id} has the key, and is of kind {kind}; it cannot become one of kind {}",
                job.kind
            );
            return Err(StoreError::refused("unique_key_taken", why));
        }
        if !row.get::<bool>("replaced")? {
            return Err(StoreError::Contended {
                source: format!("job {id} is being moved at this moment").into(),
            });
        }
        replaced.push(id);
    }
    Ok(replaced)
}
