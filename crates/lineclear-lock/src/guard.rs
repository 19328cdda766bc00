//! A lock that we hold.

use std::ops::Deref;
use std::sync::Arc;

use tokio::time::timeout;

use crate::backend::{Extended, Grant, LockRequest, Released};
use crate::clock::Moment;
use crate::error::LockError;
use crate::lease::{Lease, LostReason};
use crate::locks::{Core, patience};
use crate::name::Epoch;
use crate::renewal::{self, no_answer};

/// A lock that we hold. It is renewed in the background until it is released, dropped or lost.
///
/// Dropping it releases it in the background. If the process ends before that, the lock ends by itself.
#[derive(Debug)]
#[must_use = "a lock that is dropped is released"]
pub struct LockGuard {
    lease: Lease,
    core: Arc<Core>,
}

impl LockGuard {
    pub(crate) fn new(core: Arc<Core>, ask: LockRequest, taken: Grant, asked_at: Moment) -> LockGuard {
        let class = core.backend.promises().fence;
        let until = renewal::trust(&core.options, asked_at);
        let lease = Lease::new(ask, taken.epoch, class, until);
        let (backend, options) = (core.backend.clone(), core.options.clone());
        if let Some(limit) = options.soft_limit {
            core.runtime.spawn(lease.clone().watch(limit));
        }
        core.runtime.spawn(renewal::keep(backend, options, lease.clone(), taken.loss_signal, asked_at));
        LockGuard { lease, core }
    }

    /// The right that it gives, to hand to the work that it guards.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Asks the store whether the lock is still ours, and renews it.
    pub async fn confirm(&self) -> Result<Result<(), LostReason>, LockError> {
        let (core, lease) = (self.core.clone(), self.lease.clone());
        let confirmed = self.core.runtime.run(async move {
            if let Some(why) = lease.lost_reason() {
                return Ok(Err(why));
            }
            let asked_at = Moment::now();
            let within = core.options.request_timeout;
            let extend = core.backend.extend(&lease.0.ask, lease.epoch());
            match timeout(within, extend).await.unwrap_or_else(|_| Err(no_answer(within)))? {
                // An answer that came after its loss_signal had signal proves nothing; the keeper asks again.
                Extended::Yes(loss_signal) if loss_signal.is_signalled() => {}
                // The loss_signal that the keeper watches still stands; this one would ring at the same time.
                Extended::Yes(_) => lease.trust_until(renewal::trust(&core.options, asked_at)),
                Extended::No => lease.lose(LostReason::TakenOver),
            }
            Ok(lease.lost_reason().map_or(Ok(()), Err))
        });
        confirmed.await
    }

    /// Gives it back, within [`LockOptions::release_timeout`](crate::LockOptions::release_timeout). It goes on when this
    /// future is dropped, and needs no runtime of the caller's. Do so after the guarded work has ended, not before.
    pub async fn release(self) -> Result<Released, LockError> {
        self.lease.0.let_go.cancel();
        let (core, ask, epoch) = (self.core.clone(), self.lease.0.ask.clone(), self.lease.epoch());
        self.core.runtime.run(async move { let_go(&core, &ask, Some(epoch)).await }).await
    }
}

impl LockGuard {
    /// Stops renewing it, and does not release it: for when the guarded work cannot be ended. A lease ends by itself; a session lock
    /// with its connection.
    pub(crate) fn abandon(self) {
        self.lease.0.let_go.cancel();
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // Released already, or being so.
        if self.lease.0.let_go.is_cancelled() {
            return;
        }
        self.lease.0.let_go.cancel();
        let_go_in_background(&self.core, self.lease.0.ask.clone(), Some(self.lease.epoch()));
    }
}

/// Releases on the keeper's thread; nobody waits for it. If it fails, the lock ends by itself.
pub(crate) fn let_go_in_background(core: &Arc<Core>, ask: LockRequest, epoch: Option<Epoch>) {
    let core = core.clone();
    core.clone().runtime.spawn_background(async move {
        if let Err(error) = let_go(&core, &ask, epoch).await {
            tracing::warn!(%error, lock.name = %ask.name, "a lock was not released; it ends by itself");
        }
    });
}

/// Releases, trying again until the deadline: the store may just be coming back.
async fn let_go(core: &Core, ask: &LockRequest, epoch: Option<Epoch>) -> Result<Released, LockError> {
    let within = core.options.release_timeout;
    let deadline = Moment::now().plus(within);
    let mut failures = 0;
    loop {
        let release = core.backend.release(ask, epoch);
        let error = match timeout(deadline.remaining(), release).await {
            Ok(Ok(released)) => {
                tracing::debug!(lock.name = %ask.name, ?released, "released a lock");
                return Ok(released);
            }
            Ok(Err(error)) if error.is_unavailable() => error,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(no_answer(within)),
        };
        failures += 1;
        let pause = patience(core.options.retry_interval, failures);
        if deadline.remaining() <= pause {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}
