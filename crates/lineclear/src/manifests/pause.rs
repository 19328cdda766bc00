//! Pause and resume manifests with their waiting jobs; unpark jobs.

use lineclear_model::{Manifest, Micros, Name, SkipReason, plan_start};

use crate::db::statements::Statement;
use crate::db::{Column, Query, Session, Verb, values};
use crate::journey::plan::firing;
use crate::journey::plan::firing::SkippedRange;
use crate::manifests::stored::{Stored, lock_states, read};
use crate::store::{BATCH, Store, StoreResult};

/// Pauses or resumes manifests. Returns those that exist, and limit keys that may have free capacity now.
pub(crate) struct SetEnabled {
    pub(crate) keys: Vec<Name>,
    pub(crate) enabled: bool,
}

pub(crate) struct EnabledSet {
    pub(crate) found: Vec<Name>,
    pub(crate) limit_keys: Vec<String>,
}

impl Verb for SetEnabled {
    type Answer = EnabledSet;

    async fn run(&self, session: &mut Session) -> StoreResult<EnabledSet> {
        lock_states(session, self.keys.iter()).await?;
        let mut stored = read(session, self.keys.iter()).await?;
        stored.retain(|_, stored| !stored.removed);
        let changing: Vec<&Stored> = stored.values().filter(|s| s.enabled != self.enabled).collect();
        if !changing.is_empty() {
            self.write(session, &changing).await?;
        }
        // The jobs of all named manifests, not only of those that change: repeating the call repairs an earlier failure.
        let ids: Vec<i64> = stored.values().map(|stored| stored.id).collect();
        let limit_keys = move_jobs(session, ids, self.enabled).await?;
        Ok(EnabledSet { found: stored.into_keys().collect(), limit_keys })
    }
}

impl SetEnabled {
    async fn write(&self, session: &mut Session, changing: &[&Stored]) -> StoreResult<()> {
        let mut columns = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut ranges = Vec::new();
        for stored in changing {
            let mut through = stored.planned_through;
            let mut next_due_at = stored.next_due_at;
            if self.enabled {
                ranges.extend(skipped_until_now(stored, SkipReason::Disabled));
                (through, next_due_at) = from_now_on(stored.readable()?, stored.now);
            }
            columns.0.push(Some(stored.id));
            columns.1.push(self.enabled);
            columns.2.push(Some(through));
            columns.3.push(next_due_at);
        }
        firing::fire(session, Vec::new(), ranges).await?;
        let columns = vec![
            Column::Ints(columns.0),
            Column::Bools(columns.1),
            Column::Times(columns.2),
            Column::Times(columns.3),
        ];
        session.rows(Statement::ManifestSwitch, columns).await.map(drop)
    }
}

/// Parks or unparks the waiting jobs of manifests; returns their limit keys.
pub(crate) async fn move_jobs(
    session: &mut Session,
    manifests: Vec<i64>,
    enabled: bool,
) -> StoreResult<Vec<String>> {
    let mut limit_keys = Vec::new();
    if !manifests.is_empty() {
        let statement = if enabled { Statement::Unpark } else { Statement::Park };
        for row in session.rows(statement, values![manifests]).await? {
            limit_keys.extend(row.get::<Option<String>>("limit_key")?);
        }
    }
    Ok(limit_keys)
}

/// Where planning starts for a new or resumed manifest: planned through, next due.
pub(crate) fn from_now_on(manifest: &Manifest, now: Micros) -> (Micros, Option<Micros>) {
    let start = plan_start(&manifest.rules(), now);
    (start.planned_through, start.next_due_at)
}

/// The unplanned ticks up to now, to be recorded as skipped.
pub(crate) fn skipped_until_now(stored: &Stored, reason: SkipReason) -> Option<SkippedRange> {
    let schedule = &stored.manifest.as_ref().ok()?.schedule;
    let from = schedule.next_after(stored.planned_through)?;
    let until = schedule.last_through(stored.now)?;
    (from <= until).then_some(SkippedRange { manifest_id: stored.id, from, until, reason })
}

impl Store {
    /// Unparks up to `most` jobs that were parked because no node had a handler for their kind; returns how many.
    pub async fn unpark_kinds(&self, kinds: Vec<Name>, most: u32) -> StoreResult<u64> {
        let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        let params = values![kinds, most.min(BATCH)];
        self.run(Query::new(Statement::UnparkKinds, params, |rows| Ok(rows.len() as u64))).await
    }

    /// Pauses manifests: plans no new ticks, and parks their waiting jobs. Returns those that exist.
    pub async fn pause(&self, keys: Vec<Name>) -> StoreResult<Vec<Name>> {
        self.set_enabled(keys, false).await
    }

    /// Resumes manifests. Ticks that fell into the pause are skipped.
    pub async fn resume(&self, keys: Vec<Name>) -> StoreResult<Vec<Name>> {
        self.set_enabled(keys, true).await
    }

    async fn set_enabled(&self, keys: Vec<Name>, enabled: bool) -> StoreResult<Vec<Name>> {
        let answer = self.run(SetEnabled { keys, enabled }).await?;
        self.wake_or_warn(answer.limit_keys).await;
        self.notify_manifests_changed().await;
        Ok(answer.found)
    }
}
