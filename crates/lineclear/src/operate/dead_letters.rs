//! revive, acknowledge: what people do with dead letters.

use std::collections::HashSet;

use lineclear_model::{DeadReason, Micros, Name, Payload};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::store::{DeadLetterId, JobId, Store, StoreResult};
use crate::validate;

/// How to bring dead letters back.
#[derive(Clone, Debug, Default)]
pub struct Revival {
    /// Who does it.
    pub by: String,
    /// Not before; `None` is now.
    pub due_at: Option<Micros>,
    /// Another input, for all of them; `None` leaves each its own.
    pub input: Option<Payload>,
    /// What they want to say about it.
    pub note: Option<String>,
}

/// Which dead letters. All that is given must fit; nothing given fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Of this kind.
    pub kind: Option<Name>,
    /// Of the manifest with this key.
    pub manifest: Option<Name>,
    /// Of this group.
    pub group: Option<Name>,
    /// With this family of errors.
    pub fingerprint: Option<String>,
    /// That died for this reason.
    pub reason: Option<DeadReason>,
    /// That died before.
    pub before: Option<Micros>,
}

impl DeadLetterFilter {
    /// As statements take it: kind, manifest, group, fingerprint, reason, died before.
    pub(crate) fn params(&self) -> [Value; 6] {
        let name = |name: &Option<Name>| Value::Text(name.as_ref().map(ToString::to_string));
        [
            name(&self.kind),
            name(&self.manifest),
            name(&self.group),
            Value::Text(self.fingerprint.clone()),
            Value::Text(self.reason.map(|reason| reason.as_str().to_owned())),
            Value::Time(self.before),
        ]
    }
}

/// A dead letter that was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The dead letter.
    pub id: DeadLetterId,
    /// Its job.
    pub job: JobId,
}

/// Verb: dead letters → work_queue. Those that were not awaiting are left out of the answer.
pub(crate) struct Revive {
    pub(crate) ids: Vec<DeadLetterId>,
    pub(crate) revival: Revival,
}

impl Verb for Revive {
    type Answer = Vec<Resolved>;

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Resolved>> {
        let params = vec![
            ids(&self.ids),
            Value::Text(Some(self.revival.by.clone())),
            Value::Time(self.revival.due_at),
            Value::Text(self.revival.input.as_ref().map(|input| input.as_str().to_owned())),
            Value::Text(self.revival.note.clone()),
        ];
        let rows = session.rows(Statement::Revive, params).await?;
        release_manifests(session, &rows).await?;
        rows.iter().map(resolved).collect()
    }
}

/// Verb: dead letters are seen, and rest.
pub(crate) struct Acknowledge {
    pub(crate) ids: Vec<DeadLetterId>,
    pub(crate) by: String,
    pub(crate) note: Option<String>,
}

impl Verb for Acknowledge {
    type Answer = Vec<Resolved>;

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Resolved>> {
        let params = vec![ids(&self.ids), Value::Text(Some(self.by.clone())), Value::Text(self.note.clone())];
        let rows = session.rows(Statement::Acknowledge, params).await?;
        release_manifests(session, &rows).await?;
        rows.iter().map(resolved).collect()
    }
}

/// Verb: the next dead letters that match. Only looks.
pub(crate) struct Find {
    pub(crate) filter: DeadLetterFilter,
    pub(crate) after: i64,
    /// The newest of the first batch.
    pub(crate) newest: Option<i64>,
    pub(crate) most: u32,
}

/// Dead letters that were found, and the newest there is, found or not.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) ids: Vec<DeadLetterId>,
    pub(crate) newest: Option<i64>,
}

impl Verb for Find {
    type Answer = Found;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Found> {
        let mut params = vec![Value::Int(Some(self.after)), Value::Int(self.newest)];
        params.extend(self.filter.params());
        params.push(Value::Int(Some(i64::from(self.most))));
        let mut found = Found::default();
        for row in session.rows(Statement::FindDeadLetters, params).await? {
            found.ids.push(DeadLetterId(row.get("id")?));
            found.newest = row.get("newest")?;
        }
        Ok(found)
    }
}

fn ids(ids: &[DeadLetterId]) -> Value {
    Value::Ints(ids.iter().map(|id| id.0).collect())
}

fn resolved(row: &Row) -> StoreResult<Resolved> {
    Ok(Resolved { id: DeadLetterId(row.get("id")?), job: JobId(row.get("job_id")?) })
}

