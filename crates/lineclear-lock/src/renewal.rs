//! Renewal of one held lock, on the keeper's thread, until it is let go or lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::backend::{Backend, Extended, LossSignal};
use crate::clock::Moment;
use crate::error::LockError;
use crate::lease::{Lease, LostReason};
use crate::options::LockOptions;

/// After the loss_signal has signal there is little time.
const HURRY: Duration = Duration::from_millis(50);

/// However this ends, also by a panic of the backend: a lock that nobody renews is lost.
struct HoldEnd(Lease);

impl Drop for HoldEnd {
    fn drop(&mut self) {
        if !self.0.0.let_go.is_cancelled() {
            self.0.lose(LostReason::RenewalStopped);
        }
    }
}

/// Until when a lock can be trusted that was asked for at `asked_at`.
pub(crate) fn trust(options: &LockOptions, asked_at: Moment) -> Moment {
    asked_at.plus(options.ttl).minus(options.margin)
}

/// Renews until the lock is let go or lost.
pub(crate) async fn keep(
    backend: Arc<dyn Backend>,
    options: LockOptions,
    lease: Lease,
    mut loss_signal: LossSignal,
    asked_at: Moment,
) {
    let ending = HoldEnd(lease);
    let lease = &ending.0;
    let let_go = lease.0.let_go.clone();
    let mut next = asked_at.plus(options.renewal_interval);
    let (mut shaken, mut warned) = (false, false);
    loop {
        tokio::select! {
            biased;
            () = let_go.cancelled() => return,
            () = loss_signal.signalled() => {
                lease.trust_at_most_until(Moment::now().plus(loss_signal.confirm_within()));
                loss_signal = LossSignal::never();
                shaken = true;
            }
            () = sleep(next.remaining().min(lease.trusted_for())) => {}
        }
        let left = lease.trusted_for();
        if left.is_zero() {
            return lease.lose(if shaken { LostReason::ConnectionLost } else { LostReason::TrustExpired });
        }
        let asked_at = Moment::now();
        let within = left.min(options.request_timeout);
        // Not dropped when the lock is let go: a backend takes a dropped question for a dead connection.
        let extended = timeout(within, backend.extend(&lease.0.ask, lease.epoch())).await;
        if let_go.is_cancelled() {
            return;
        }
        match extended.unwrap_or_else(|_| Err(no_answer(within))) {
            Ok(Extended::Yes(new)) => {
                lease.trust_until(trust(&options, asked_at));
                next = asked_at.plus(options.renewal_interval);
                (loss_signal, shaken, warned) = (new, false, false);
            }
            Ok(Extended::No) if loss_signal.is_signalled() => return lease.lose(LostReason::ConnectionLost),
            Ok(Extended::No) => return lease.lose(LostReason::TakenOver),
            Err(error) => {
                // Trust runs out by itself; until then the next try may succeed.
                if !std::mem::replace(&mut warned, true) {
                    tracing::warn!(%error, lock.name = %lease.name(), "a lock could not be renewed");
                }
                next = Moment::now().plus(if shaken { HURRY } else { options.renewal_interval / 4 });
            }
        }
    }
}

/// The store said nothing in time.
pub(crate) fn no_answer(within: Duration) -> LockError {
    LockError::unavailable(format!("no answer within {within:?}"))
}
