//! Renews one held lock in the background until it is released or lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::backend::{Backend, Extended, LossSignal};
use crate::clock::Moment;
use crate::lease::{Lease, LostReason};
use crate::options::LockOptions;
use crate::timely::timely;

/// The pause before the next try after the loss was signalled.
const URGENT_RETRY: Duration = Duration::from_millis(50);

/// Marks the lease as lost when renewal ends for any reason but a release, including a panic of the backend.
struct LoseOnDrop(Lease);

impl Drop for LoseOnDrop {
    fn drop(&mut self) {
        if !self.0.0.released.is_cancelled() {
            self.0.lose(LostReason::RenewalStopped);
        }
    }
}

/// Until when a lock that was requested at `requested_at` can be trusted.
pub(crate) fn trusted_until(options: &LockOptions, requested_at: Moment) -> Moment {
    requested_at.plus(options.ttl).minus(options.margin)
}

/// Renews until the lock is released or lost.
pub(crate) async fn renew(
    backend: Arc<dyn Backend>,
    options: LockOptions,
    lease: Lease,
    mut loss_signal: LossSignal,
    requested_at: Moment,
) {
    let guard = LoseOnDrop(lease);
    let lease = &guard.0;
    let released = lease.0.released.clone();
    let mut next = requested_at.plus(options.renewal_interval);
    let (mut urgent, mut warned) = (false, false);
    loop {
        tokio::select! {
            biased;
            () = released.cancelled() => return,
            () = loss_signal.signalled() => {
                lease.trust_at_most_until(Moment::now().plus(loss_signal.confirm_within()));
                loss_signal = LossSignal::never();
                urgent = true;
            }
            () = sleep(next.remaining().min(lease.trusted_for())) => {}
        }
        let left = lease.trusted_for();
        if left.is_zero() {
            return lease.lose(if urgent { LostReason::ConnectionLost } else { LostReason::TrustExpired });
        }
        let requested_at = Moment::now();
        let within = left.min(options.request_timeout);
        // Not dropped when the lock is released: a backend takes a dropped request for a dead connection.
        let extended = timely(within, backend.extend(&lease.0.request, lease.epoch())).await;
        if released.is_cancelled() {
            return;
        }
        match extended {
            Ok(Extended::Yes(new)) => {
                lease.trust_until(trusted_until(&options, requested_at));
                next = requested_at.plus(options.renewal_interval);
                (loss_signal, urgent, warned) = (new, false, false);
            }
            Ok(Extended::No) if loss_signal.is_signalled() => return lease.lose(LostReason::ConnectionLost),
            Ok(Extended::No) => return lease.lose(LostReason::TakenOver),
            Err(error) => {
                // The next try may succeed before trust expires.
                if !std::mem::replace(&mut warned, true) {
                    tracing::warn!(%error, lock.name = %lease.name(), "cannot renew a lock");
                }
                next = Moment::now().plus(if urgent { URGENT_RETRY } else { options.renewal_interval / 4 });
            }
        }
    }
}
