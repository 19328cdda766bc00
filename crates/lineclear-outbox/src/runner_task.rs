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
        Ok(RunnerTask::under(&open_locks(url, kind, lock_ttl).await?, name, work))
    }

    /// As [`RunnerTask::start`], with locks that several share.
    pub(crate) fn under<F>(
        locks: &Locks,
        name: &str,
        work: impl Fn(Singleton, Term) -> F + Send + Sync + 'static,
    ) -> RunnerTask
    where
        F: Future<Output = Result<(), OutboxError>> + Send + 'static,
    {
        let singleton = Singleton::new(locks, name);
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (singleton, stop) = (singleton.clone(), stop.clone());
            async move {
                let reports = singleton.clone();
                Ok(singleton.run(&stop, move |term| work(reports.clone(), term)).await?)
            }
        });
        RunnerTask { stop, task: Some(task), singleton, locks: locks.clone() }
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

    pub(crate) fn hand_over_to(&self, holder: &str) {
        self.singleton.hand_over_to(holder);
    }

    pub(crate) async fn stop(self) -> Result<(), OutboxError> {
        let locks = self.locks.clone();
        let ended = RunnerTask::stop_all(vec![self]).await;
        locks.flush().await;
        ended
    }

    /// Stops all at once. The first error is returned. The caller flushes their locks.
    pub(crate) async fn stop_all(tasks: Vec<RunnerTask>) -> Result<(), OutboxError> {
        tasks.iter().for_each(|task| task.stop.cancel());
        let mut all = Ok(());
        for mut task in tasks {
            let Some(running) = task.task.take() else { continue };
            let ended = running.await.unwrap_or_else(|error| Err(OutboxError::failed(error)));
            all = all.and(ended);
        }
        all
    }
}

/// The locks of runners, with a registry that shows them.
pub(crate) async fn open_locks(url: &str, kind: &str, lock_ttl: Duration) -> Result<Locks, OutboxError> {
    let options = LockOptions::with_ttl(lock_ttl);
    let locks = Locks::open_with_registry(url, options, RegistryOptions::default()).await?;
    Ok(locks.of_kind(kind))
}

impl Drop for RunnerTask {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
