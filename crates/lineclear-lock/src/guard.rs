//! A lock that this process holds.

use std::ops::Deref;
use std::sync::Arc;

use crate::acquire::backoff;
use crate::backend::{Extended, Grant, LockRequest, Released};
use crate::clock::Moment;
use crate::error::LockError;
use crate::lease::{Lease, LostReason};
use crate::locks::Core;
use crate::name::Epoch;
use crate::renewal;
use crate::timely::timely;

/// A lock that this process holds. It is renewed in the background until it is released, dropped or lost.
///
/// Dropping the guard releases the lock in the background. If the process ends before that, the lock ends by itself.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard {
    lease: Lease,
    core: Arc<Core>,
}

impl LockGuard {
    pub(crate) fn new(
        core: Arc<Core>,
        request: LockRequest,
        grant: Grant,
        requested_at: Moment,
    ) -> LockGuard {
        let class = core.backend.promises().fence;
        let until = renewal::trusted_until(&core.options, requested_at);
        let lease = Lease::new(request, grant.epoch, class, until);
        let (backend, options) = (core.backend.clone(), core.options.clone());
        if let Some(limit) = options.soft_limit {
            core.runtime.spawn(lease.clone().watch(limit));
        }
        core.runtime.spawn(renewal::renew(backend, options, lease.clone(), grant.loss_signal, requested_at));
        LockGuard { lease, core }
    }

    /// The lease, to pass to the work that the lock guards.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Asks the store whether this process still holds the lock, and renews it.
    pub async fn confirm(&self) -> Result<Result<(), LostReason>, LockError> {
        let (core, lease) = (self.core.clone(), self.lease.clone());
        let confirmed = self.core.runtime.run(async move {
            if let Some(reason) = lease.lost_reason() {
                return Ok(Err(reason));
            }
            let requested_at = Moment::now();
            let extend = core.backend.extend(&lease.0.request, lease.epoch());
            match timely(core.options.request_timeout, extend).await? {
                // An answer that came after its loss was signalled proves nothing; the renewal asks again.
                Extended::Yes(loss_signal) if loss_signal.is_signalled() => {}
                // The renewal still watches the signal it has; this one would be signalled at the same time.
                Extended::Yes(_) => lease.trust_until(renewal::trusted_until(&core.options, requested_at)),
                Extended::No => lease.lose(LostReason::TakenOver),
            }
            Ok(lease.lost_reason().map_or(Ok(()), Err))
        });
        confirmed.await
    }

    /// Releases the lock, within [`LockOptions::release_timeout`](crate::LockOptions::release_timeout). The release continues when this
    /// future is dropped, and needs no runtime of the caller. Call it after the guarded work has ended.
    pub async fn release(self) -> Result<Released, LockError> {
        self.lease.0.released.cancel();
        let (core, request, epoch) = (self.core.clone(), self.lease.0.request.clone(), self.lease.epoch());
        self.core.runtime.run(async move { release(&core, &request, Some(epoch)).await }).await
    }

    /// Stops renewing without a release, for guarded work that cannot be stopped. A lease ends by itself; a session lock ends with its
    /// connection.
    pub(crate) fn abandon(self) {
        self.lease.0.released.cancel();
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
        if self.lease.0.released.is_cancelled() {
            return;
        }
        self.lease.0.released.cancel();
        release_in_background(&self.core, self.lease.0.request.clone(), Some(self.lease.epoch()));
    }
}

/// Releases a lock in the background. If that fails, the lock ends by itself.
pub(crate) fn release_in_background(core: &Arc<Core>, request: LockRequest, epoch: Option<Epoch>) {
    let core = core.clone();
    core.clone().runtime.spawn_tracked(async move {
        if let Err(error) = release(&core, &request, epoch).await {
            tracing::warn!(%error, lock.name = %request.name, "cannot release a lock; it ends by itself");
        }
    });
}

/// Releases a lock, and retries until the deadline: the store may be restarting.
async fn release(core: &Core, request: &LockRequest, epoch: Option<Epoch>) -> Result<Released, LockError> {
    let deadline = Moment::now().plus(core.options.release_timeout);
    let mut failures = 0;
    loop {
        let release = core.backend.release(request, epoch);
        let error = match timely(deadline.remaining(), release).await {
            Ok(released) => {
                tracing::debug!(lock.name = %request.name, ?released, "released a lock");
                return Ok(released);
            }
            Err(error) if error.is_unavailable() => error,
            Err(error) => return Err(error),
        };
        failures += 1;
        let pause = backoff(core.options.retry_interval, failures);
        if deadline.remaining() <= pause {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}
