//! pause, resume: a manifest and its waiting jobs step aside, and come back.

use lineclear_model::{Manifest, Micros, Name, SkipReason, plan_start};

use crate::db::statements::Statement;
use crate::db::{Column, Session, Value, Verb};
use crate::journey::plan::firing;
use crate::journey::plan::firing::SkippedRange;
use crate::manifests::upsert::{Stored, lock_states, read};
use crate::store::{BATCH, Store, StoreResult};

/// Verb: pause or resume manifests. Returns those that exist, and limit keys whose jobs may now try.
pub(crate) struct Switch {
    pub(crate) keys: Vec<Name>,
    pub(crate) enabled: bool,
}

pub(crate) struct Switched {
    pub(crate) found: Vec<Name>,
    pub(crate) limit_keys: Vec<String>,
}

impl Verb for Switch {
    type Answer = Switched;

    async fn run(&self, session: &mut Session) -> StoreResult<Switched> {
        lock_states(session, self.keys.iter()).await?;
        let mut stored = read(session, self.keys.iter()).await?;
        stored.retain(|_, stored| !stored.removed);
        let changing: Vec<&Stored> = stored.values().filter(|s| s.enabled != self.enabled).collect();
        if !changing.is_empty() {
            self.write(session, &changing).await?;
        }
        // Of all that were named, not only of those that change: saying it again mends what went wrong before.
        let ids = stored.values().map(|stored| stored.id).collect();
        let limit_keys = move_jobs(session, ids, self.enabled).await?;
        Ok(Switched { found: stored.into_keys().collect(), limit_keys })
    }
}

impl Switch {
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
        for row in session.rows(statement, vec![Value::Ints(manifests)]).await? {
            limit_keys.extend(row.get::<Option<String>>("limit_key")?);
        }
    }
    Ok(limit_keys)
}

/// Where a manifest goes on that starts anew: decided up to, next due.
pub(crate) fn from_now_on(manifest: &Manifest, now: Micros) -> (Micros, Option<Micros>) {
    let start = plan_start(&manifest.rules(), now);
    (start.planned_through, start.next_due_at)
}

/// Ticks up to now that were not planned and will not be: skipped, and recorded as such.
pub(crate) fn skipped_until_now(stored: &Stored, reason: SkipReason) -> Option<SkippedRange> {
    let schedule = &stored.manifest.as_ref().ok()?.schedule;
    let from = schedule.next_after(stored.planned_through)?;
    let until = schedule.last_through(stored.now)?;
    (from <= until).then_some(SkippedRange { manifest_id: stored.id, from, until, reason })
}

/// Verb: jobs that were parked because nobody knew their kind wait again, for a node that does; returns how many.
pub(crate) struct UnparkKinds {
    pub(crate) kinds: Vec<Name>,
    pub(crate) most: u32,
}

impl Verb for UnparkKinds {
    type Answer = u64;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<u64> {
        let kinds = self.kinds.iter().map(ToString::to_string).collect();
        let params = vec![Value::Texts(kinds), Value::Int(Some(i64::from(self.most)))];
        let rows = session.rows(Statement::UnparkKinds, params).await?;
        Ok(u64::try_from(rows.len()).expect("a count fits"))
    }
}

/// Verb: jobs that are parked although their manifest runs wait again like all others; returns how many.
pub(crate) struct UnparkForgotten(pub(crate) u32);

impl Verb for UnparkForgotten {
    type Answer = u64;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<u64> {
        let rows =
            session.rows(Statement::UnparkForgotten, vec![Value::Int(Some(i64::from(self.0)))]).await?;
        Ok(u64::try_from(rows.len()).expect("a count fits"))
    }
}

impl Store {
    /// Jobs that were parked because nobody knew their kind wait again, up to `most`; returns how many.
    pub async fn unpark_kinds(&self, kinds: Vec<Name>, most: u32) -> StoreResult<u64> {
        self.run(UnparkKinds { kinds, most: most.min(BATCH) }).await
    }

    /// Pauses manifests: no new ticks, and waiting jobs step aside. Returns those that exist.
    pub async fn pause(&self, keys: Vec<Name>) -> StoreResult<Vec<Name>> {
        self.switch(keys, false).await
    }

    /// Resumes manifests. Ticks that fell into the pause are skipped.
    pub async fn resume(&self, keys: Vec<Name>) -> StoreResult<Vec<Name>> {
        self.switch(keys, true).await
    }

    async fn switch(&self, keys: Vec<Name>, enabled: bool) -> StoreResult<Vec<Name>> {
        let switched = self.run(Switch { keys, enabled }).await?;
        self.wake_or_warn(switched.limit_keys).await;
        self.orders_changed().await;
        Ok(switched.found)
    }
}
