//! The state of a lease: its row, compared with what the store of the lock says.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::record::{LeaseRecord, LeaseState};
use super::updates::LeaseFilter;
use super::{Inner, Registry};
use crate::backend::Inspection;
use crate::error::LockError;
use crate::locks::Core;
use crate::name::{Epoch, LockName};

/// After which time a doubtful row is read again.
const SECOND_READ: Duration = Duration::from_millis(600);

/// What the store of a lock says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreAnswer {
    /// It could not be asked.
    Unknown,
    /// The lock is free.
    Free,
    /// This holder has it.
    HeldBy(String),
}

impl StoreAnswer {
    fn of(asked: bool, inspection: Option<&Inspection>) -> StoreAnswer {
        match inspection {
            _ if !asked => StoreAnswer::Unknown,
            Some(seen) if seen.holding.ends_in.is_some() => StoreAnswer::HeldBy(seen.holding.holder.clone()),
            _ => StoreAnswer::Free,
        }
    }
}

pub(super) fn reconcile(lease: &LeaseRecord, answer: &StoreAnswer) -> LeaseState {
    let is_holder = |holder: &String| *holder == lease.holder();
    match (answer, lease.released_at.is_some(), lease.is_quiet()) {
        (StoreAnswer::HeldBy(holder), ..) if !is_holder(holder) => LeaseState::Drift,
        (StoreAnswer::Free | StoreAnswer::Unknown, true, _) => LeaseState::Idle,
        (StoreAnswer::Free, false, _) => LeaseState::Orphan,
        // The same node has released it and acquired it again a moment ago.
        (StoreAnswer::HeldBy(_), true, _) => LeaseState::Held,
        (StoreAnswer::HeldBy(_) | StoreAnswer::Unknown, false, true) => LeaseState::Stale,
        (StoreAnswer::HeldBy(_) | StoreAnswer::Unknown, false, false) => LeaseState::Held,
    }
}

/// Whether a fresh row contradicts the store of the lock.
fn is_doubtful(lease: &LeaseRecord) -> bool {
    matches!(lease.state, LeaseState::Drift | LeaseState::Orphan) && !lease.is_quiet()
}

/// What stays the same unless the lock changes hands.
fn facts(lease: &LeaseRecord) -> (LeaseState, Epoch, Option<Epoch>) {
    (lease.state, lease.epoch, lease.inspection.as_ref().map(|seen| seen.holding.epoch))
}

impl Registry {
    /// Reads leases and their states. Rows are written a moment after the fact, so a contradiction counts only if a second read finds the
    /// same one.
    pub(super) async fn reconciled(&self, filter: LeaseFilter) -> Result<Vec<LeaseRecord>, LockError> {
        let first = self.read(&filter).await?;
        if !first.iter().any(is_doubtful) {
            return Ok(first);
        }
        self.0.runtime.sleep(SECOND_READ).await;
        let mut leases = self.read(&filter).await?;
        for lease in leases.iter_mut().filter(|lease| is_doubtful(lease)) {
            let (lock, seen) = ((&lease.name, &lease.store), facts(lease));
            // The lock has changed hands between the two reads: the row is only late.
            if !first.iter().any(|before| (&before.name, &before.store) == lock && facts(before) == seen) {
                lease.state = reconcile(lease, &StoreAnswer::Unknown);
            }
        }
        Ok(leases)
    }

    async fn read(&self, filter: &LeaseFilter) -> Result<Vec<LeaseRecord>, LockError> {
        let (inner, filter) = (self.0.clone(), filter.clone());
        let read = self.0.runtime.run(async move { inner.timely(inner.tables.leases(&filter)).await }).await;
        let mut leases = self.or_empty(read).await?;
        self.0.inspect_stores(&mut leases).await;
        Ok(leases)
    }
}

impl Inner {
    /// Inspects the locks of these leases, in one call for each store, and sets the leases' states.
    pub(super) async fn inspect_stores(&self, leases: &mut [LeaseRecord]) {
        let mut by_store: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, lease) in leases.iter().enumerate() {
            by_store.entry(lease.store.as_str()).or_default().push(index);
        }
        let mut seen: Vec<(usize, Option<Inspection>)> = Vec::new();
        for (store, indexes) in by_store {
            let Some(core) = self.lock_store(store) else { continue };
            let names = indexes.iter().filter_map(|index| LockName::new(&leases[*index].name).ok()).collect();
            match core.inspect(names).await {
                Ok(inspected) => seen.extend(indexes.into_iter().zip(inspected)),
                Err(error) => tracing::warn!(%error, store, "cannot inspect the locks of a store"),
            }
        }
        let mut asked = vec![false; leases.len()];
        for (index, inspection) in seen {
            asked[index] = true;
            leases[index].inspection = inspection;
        }
        for (lease, asked) in leases.iter_mut().zip(asked) {
            lease.state = reconcile(lease, &StoreAnswer::of(asked, lease.inspection.as_ref()));
        }
    }

    fn lock_store(&self, store: &str) -> Option<Arc<Core>> {
        let mut stores = self.lock_stores();
        stores.retain(|(_, core)| core.strong_count() > 0);
        stores.iter().find(|(name, _)| **name == *store).and_then(|(_, core)| core.upgrade())
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn lease(released: bool, quiet: bool) -> LeaseRecord {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        LeaseRecord {
            name: "a".to_owned(),
            store: "postgres".to_owned(),
            state: LeaseState::Held,
            node: "m/1".to_owned(),
            machine: "m".to_owned(),
            pid: 1,
            incarnation: "i".to_owned(),
            kind: None,
            epoch: Epoch::new(1),
            since: at,
            acquired_at: at,
            renewed_at: at,
            released_at: released.then_some(at),
            renewed_ago: Duration::from_millis(if quiet { 15_100 } else { 14_900 }),
            renew_every: Duration::from_secs(5),
            holds: 1,
            contended: 0,
            contended_at: None,
            inspection: None,
        }
    }

    #[test]
    fn each_state_follows_from_the_row_and_what_the_store_says() {
        let us = || StoreAnswer::HeldBy("m/1/i".to_owned());
        let other = || StoreAnswer::HeldBy("m/1/j".to_owned());
        let cases = [
            (false, false, us(), LeaseState::Held),
            (false, false, StoreAnswer::Unknown, LeaseState::Held),
            (false, false, StoreAnswer::Free, LeaseState::Orphan),
            (false, false, other(), LeaseState::Drift),
            (false, true, us(), LeaseState::Stale),
            (false, true, StoreAnswer::Unknown, LeaseState::Stale),
            (false, true, StoreAnswer::Free, LeaseState::Orphan),
            (false, true, other(), LeaseState::Drift),
            (true, false, StoreAnswer::Free, LeaseState::Idle),
            (true, false, StoreAnswer::Unknown, LeaseState::Idle),
            (true, true, StoreAnswer::Free, LeaseState::Idle),
            (true, false, us(), LeaseState::Held),
            (true, true, other(), LeaseState::Drift),
        ];
        for (released, quiet, answer, state) in cases {
            let reconciled = reconcile(&lease(released, quiet), &answer);
            assert_eq!(reconciled, state, "released {released}, quiet {quiet}, {answer:?}");
        }
    }
}
