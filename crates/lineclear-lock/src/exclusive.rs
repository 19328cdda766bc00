//! Work that at most one process does at a time.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::error::LockError;
use crate::lease::{Lease, LostReason};
use crate::locks::Locks;

/// The result of exclusive work.
#[derive(Debug, PartialEq, Eq)]
pub enum Exclusive<T> {
    /// The work was done under the lock.
    Done(T),
    /// Another process holds the lock; nothing was done.
    Busy,
    /// The lock was lost during the work.
    Lost {
        /// Why.
        reason: LostReason,
        /// What the work returned, if it stopped in time.
        output: Option<T>,
    },
}

impl Locks {
    /// Waits for the lock for at most `within`, does `work` under it, and releases it.
    ///
    /// When the lock is lost, [`Lease::lost`] is cancelled, and the work has
    /// [`LockOptions::stop_timeout`](crate::LockOptions::stop_timeout) to end; then it is dropped where it stands. The lock is
    /// not requested again before that. Tasks that the work has spawned are not stopped.
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
                    Some(reason) => Exclusive::Lost { reason, output: Some(output) },
                },
                () = lease.lost().cancelled() => {
                    let stopped = self.core().runtime.sleep(self.options().stop_timeout);
                    let output = tokio::select! {
                        biased;
                        output = &mut work => Some(output),
                        () = stopped => None,
                    };
                    Exclusive::Lost { reason: lease.lost_reason().unwrap_or(LostReason::TrustExpired), output }
                }
            }
        };
        // The work is done even if the release fails: the lock ends by itself.
        if let Err(error) = held.release().await {
            tracing::warn!(%error, lock.name = %lease.name(), "cannot release a lock; it ends by itself");
        }
        Ok(done)
    }
}
