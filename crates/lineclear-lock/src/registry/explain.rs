//! Who holds a lock, since when, whether the holder is alive, and what happens next and when.

use std::time::Duration;

use super::record::{LeaseRecord, LockEvent};
use crate::backend::{Inspection, Promises};

/// All that is known about a lock.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The lock.
    pub name: String,
    /// What its store promises.
    pub promises: Promises,
    /// What its store says; `None` if the lock was never held.
    pub inspection: Option<Inspection>,
    /// What the registry says; `None` if there is no registry, or it has no row.
    pub lease: Option<LeaseRecord>,
    /// Its last events, newest first.
    pub history: Vec<LockEvent>,
    /// What happens next.
    pub next: Next,
}

/// What happens next to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is free: the next request gets it.
    Free,
    /// Its holder has it and renews it.
    Held {
        /// How soon another process can acquire it if the holder dies now.
        if_it_dies: Duration,
        /// How soon if the holder freezes; `None`: not until an operator breaks the lock.
        if_it_freezes: Option<Duration>,
    },
    /// The holder's connection has ended: the next request gets it after this time.
    FreeIn(Duration),
    /// The holder does not renew it: it ends after this time.
    EndsIn(Duration),
    /// The holder does not renew it, and it does not end by itself: an operator must break it.
    Never,
}

pub(crate) fn next(
    promises: &Promises,
    inspection: Option<&Inspection>,
    lease: Option<&LeaseRecord>,
) -> Next {
    let Some((seen, ends_in)) = inspection.and_then(|seen| Some((seen, seen.holding.ends_in?))) else {
        return Next::Free;
    };
    let for_ever = ends_in == Duration::MAX;
    let soon = promises.crash_detected_within.unwrap_or(ends_in).min(ends_in);
    if seen.alive == Some(false) {
        return Next::FreeIn(soon);
    }
    let quiet = lease.is_some_and(|lease| lease.released_at.is_none() && lease.is_quiet());
    if for_ever || (quiet && !promises.frozen_holder_ends) {
        return Next::Never;
    }
    if quiet {
        return Next::EndsIn(ends_in);
    }
    Next::Held { if_it_dies: soon, if_it_freezes: promises.frozen_holder_ends.then_some(ends_in) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{FenceClass, Holding};
    use crate::name::Epoch;

    #[test]
    fn what_comes_next_follows_from_what_the_store_sees() {
        let (soon, later) = (Duration::from_millis(400), Duration::from_secs(30));
        let lease = Promises {
            backend: "postgres-lease",
            fence: FenceClass::BestEffort,
            crash_detected_within: Some(soon),
            frozen_holder_ends: true,
        };
        let session = Promises { frozen_holder_ends: false, ..lease.clone() };
        let held = |ends_in, alive| {
            let holding = Holding { epoch: Epoch::new(1), holder: "m/1/i".to_owned(), kind: None, ends_in };
            Inspection { alive, ..Inspection::from(holding) }
        };
        assert_eq!(next(&lease, None, None), Next::Free);
        assert_eq!(next(&lease, Some(&held(None, None)), None), Next::Free);
        let alive = Next::Held { if_it_dies: soon, if_it_freezes: Some(later) };
        assert_eq!(next(&lease, Some(&held(Some(later), Some(true))), None), alive);
        assert_eq!(next(&lease, Some(&held(Some(later), Some(false))), None), Next::FreeIn(soon));
        assert_eq!(next(&session, Some(&held(Some(Duration::MAX), Some(true))), None), Next::Never);
    }
}
