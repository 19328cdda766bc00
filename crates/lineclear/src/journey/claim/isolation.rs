//! A job that the next vanished worker would bury runs alone on its node. So nobody is buried for a neighbour's crash: if
//! its last worker vanishes, it was the only one there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Who runs beside whom.
#[derive(Default)]
pub(crate) struct Alone {
    /// Read by those that may run together, written by one that runs alone.
    place: Arc<RwLock<()>>,
    /// Somebody runs alone, or waits for it: the node takes nothing more.
    wanted: AtomicBool,
}

/// A job's leave to run.
pub(crate) enum Leave {
    Together { _place: Option<OwnedRwLockReadGuard<()>> },
    Alone { _place: Option<OwnedRwLockWriteGuard<()>> },
}

impl Alone {
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// One job asks to run alone; false if another has.
    pub(crate) fn ask(&self) -> bool {
        !self.wanted.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_over(&self) {
        self.wanted.store(false, Ordering::Release);
    }

    /// For a job that may run beside others.
    pub(crate) fn together(&self) -> Leave {
        Leave::Together { _place: self.place.clone().try_read_owned().ok() }
    }

    /// For a job that asked to run alone: when the others have ended, or have taken too long. Those were running before
    /// it came, and are not on their own last chance.
    pub(crate) async fn alone(&self, patience: Duration) -> Leave {
        let place = tokio::time::timeout(patience, self.place.clone().write_owned()).await;
        Leave::Alone { _place: place.ok() }
    }
}
