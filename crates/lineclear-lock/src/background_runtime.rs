//! A thread with a runtime of its own, on which all requests to the store run: a program that blocks its own runtime, or shuts it
//! down, still renews and releases its locks.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::error::LockError;

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct BackgroundRuntime {
    runtime: Handle,
    /// Releases in the background, which a program may wait for before it ends.
    tracked: TaskTracker,
    _alive: oneshot::Sender<()>,
}

impl BackgroundRuntime {
    pub(crate) fn start() -> std::io::Result<Arc<BackgroundRuntime>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        std::thread::Builder::new().name("lineclear-lock".to_owned()).spawn(move || {
            drop(runtime.block_on(ended));
            // A store that hangs must not keep the process from ending.
            runtime.shutdown_background();
        })?;
        Ok(Arc::new(BackgroundRuntime { runtime: handle, tracked: TaskTracker::new(), _alive: alive }))
    }

    /// Runs a future on the thread. It continues when the caller stops waiting for it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, LockError>> + Send + 'static,
    ) -> Result<T, LockError> {
        self.runtime.spawn(work).await.unwrap_or_else(|error| Err(LockError::failed(error)))
    }

    /// Starts a future that is never waited for.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(work));
    }

    /// Starts a future that [`BackgroundRuntime::flush`] waits for.
    pub(crate) fn spawn_tracked(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.tracked.spawn_on(work, &self.runtime));
    }

    /// Waits for the tracked futures.
    pub(crate) async fn flush(&self) {
        self.tracked.close();
        self.tracked.wait().await;
        self.tracked.reopen();
    }

    /// Sleeps without a timer of the caller's runtime.
    pub(crate) async fn sleep(&self, pause: Duration) {
        // The timer must also be created on this runtime, not only awaited there.
        drop(self.runtime.spawn(async move { tokio::time::sleep(pause).await }).await);
    }
}
