//! What the row says, against what the store of the lock says.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::record::{LeaseRecord, LeaseState};
use super::table::LeaseFilter;
use super::{Inner, Registry};
use crate::backend::Inspection;
use crate::error::LockError;
use crate::locks::Core;
use crate::name::{Epoch, LockName};

/// After which time what seems wrong is looked at again.
const SECOND_LOOK: Duration = Duration::from_millis(600);

/// What the store of a lock says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreAnswer {
    /// It could not be asked.
    Nothing,
    /// Nobody has it.
    Free,
    /// Somebody of this name has it.
    HeldBy(String),
}

pub(super) fn judge(lease: &LeaseRecord, said: &StoreAnswer) -> LeaseState {
    let is_holder = |who: &String| *who == lease.holder();
    match (said, lease.released_at.is_some(), lease.is_quiet()) {
        (StoreAnswer::HeldBy(who), ..) if !is_holder(who) => LeaseState::Drift,
        (StoreAnswer::Free | StoreAnswer::Nothing, true, _) => LeaseState::Idle,
        (StoreAnswer::Free, false, _) => LeaseState::Orphan,
        // Released and taken again a moment ago by the same node.
        (StoreAnswer::HeldBy(_), true, _) => LeaseState::Held,
        (StoreAnswer::HeldBy(_) | StoreAnswer::Nothing, false, true) => LeaseState::Stale,
        (StoreAnswer::HeldBy(_) | StoreAnswer::Nothing, false, false) => LeaseState::Held,
    }
}

/// Whether the row says something else than the store of the lock, and is fresh.
fn is_doubtful(lease: &LeaseRecord) -> bool {
    matches!(lease.state, LeaseState::Drift | LeaseState::Orphan) && !lease.is_quiet()
}

/// What does not change while nobody takes the lock.
fn facts(lease: &LeaseRecord) -> (LeaseState, Epoch, Option<Epoch>) {
    (lease.state, lease.epoch, lease.inspection.as_ref().map(|seen| seen.holding.epoch))
}

fn said(asked: bool, seen: Option<&Inspection>) -> StoreAnswer {
    match seen {
        _ if !asked => StoreAnswer::Nothing,
        Some(seen) if seen.holding.ends_in.is_some() => StoreAnswer::HeldBy(seen.holding.holder.clone()),
        _ => StoreAnswer::Free,
    }
}

impl Registry {
    /// Rows are written a moment after the fact: what seems wrong is wrong if it seems so twice.
    pub(super) async fn judged(&self, which: LeaseFilter) -> Result<Vec<LeaseRecord>, LockError> {
        let first = self.read(&which).await?;
        if !first.iter().any(is_doubtful) {
            return Ok(first);
        }
        self.0.runtime.sleep(SECOND_LOOK).await;
        let mut leases = self.read(&which).await?;
        for lease in leases.iter_mut().filter(|lease| is_doubtful(lease)) {
            let (lock, seen) = ((&lease.name, &lease.store), facts(lease));
            // Somebody has taken it anew meanwhile: the row is only behind.
            if !first.iter().any(|before| (&before.name, &before.store) == lock && facts(before) == seen) {
                lease.state = judge(lease, &StoreAnswer::Nothing);
            }
        }
        Ok(leases)
    }

    async fn read(&self, which: &LeaseFilter) -> Result<Vec<LeaseRecord>, LockError> {
        let (inner, which) = (self.0.clone(), which.clone());
        let read = self.0.runtime.run(async move { inner.within(inner.table.leases(&which)).await }).await;
        let mut leases = self.or_nothing(read).await?;
        self.0.inspect_stores(&mut leases).await;
        Ok(leases)
    }
}

impl Inner {
    /// Asks each store about its locks, in one question each, and says what is to be thought of them. A store that does not answer is
    /// one that cannot be asked.
    pub(super) async fn inspect_stores(&self, leases: &mut [LeaseRecord]) {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, lease) in leases.iter().enumerate() {
            places.entry(lease.store.as_str()).or_default().push(place);
        }
        let mut seen: Vec<(usize, Option<Inspection>)> = Vec::new();
        for (store, places) in places {
            let Some(core) = self.lock_store(store) else { continue };
            let names = places.iter().filter_map(|place| LockName::new(&leases[*place].name).ok()).collect();
            match core.inspect(names).await {
                Ok(inspected) => seen.extend(places.into_iter().zip(inspected)),
                Err(error) => {
                    tracing::warn!(%error, store, "a store of locks cannot be asked who holds them")
                }
            }
        }
        let mut asked = vec![false; leases.len()];
        for (place, inspection) in seen {
            asked[place] = true;
            leases[place].inspection = inspection;
        }
        for (lease, asked) in leases.iter_mut().zip(asked) {
            lease.state = judge(lease, &said(asked, lease.inspection.as_ref()));
        }
    }

    fn lock_store(&self, store: &str) -> Option<Arc<Core>> {
        let mut lock_stores = self.lock_stores();
        lock_stores.retain(|(_, core)| core.strong_count() > 0);
        lock_stores.iter().find(|(name, _)| **name == *store).and_then(|(_, core)| core.upgrade())
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Row;
    use super::*;

    fn lease(released: bool, quiet: bool) -> LeaseRecord {
        let us = 1_000_000_000;
        LeaseRecord::from(Row {
            name: "a".to_owned(),
            store: "postgres".to_owned(),
            node: "m/1".to_owned(),
            machine: "m".to_owned(),
            pid: 1,
            incarnation: "i".to_owned(),
            kind: None,
            epoch: 1,
            renew_ms: 5_000,
            holds: 1,
            contended: 0,
            since_us: us,
            acquired_us: us,
            renewed_us: us,
            released_us: released.then_some(us),
            contended_us: None,
            now_us: us + if quiet { 15_100_000 } else { 14_900_000 },
        })
    }

    #[test]
    fn each_state_follows_from_the_row_and_what_the_store_says() {
        let us = || StoreAnswer::HeldBy("m/1/i".to_owned());
        let other = || StoreAnswer::HeldBy("m/1/j".to_owned());
        let cases = [
            (false, false, us(), LeaseState::Held),
            (false, false, StoreAnswer::Nothing, LeaseState::Held),
            (false, false, StoreAnswer::Free, LeaseState::Orphan),
            (false, false, other(), LeaseState::Drift),
            (false, true, us(), LeaseState::Stale),
            (false, true, StoreAnswer::Nothing, LeaseState::Stale),
            (false, true, StoreAnswer::Free, LeaseState::Orphan),
            (false, true, other(), LeaseState::Drift),
            (true, false, StoreAnswer::Free, LeaseState::Idle),
            (true, false, StoreAnswer::Nothing, LeaseState::Idle),
            (true, true, StoreAnswer::Free, LeaseState::Idle),
            (true, false, us(), LeaseState::Held),
            (true, true, other(), LeaseState::Drift),
        ];
        for (released, quiet, said, state) in cases {
            let judged = judge(&lease(released, quiet), &said);
            assert_eq!(judged, state, "released {released}, quiet {quiet}, {said:?}");
        }
    }
}
