//! The lease that a held lock gives: its epoch, how long it can be trusted, and whether it is lost.

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
    /// The store says that it is not ours any more.
    TakenOver,
    /// It could not be renewed in time, so it may be another's.
    TrustExpired,
    /// The connection that carried it has ended.
    ConnectionLost,
    /// The thread that renews has failed.
    RenewalStopped,
}

impl std::fmt::Display for LostReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LostReason::TakenOver => "another holds it",
            LostReason::TrustExpired => "it could not be renewed in time",
            LostReason::ConnectionLost => "the connection that carried it has ended",
            LostReason::RenewalStopped => "the thread that renews it has failed",
        })
    }
}

/// What a transaction, or another system, is fenced by: it must refuse epochs lower than one that it has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lock.
    pub name: LockName,
    /// Its holder's number.
    pub epoch: Epoch,
    /// Where the number can be relied upon.
    pub class: FenceClass,
    /// How long the lock lasts without renewal.
    pub ttl: Duration,
}

/// The right that a held lock gives. Cheap to clone; clones see the same.
#[derive(Clone, Debug)]
pub struct Lease(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) ask: LockRequest,
    pub(crate) fence: Fence,
    /// Microseconds; zero: not at all.
    trusted_until: AtomicU64,
    lost: CancellationToken,
    why: OnceLock<LostReason>,
    overdue: CancellationToken,
    /// Set when it is given back: renewal ends.
    pub(crate) let_go: CancellationToken,
}

impl Lease {
    pub(crate) fn new(ask: LockRequest, epoch: Epoch, class: FenceClass, until: Moment) -> Lease {
        let fence = Fence { name: ask.name.clone(), epoch, class, ttl: ask.ttl };
        Lease(Arc::new(Inner {
            ask,
            fence,
            trusted_until: AtomicU64::new(until.micros()),
            lost: CancellationToken::new(),
            why: OnceLock::new(),
            overdue: CancellationToken::new(),
            let_go: CancellationToken::new(),
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

    /// What to fence effects by.
    pub fn fence(&self) -> &Fence {
        &self.0.fence
    }

    /// Until when nobody else can hold the lock, even if no renewal succeeds from now on. Counted from the moment at which
    /// we last asked, not from the answer, and ending a margin before the lock does.
    pub fn trusted_until(&self) -> Moment {
        Moment::from_micros(self.0.trusted_until.load(Ordering::SeqCst))
    }

    /// How long the lock can be trusted without another renewal. Zero: start nothing new.
    pub fn trusted_for(&self) -> Duration {
        self.trusted_until().remaining()
    }

    /// Cancelled when the lock is lost: before it can be another's, unless the store itself gave it away. It is not
    /// cancelled by a release.
    pub fn lost(&self) -> &CancellationToken {
        &self.0.lost
    }

    /// Why it was lost, if it was.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.why.get().copied()
    }

    /// Cancelled when the lock is held for longer than [`LockOptions::soft_limit`](crate::LockOptions::soft_limit). Nothing else comes of it
    /// than a warning and a count: the work goes on.
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
        // What is lost stays lost, although an answer that was on its way says otherwise: nobody renews it any more.
        if self.0.why.get().is_some() {
            self.0.trusted_until.store(0, Ordering::SeqCst);
        }
    }

    pub(crate) fn trust_at_most_until(&self, until: Moment) {
        self.0.trusted_until.fetch_min(until.micros(), Ordering::SeqCst);
    }

    /// Waits until the lock is overdue, lost or let go.
    pub(crate) async fn watch(self, limit: Duration) {
        tokio::select! {
            biased;
            () = self.0.let_go.cancelled() => {}
            () = self.0.lost.cancelled() => {}
            () = tokio::time::sleep(limit) => {
                let (name, epoch) = (self.name(), self.epoch());
                tracing::warn!(lock.name = %name, lock.epoch = %epoch, ?limit, "a lock is overdue; its work goes on");
                metrics::counter!("lineclear_lock_overdue_total", "lock" => name.to_string()).increment(1);
                self.0.overdue.cancel();
            }
        }
    }

    pub(crate) fn lose(&self, why: LostReason) {
        if self.0.why.set(why).is_ok() {
            self.trust_until(Moment::from_micros(0));
            let (name, epoch) = (self.name(), self.epoch());
            tracing::warn!(lock.name = %name, lock.epoch = %epoch, why = %why, "a lock is lost");
            self.0.lost.cancel();
        }
    }
}
