//! Acquires locks: asks once, or again and again until a deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use uuid::Uuid;

use crate::backend::LockRequest;
use crate::clock::Moment;
use crate::error::LockError;
use crate::guard::{LockGuard, release_in_background};
use crate::locks::{Core, Locks};
use crate::name::LockName;
use crate::options::LockOptions;
use crate::renewal;
use crate::timely::timely;

/// The longest pause between two requests to a store that cannot be reached.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

impl Locks {
    /// Acquires the lock if it is free; `None` if it is busy. It is also busy for the process that holds it.
    pub async fn try_lock(&self, name: &str) -> Result<Option<LockGuard>, LockError> {
        self.acquire(name, Duration::ZERO).await
    }

    /// Waits for the lock for at most this long; `None` if it was busy all the time. A store that cannot be reached is
    /// asked again until then, and is an error if its last answer was one.
    pub async fn acquire(&self, name: &str, within: Duration) -> Result<Option<LockGuard>, LockError> {
        let name = LockName::new(name)?;
        let (mut answer, answered) = oneshot::channel();
        let (core, kind) = (self.core.clone(), self.kind.clone());
        self.core.runtime.spawn(async move {
            let acquired = wait_for(&core, name, kind, within, &mut answer).await;
            // If the caller has stopped waiting, the guard comes back and is dropped, which releases the lock.
            drop(answer.send(acquired));
        });
        answered.await.unwrap_or_else(|error| Err(LockError::failed(error)))
    }
}

/// Asks until the lock is acquired, the time is over, or the caller has stopped waiting.
async fn wait_for(
    core: &Arc<Core>,
    name: LockName,
    kind: Option<Arc<str>>,
    within: Duration,
    answer: &mut oneshot::Sender<Result<Option<LockGuard>, LockError>>,
) -> Result<Option<LockGuard>, LockError> {
    let deadline = Moment::now().plus(within);
    // A caller that does not wait does not stand in line. One whose time is over in the line still asks once.
    let _first_in_line = tokio::select! {
        biased;
        () = answer.closed() => return Ok(None),
        permit = core.local_waiters.wait(&name), if !within.is_zero() => permit,
        () = tokio::time::sleep(within) => None,
    };
    let since = Moment::now();
    // No listener for a lock that is granted at once.
    let mut freed = None;
    let mut failures = 0;
    loop {
        let acquired = request_once(core, &name, kind.clone()).await;
        let retriable = match &acquired {
            Ok(guard) => guard.is_none(),
            Err(error) => error.is_unavailable(),
        };
        if !retriable || deadline.remaining().is_zero() {
            return acquired;
        }
        failures = if acquired.is_err() { failures + 1 } else { 0 };
        let pause = backoff(pause(&core.options, since), failures).min(deadline.remaining());
        tokio::select! {
            () = answer.closed() => return Ok(None),
            () = tokio::time::sleep(pause) => {}
            () = freed.take().unwrap_or_else(|| core.backend.freed(&name)) => {}
        }
        // Listen from before the next request, so that a release during that request is noticed.
        freed = Some(core.backend.freed(&name));
    }
}

async fn request_once(
    core: &Arc<Core>,
    name: &LockName,
    kind: Option<Arc<str>>,
) -> Result<Option<LockGuard>, LockError> {
    let (ttl, holder) = (core.options.ttl, core.holder.clone());
    let request = LockRequest { name: name.clone(), token: Uuid::new_v4(), ttl, kind, holder };
    let requested_at = Moment::now();
    let error = match timely(core.options.request_timeout, core.backend.acquire(&request)).await {
        Ok(Some(_)) if renewal::trusted_until(&core.options, requested_at).remaining().is_zero() => {
            LockError::unavailable("the answer came too late to be trusted")
        }
        Ok(Some(grant)) => {
            tracing::debug!(lock.name = %name, lock.epoch = %grant.epoch, "acquired a lock");
            return Ok(Some(LockGuard::new(core.clone(), request, grant, requested_at)));
        }
        Ok(None) => {
            tracing::trace!(lock.name = %name, "a lock is busy");
            return Ok(None);
        }
        Err(error) => error,
    };
    // The lock may have been granted although the answer was lost.
    if error.is_unavailable() {
        release_in_background(core, request, None);
    }
    Err(error)
}

/// The pause before a store that cannot be reached is asked again: it doubles up to about a second, so that the store can start again
/// under the requests of all that wait.
pub(crate) fn backoff(pause: Duration, failures: u32) -> Duration {
    let longer = pause.saturating_mul(1 << failures.min(10));
    longer.min(BACKOFF_MAX.max(pause))
}

/// A random pause, so that waiters do not all ask at once. It gets shorter the longer a waiter has waited, so that none starves.
fn pause(options: &LockOptions, since: Moment) -> Duration {
    let waited = Moment::now().minus(Duration::from_micros(since.micros())).micros();
    let retry = u64::try_from(options.retry_interval.as_micros()).unwrap_or(u64::MAX);
    // Down to a quarter after twenty pauses.
    let interval = retry - (retry / 4 * 3).min(waited / 27);
    let dice = Uuid::new_v4().as_u64_pair().0 % interval.max(1);
    Duration::from_micros(interval / 2 + dice)
}
