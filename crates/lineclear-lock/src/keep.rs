//! Renewal of one held lock, on the keeper's thread, until it is let go or lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::backend::{Alarm, Backend, Kept};
use crate::clock::Moment;
use crate::error::LockError;
use crate::options::LockOptions;
use crate::right::{Lost, Right};

/// After the alarm has rung there is little time.
const HURRY: Duration = Duration::from_millis(50);

/// However this ends, also by a panic of the backend: a lock that nobody renews is lost.
struct Ending(Right);

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.0.0.let_go.is_cancelled() {
            self.0.lose(Lost::KeeperEnded);
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
    right: Right,
    mut alarm: Alarm,
    asked_at: Moment,
) {
    let ending = Ending(right);
    let right = &ending.0;
    let let_go = right.0.let_go.clone();
    let mut next = asked_at.plus(options.renewal);
    let (mut shaken, mut warned) = (false, false);
    loop {
        tokio::select! {
            biased;
            () = let_go.cancelled() => return,
            () = alarm.rung() => {
                right.trust_at_most_until(Moment::now().plus(alarm.answer_within()));
                alarm = Alarm::never();
                shaken = true;
            }
            () = sleep(next.remaining().min(right.trusted_for())) => {}
        }
        let left = right.trusted_for();
        if left.is_zero() {
            return right.lose(if shaken { Lost::ConnectionLost } else { Lost::TrustOver });
        }
        let asked_at = Moment::now();
        let within = left.min(options.answer_within);
        // Not dropped when the lock is let go: a backend takes a dropped question for a dead connection.
        let extended = timeout(within, backend.extend(&right.0.ask, right.epoch())).await;
        if let_go.is_cancelled() {
            return;
        }
        match extended.unwrap_or_else(|_| Err(no_answer(within))) {
            Ok(Kept::Yes(new)) => {
                right.trust_until(trust(&options, asked_at));
                next = asked_at.plus(options.renewal);
                (alarm, shaken, warned) = (new, false, false);
            }
            Ok(Kept::No) if alarm.has_rung() => return right.lose(Lost::ConnectionLost),
            Ok(Kept::No) => return right.lose(Lost::TakenOver),
            Err(error) => {
                // Trust runs out by itself; until then the next try may succeed.
                if !std::mem::replace(&mut warned, true) {
                    tracing::warn!(%error, lock.name = %right.name(), "a lock could not be renewed");
                }
                next = Moment::now().plus(if shaken { HURRY } else { options.renewal / 4 });
            }
        }
    }
}

/// The store said nothing in time.
pub(crate) fn no_answer(within: Duration) -> LockError {
    LockError::unavailable(format!("no answer within {within:?}"))
}
