//! A job that the next vanished worker would bury runs alone on its node, so that no job is buried for a neighbour's
//! crash: if its last worker vanishes, it was the only job there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Which jobs of a node run beside each other.
#[derive(Default)]
pub(crate) struct Isolation {
    /// Read by jobs that may run together, written by one that runs alone.
    lock: Arc<RwLock<()>>,
    /// A job runs alone, or waits to: the node leases nothing more.
    wanted: AtomicBool,
}

/// A job's permit to run.
pub(crate) enum RunPermit {
    Beside { _guard: Option<OwnedRwLockReadGuard<()>> },
    Alone { _guard: Option<OwnedRwLockWriteGuard<()>> },
}

impl Isolation {
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Requests that a job runs alone; false if another has.
    pub(crate) fn request(&self) -> bool {
        !self.wanted.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end(&self) {
        self.wanted.store(false, Ordering::Release);
    }

    /// For a job that may run beside others.
    pub(crate) fn beside_others(&self) -> RunPermit {
        RunPermit::Beside { _guard: self.lock.clone().try_read_owned().ok() }
    }

    /// For a job that runs alone: waits until the others have ended, or `patience` is over. Those were running before, and
    /// are not on their last chance.
    pub(crate) async fn alone(&self, patience: Duration) -> RunPermit {
        let guard = tokio::time::timeout(patience, self.lock.clone().write_owned()).await;
        RunPermit::Alone { _guard: guard.ok() }
    }
}
