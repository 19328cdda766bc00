//! What the row says, against what the store of the lock says.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::lease::{Lease, LeaseState};
use super::table::Which;
use super::{Inner, Registry};
use crate::backend::Inspection;
use crate::error::LockError;
use crate::locks::Core;
use crate::name::{Epoch, LockName};

/// After which time what seems wrong is looked at again.
const SECOND_LOOK: Duration = Duration::from_millis(600);

/// What the store of a lock says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It could not be asked.
    Nothing,
    /// Nobody has it.
    Free,
    /// Somebody of this name has it.
    HeldBy(String),
}

pub(super) fn judge(lease: &Lease, said: &Said) -> LeaseState {
    let is_holder = |who: &String| *who == lease.holder();
    match (said, lease.released_at.is_some(), lease.is_quiet()) {
        (Said::HeldBy(who), ..) if !is_holder(who) => LeaseState::Drift,
        (Said::Free | Said::Nothing, true, _) => LeaseState::Idle,
        (Said::Free, false, _) => LeaseState::Orphan,
        // Released and taken again a moment ago by the same node.
        (Said::HeldBy(_), true, _) => LeaseState::Held,
        (Said::HeldBy(_) | Said::Nothing, false, true) => LeaseState::Stale,
        (Said::HeldBy(_) | Said::Nothing, false, false) => LeaseState::Held,
    }
}

/// Whether the row says something else than the store of the lock, and is fresh.
fn is_doubtful(lease: &Lease) -> bool {
    matches!(lease.state, LeaseState::Drift | LeaseState::Orphan) && !lease.is_quiet()
}

/// What does not change while nobody takes the lock.
fn facts(lease: &Lease) -> (LeaseState, Epoch, Option<Epoch>) {
    (lease.state, lease.epoch, lease.engine.as_ref().map(|seen| seen.holding.epoch))
}

fn said(asked: bool, seen: Option<&Inspection>) -> Said {
    match seen {
        _ if !asked => Said::Nothing,
        Some(seen) if seen.holding.ends_in.is_some() => Said::HeldBy(seen.holding.holder.clone()),
        _ => Said::Free,
    }
}

impl Registry {
    /// Rows are written a moment after the fact: what seems wrong is wrong if it seems so twice.
    pub(super) async fn judged(&self, which: Which) -> Result<Vec<Lease>, LockError> {
        let first = self.read(&which).await?;
        if !first.iter().any(is_doubtful) {
            return Ok(first);
        }
        self.0.keeper.sleep(SECOND_LOOK).await;
        let mut leases = self.read(&which).await?;
        for lease in leases.iter_mut().filter(|lease| is_doubtful(lease)) {
            let (lock, seen) = ((&lease.name, &lease.store), facts(lease));
            // Somebody has taken it anew meanwhile: the row is only behind.
            if !first.iter().any(|before| (&before.name, &before.store) == lock && facts(before) == seen) {
                lease.state = judge(lease, &Said::Nothing);
            }
        }
        Ok(leases)
    }

    async fn read(&self, which: &Which) -> Result<Vec<Lease>, LockError> {
        let (inner, which) = (self.0.clone(), which.clone());
        let read = self.0.keeper.run(async move { inner.within(inner.table.leases(&which)).await }).await;
        let mut leases = self.or_nothing(read).await?;
        self.0.ask_engines(&mut leases).await;
        Ok(leases)
    }
}

impl Inner {
    /// Asks each store about its locks, in one question each, and says what is to be thought of them. A store that does not answer is
    /// one that cannot be asked.
    pub(super) async fn ask_engines(&self, leases: &mut [Lease]) {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, lease) in leases.iter().enumerate() {
            places.entry(lease.store.as_str()).or_default().push(place);
        }
        let mut seen: Vec<(usize, Option<Inspection>)> = Vec::new();
        for (store, places) in places {
            let Some(core) = self.engine(store) else { continue };
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
            leases[place].engine = inspection;
        }
        for (lease, asked) in leases.iter_mut().zip(asked) {
            lease.state = judge(lease, &said(asked, lease.engine.as_ref()));
        }
    }

    fn engine(&self, store: &str) -> Option<Arc<Core>> {
        let mut engines = self.engines();
        engines.retain(|(_, core)| core.strong_count() > 0);
        engines.iter().find(|(name, _)| **name == *store).and_then(|(_, core)| core.upgrade())
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Row;
    use super::*;

    fn lease(released: bool, quiet: bool) -> Lease {
        let us = 1_000_000_000;
        Lease::from(Row {
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
        let us = || Said::HeldBy("m/1/i".to_owned());
        let other = || Said::HeldBy("m/1/j".to_owned());
        let cases = [
            (false, false, us(), LeaseState::Held),
            (false, false, Said::Nothing, LeaseState::Held),
            (false, false, Said::Free, LeaseState::Orphan),
            (false, false, other(), LeaseState::Drift),
            (false, true, us(), LeaseState::Stale),
            (false, true, Said::Nothing, LeaseState::Stale),
            (false, true, Said::Free, LeaseState::Orphan),
            (false, true, other(), LeaseState::Drift),
            (true, false, Said::Free, LeaseState::Idle),
            (true, false, Said::Nothing, LeaseState::Idle),
            (true, true, Said::Free, LeaseState::Idle),
            (true, false, us(), LeaseState::Held),
            (true, true, other(), LeaseState::Drift),
        ];
        for (released, quiet, said, state) in cases {
            let judged = judge(&lease(released, quiet), &said);
            assert_eq!(judged, state, "released {released}, quiet {quiet}, {said:?}");
        }
    }
}
