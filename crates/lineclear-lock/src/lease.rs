//! The lease of a held lock: its epoch, how long it can be trusted, and whether it is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backend::{FenceClass, LockRequest};
use crate::clock::Moment;
use crate::name::{Epoch, LockName};

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// The store says that this process does not hold it any more.
    TakenOver,
    /// It could not be renewed in time: another process may hold it.
    TrustExpired,
    /// The connection that carried it has ended.
    ConnectionLost,
    /// The thread that renews it has failed.
    RenewalStopped,
}

impl std::fmt::Display for LostReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LostReason::TakenOver => "another holder has it",
            LostReason::TrustExpired => "it could not be renewed in time",
            LostReason::ConnectionLost => "the connection that carried it has ended",
            LostReason::RenewalStopped => "the thread that renews it has failed",
        })
    }
}

/// The fencing token of a lock. A transaction, or another system, must refuse epochs lower than the highest one it has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lock.
    pub name: LockName,
    /// The holder's number.
    pub epoch: Epoch,
    /// How far the epoch can be relied upon.
    pub class: FenceClass,
    /// How long the lock lasts without renewal.
    pub ttl: Duration,
}

/// The lease of a held lock. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Lease(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) request: LockRequest,
    pub(crate) fence: Fence,
    /// Microseconds; zero: not any more.
    trusted_until: AtomicU64,
    lost: CancellationToken,
    reason: OnceLock<LostReason>,
    overdue: CancellationToken,
    /// Cancelled by the release, which ends renewal.
    pub(crate) released: CancellationToken,
}

impl Lease {
    pub(crate) fn new(request: LockRequest, epoch: Epoch, class: FenceClass, until: Moment) -> Lease {
        let fence = Fence { name: request.name.clone(), epoch, class, ttl: request.ttl };
        Lease(Arc::new(Inner {
            request,
            fence,
            trusted_until: AtomicU64::new(until.micros()),
            lost: CancellationToken::new(),
            reason: OnceLock::new(),
            overdue: CancellationToken::new(),
            released: CancellationToken::new(),
        }))
    }

    /// The lock's name.
    pub fn name(&self) -> &LockName {
        &self.0.fence.name
    }

    /// The holder's number.
    pub fn epoch(&self) -> Epoch {
        self.0.fence.epoch
    }

    /// The fencing token.
    pub fn fence(&self) -> &Fence {
        &self.0.fence
    }

    /// Until when no other process can hold the lock, even if no renewal succeeds from now on. It is counted from the last successful
    /// request, not from its answer, and ends a margin before the lock does.
    pub fn trusted_until(&self) -> Moment {
        Moment::from_micros(self.0.trusted_until.load(Ordering::SeqCst))
    }

    /// How long the lock can be trusted without another renewal. Zero: do not start new work.
    pub fn trusted_for(&self) -> Duration {
        self.trusted_until().remaining()
    }

    /// Cancelled when the lock is lost: before another process can hold it, unless the store itself has lost it. A release does not cancel
    /// it.
    pub fn lost(&self) -> &CancellationToken {
        &self.0.lost
    }

    /// Why the lock was lost; `None` while it is not.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.reason.get().copied()
    }

    /// Cancelled when the lock is held for longer than [`LockOptions::soft_limit`](crate::LockOptions::soft_limit). That is logged and
    /// counted, and the work continues.
    pub fn overdue(&self) -> &CancellationToken {
        &self.0.overdue
    }

    /// Runs `work`, and drops it when the lock is lost.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, LostReason> {
        tokio::select! {
            biased;
            () = self.0.lost.cancelled() => Err(self.lost_reason().unwrap_or(LostReason::TrustExpired)),
            output = work => Ok(output),
        }
    }

    pub(crate) fn trust_until(&self, until: Moment) {
        self.0.trusted_until.store(until.micros(), Ordering::SeqCst);
        // A late answer must not revive a lost lock: its renewal has ended.
        if self.0.reason.get().is_some() {
            self.0.trusted_until.store(0, Ordering::SeqCst);
        }
    }

    pub(crate) fn trust_at_most_until(&self, until: Moment) {
        self.0.trusted_until.fetch_min(until.micros(), Ordering::SeqCst);
    }

    /// Waits until the lock is overdue, lost or released.
    pub(crate) async fn watch(self, limit: Duration) {
        tokio::select! {
            biased;
            () = self.0.released.cancelled() => {}
            () = self.0.lost.cancelled() => {}
            () = tokio::time::sleep(limit) => {
                let (name, epoch) = (self.name(), self.epoch());
                tracing::warn!(lock.name = %name, lock.epoch = %epoch, ?limit, "a lock is held for longer than its soft limit; the work continues");
                metrics::counter!("lineclear_lock_overdue_total", "lock" => name.to_string()).increment(1);
                self.0.overdue.cancel();
            }
        }
    }

    pub(crate) fn lose(&self, reason: LostReason) {
        if self.0.reason.set(reason).is_ok() {
            self.trust_until(Moment::from_micros(0));
            let (name, epoch) = (self.name(), self.epoch());
            tracing::warn!(lock.name = %name, lock.epoch = %epoch, reason = %reason, "lost a lock");
            self.0.lost.cancel();
        }
    }
}