/// Lets manifests go on that had only these dead letters to wait for.
async fn release_manifests(session: &mut Session, rows: &[Row]) -> StoreResult<()> {
    let mut manifests = HashSet::new();
    for row in rows {
        manifests.extend(row.get::<Option<i64>>("manifest_id")?);
    }
    if manifests.is_empty() {
        return Ok(());
    }
    let manifests: Vec<i64> = manifests.into_iter().collect();
    session.rows(Statement::ManifestLock, vec![Value::Ints(manifests.clone())]).await?;
    session.rows(Statement::ManifestRelease, vec![Value::Ints(manifests)]).await?;
    Ok(())
}

/// Dead letters that one transaction resolves when all that match are.
const DEAD_LETTERS_PER_BATCH: u32 = 500;

/// Dead letters that one call resolves at most when all that match are: whoever asks is answered, however many there are.
pub const DEAD_LETTERS_PER_CALL: u64 = 5_000;

/// How many of the dead letters that match were resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedCount {
    /// So many.
    pub count: u64,
    /// There are more that match: ask again.
    pub more: bool,
}

impl Store {
    /// Brings dead letters back; those that were not awaiting are left out of the answer.
    pub async fn revive(&self, ids: Vec<DeadLetterId>, revival: Revival) -> StoreResult<Vec<Resolved>> {
        validate::check_batch(ids.len())?;
        [Some(revival.by.as_str()), revival.note.as_deref()]
            .into_iter()
            .flatten()
            .try_for_each(validate::check_text)?;
        validate::check_due_at(revival.due_at)?;
        let resolved = self.run(Revive { ids, revival }).await?;
        self.orders_changed().await;
        Ok(resolved)
    }

    /// Brings back awaiting dead letters that match, oldest first, a batch at a time and [`DEAD_LETTERS_PER_CALL`] at most. One
    /// that dies again meanwhile is not brought back again by this call; give `before` to leave it out of the next ones, too.
    pub async fn revive_matching(
        &self,
        filter: &DeadLetterFilter,
        revival: Revival,
    ) -> StoreResult<ResolvedCount> {
        let (mut after, mut count) = (None, 0);
        while let Some(ids) = self.matching(filter, &mut after).await? {
            if count >= DEAD_LETTERS_PER_CALL {
                return Ok(ResolvedCount { count, more: true });
            }
            count += self.revive(ids, revival.clone()).await?.len() as u64;
        }
        Ok(ResolvedCount { count, more: false })
    }

    /// Lets dead letters rest; those that were not awaiting are left out of the answer.
    pub async fn acknowledge(
        &self,
        ids: Vec<DeadLetterId>,
        by: &str,
        note: Option<&str>,
    ) -> StoreResult<Vec<Resolved>> {
        validate::check_batch(ids.len())?;
        [Some(by), note].into_iter().flatten().try_for_each(validate::check_text)?;
        let verb = Acknowledge { ids, by: by.to_owned(), note: note.map(str::to_owned) };
        let resolved = self.run(verb).await?;
        // Manifests that these held may be due.
        self.orders_changed().await;
        Ok(resolved)
    }

    /// Lets awaiting dead letters that match rest, oldest first, a batch at a time and [`DEAD_LETTERS_PER_CALL`] at most.
    pub async fn acknowledge_matching(
        &self,
        filter: &DeadLetterFilter,
        by: &str,
        note: Option<&str>,
    ) -> StoreResult<ResolvedCount> {
        let (mut after, mut count) = (None, 0);
        while let Some(ids) = self.matching(filter, &mut after).await? {
            if count >= DEAD_LETTERS_PER_CALL {
                return Ok(ResolvedCount { count, more: true });
            }
            count += self.acknowledge(ids, by, note).await?.len() as u64;
        }
        Ok(ResolvedCount { count, more: false })
    }

    /// The next batch of dead letters that match; `place` is where the last one ended, and the newest of the first.
    async fn matching(
        &self,
        filter: &DeadLetterFilter,
        place: &mut Option<(i64, i64)>,
    ) -> StoreResult<Option<Vec<DeadLetterId>>> {
        filter.fingerprint.as_deref().map_or(Ok(()), validate::check_text)?;
        let (filter, most) = (filter.clone(), DEAD_LETTERS_PER_BATCH);
        let (after, newest) = (place.map_or(0, |place| place.0), place.map(|place| place.1));
        let found = self.db.read(Find { filter, after, newest, most }).await?;
        let last = found.ids.last().map(|id| id.0);
        *place = last.zip(found.newest);
        Ok(last.map(|_| found.ids))
    }
}
