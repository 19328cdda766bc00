//! Work that at most one process does at a time.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::error::LockError;
use crate::lease::{Lease, LostReason};
use crate::locks::Locks;

/// What became of work that wanted to be alone.
#[derive(Debug, PartialEq, Eq)]
pub enum Exclusive<T> {
    /// It was done under the lock.
    Done(T),
    /// Another holds the lock; nothing was done.
    Busy,
    /// The lock was lost on the way.
    Lost {
        /// Why.
        why: LostReason,
        /// What the work returned, if it ended in time after it was told.
        output: Option<T>,
    },
}

impl Locks {
    /// Waits for the lock for at most `within`, does `work` under it, and releases it.
    ///
    /// When the lock is lost, the work is told by [`Lease::lost`] and has
    /// [`LockOptions::stop_timeout`](crate::LockOptions::stop_timeout) to end; then it is dropped where it stands. The lock is
    /// not asked for again before that. What the work has spawned elsewhere is its own concern.
    pub async fn run_exclusive<T, F>(
        &self,
        name: &str,
        within: Duration,
        work: impl FnOnce(Lease) -> F,
    ) -> Result<Exclusive<T>, LockError>
    where
        F: Future<Output = T>,
    {
        let Some(held) = self.acquire(name, within).await? else { return Ok(Exclusive::Busy) };
        let lease = held.lease();
        let done = {
            let mut work = pin!(work(lease.clone()));
            tokio::select! {
                biased;
                output = &mut work => match lease.lost_reason() {
                    None => Exclusive::Done(output),
                    Some(why) => Exclusive::Lost { why, output: Some(output) },
                },
                () = lease.lost().cancelled() => {
                    let stopped = self.core().runtime.sleep(self.options().stop_timeout);
                    let output = tokio::select! {
                        biased;
                        output = &mut work => Some(output),
                        () = stopped => None,
                    };
                    Exclusive::Lost { why: lease.lost_reason().unwrap_or(LostReason::TrustExpired), output }
                }
            }
        };
        // The work is over, whatever becomes of the release: a lock that is not released ends by itself.
        if let Err(error) = held.release().await {
            tracing::warn!(%error, lock.name = %lease.name(), "a lock was not released; it ends by itself");
        }
        Ok(done)
    }
}
