//! The task behind the runner of an outbox or of a subscription on this node.

use std::time::Duration;

use lineclear_lock::{LockOptions, Locks, RegistryOptions, RunnerStatus, Singleton, Term};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::OutboxError;

/// Dropped, it stops in the background.
#[derive(Debug)]
pub(crate) struct RunnerTask {
    stop: CancellationToken,
    task: Option<JoinHandle<Result<(), OutboxError>>>,
    singleton: Singleton,
    locks: Locks,
}

impl RunnerTask {
    /// Starts `work` wherever the lock of this name is won: on one node at a time.
    pub(crate) async fn start<F>(
        url: &str,
        (kind, name): (&'static str, &str),
        lock_ttl: Duration,
        work: impl Fn(Singleton, Term) -> F + Send + Sync + 'static,
    ) -> Result<RunnerTask, OutboxError>
    where
        F: Future<Output = Result<(), OutboxError>> + Send + 'static,
    {
        let options = LockOptions::with_ttl(lock_ttl);
        let locks = Locks::open_with_registry(url, options, RegistryOptions::default()).await?;
        let locks = locks.of_kind(kind);
        let singleton = Singleton::new(&locks, name);
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (singleton, stop) = (singleton.clone(), stop.clone());
            async move {
                let reports = singleton.clone();
                Ok(singleton.run(&stop, move |term| work(reports.clone(), term)).await?)
            }
        });
        Ok(RunnerTask { stop, task: Some(task), singleton, locks })
    }

    pub(crate) fn status(&self) -> watch::Receiver<RunnerStatus> {
        self.singleton.status()
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    pub(crate) fn hand_over(&self) {
        self.singleton.hand_over();
    }

    pub(crate) async fn stop(mut self) -> Result<(), OutboxError> {
        self.stop.cancel();
        let ended = match self.task.take() {
            Some(task) => task.await.unwrap_or_else(|error| Err(OutboxError::failed(error))),
            None => Ok(()),
        };
        self.locks.flush().await;
        ended
    }
}

impl Drop for RunnerTask {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
