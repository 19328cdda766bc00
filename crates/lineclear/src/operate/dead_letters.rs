//! Resolves dead letters: revive and acknowledge.

use std::collections::HashSet;
use std::time::Duration;

use lineclear_model::{DeadReason, Micros, Name, Payload};

use crate::db::statements::Statement;
use crate::db::{Query, Row, Session, Value, Verb, values};
use crate::journey::enqueue::insert::millis;
use crate::store::{DeadLetterId, JobId, Store, StoreResult};
use crate::validate;

/// How dead letters are revived.
#[derive(Clone, Debug, Default)]
pub struct Revival {
    /// Who revives them.
    pub by: String,
    /// When they are due; `None` is now.
    pub due_at: Option<Micros>,
    /// They are due so long after `due_at`; without that, after now by the database's clock.
    pub delay: Option<Duration>,
    /// A new input for all of them; `None` keeps each its own.
    pub input: Option<Payload>,
    /// A note.
    pub note: Option<String>,
}

/// Selects dead letters. All given conditions must match; no condition matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Of this kind.
    pub kind: Option<Name>,
    /// Of the manifest with this key.
    pub manifest: Option<Name>,
    /// Of this group.
    pub group: Option<Name>,
    /// With this fingerprint of the error.
    pub fingerprint: Option<String>,
    /// That died for this reason.
    pub reason: Option<DeadReason>,
    /// That died before this time.
    pub before: Option<Micros>,
}

impl DeadLetterFilter {
    /// As parameters: kind, manifest, group, fingerprint, reason, died before.
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

/// Moves awaiting dead letters back to the work queue; others are left out of the answer.
pub(crate) struct Revive {
    pub(crate) ids: Vec<DeadLetterId>,
    pub(crate) revival: Revival,
}

impl Verb for Revive {
    type Answer = Vec<Resolved>;

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Resolved>> {
        let Revival { by, due_at, delay, input, note } = &self.revival;
        let input = input.as_ref().map(|input| input.as_str());
        let params = values![ids(&self.ids), by, *due_at, input, note.as_deref(), delay.map(millis)];
        let rows = session.rows(Statement::Revive, params).await?;
        release_manifests(session, &rows).await?;
        rows.iter().map(resolved).collect()
    }
}

/// Acknowledges awaiting dead letters; others are left out of the answer.
pub(crate) struct Acknowledge {
    pub(crate) ids: Vec<DeadLetterId>,
    pub(crate) by: String,
    pub(crate) note: Option<String>,
}

impl Verb for Acknowledge {
    type Answer = Vec<Resolved>;

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Resolved>> {
        let params = values![ids(&self.ids), &self.by, self.note.as_deref()];
        let rows = session.rows(Statement::Acknowledge, params).await?;
        release_manifests(session, &rows).await?;
        rows.iter().map(resolved).collect()
    }
}

fn ids(ids: &[DeadLetterId]) -> Vec<i64> {
    ids.iter().map(|id| id.0).collect()
}

fn resolved(row: &Row) -> StoreResult<Resolved> {
    Ok(Resolved { id: DeadLetterId(row.get("id")?), job: JobId(row.get("job_id")?) })
}

/// Releases manifests that only these dead letters held.
async fn release_manifests(session: &mut Session, rows: &[Row]) -> StoreResult<()> {
    let mut manifests = HashSet::new();
    for row in rows {
        manifests.extend(row.get::<Option<i64>>("manifest_id")?);
    }
    if manifests.is_empty() {
        return Ok(());
    }
    let manifests: Vec<i64> = manifests.into_iter().collect();
    session.rows(Statement::ManifestLock, values![manifests.clone()]).await?;
    session.rows(Statement::ManifestRelease, values![manifests]).await?;
    Ok(())
}

/// Dead letters that one transaction resolves, where all that match are resolved.
const DEAD_LETTERS_PER_BATCH: u32 = 500;

/// Dead letters that one call resolves at most, where all that match are resolved: the call returns in bounded time.
pub const DEAD_LETTERS_PER_CALL: u64 = 5_000;

/// How many dead letters a call resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedCount {
    /// The number resolved.
    pub count: u64,
    /// More match: call again.
    pub more: bool,
}

impl Store {
    /// Revives dead letters; those that were not awaiting are left out of the answer.
    pub async fn revive(&self, ids: Vec<DeadLetterId>, revival: Revival) -> StoreResult<Vec<Resolved>> {
        validate::check_batch(ids.len())?;
        [Some(revival.by.as_str()), revival.note.as_deref()]
            .into_iter()
            .flatten()
            .try_for_each(validate::check_text)?;
        validate::check_due_at(revival.due_at)?;
        validate::check_delay(revival.delay)?;
        validate::check_input(revival.input.as_ref())?;
        let resolved = self.run(Revive { ids, revival }).await?;
        self.notify_manifests_changed().await;
        Ok(resolved)
    }

    /// Revives awaiting dead letters that match, oldest first, in batches, at most [`DEAD_LETTERS_PER_CALL`]. This call does not
    /// revive one again that dies meanwhile; set `before` to leave it out of further calls, too.
    pub async fn revive_matching(
        &self,
        filter: &DeadLetterFilter,
        revival: Revival,
    ) -> StoreResult<ResolvedCount> {
        let (mut position, mut count) = (None, 0);
        while let Some(ids) = self.next_batch(filter, &mut position).await? {
            if count >= DEAD_LETTERS_PER_CALL {
                return Ok(ResolvedCount { count, more: true });
            }
            count += self.revive(ids, revival.clone()).await?.len() as u64;
        }
        Ok(ResolvedCount { count, more: false })
    }

    /// Acknowledges dead letters; those that were not awaiting are left out of the answer.
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
        // Manifests that these dead letters held may be due.
        self.notify_manifests_changed().await;
        Ok(resolved)
    }

    /// Acknowledges awaiting dead letters that match, oldest first, in batches, at most [`DEAD_LETTERS_PER_CALL`].
    pub async fn acknowledge_matching(
        &self,
        filter: &DeadLetterFilter,
        by: &str,
        note: Option<&str>,
    ) -> StoreResult<ResolvedCount> {
        let (mut position, mut count) = (None, 0);
        while let Some(ids) = self.next_batch(filter, &mut position).await? {
            if count >= DEAD_LETTERS_PER_CALL {
                return Ok(ResolvedCount { count, more: true });
            }
            count += self.acknowledge(ids, by, note).await?.len() as u64;
        }
        Ok(ResolvedCount { count, more: false })
    }

    /// The next batch of dead letters that match. `position` is the last id of the previous batch, and the newest id at the time of
    /// the first.
    async fn next_batch(
        &self,
        filter: &DeadLetterFilter,
        position: &mut Option<(i64, i64)>,
    ) -> StoreResult<Option<Vec<DeadLetterId>>> {
        filter.fingerprint.as_deref().map_or(Ok(()), validate::check_text)?;
        let (after, newest) = (position.map_or(0, |(last, _)| last), position.map(|(_, newest)| newest));
        let mut params = values![after, newest];
        params.extend(filter.params());
        params.extend(values![DEAD_LETTERS_PER_BATCH]);
        let find = Query::each(Statement::FindDeadLetters, params, |row| {
            Ok((row.get("id")?, row.get::<Option<i64>>("newest")?))
        });
        let found: Vec<(i64, Option<i64>)> = self.db.read(find).await?;
        *position = found.last().and_then(|(last, newest)| Some(*last).zip(*newest));
        Ok((!found.is_empty()).then(|| found.into_iter().map(|(id, _)| DeadLetterId(id)).collect()))
    }
}
