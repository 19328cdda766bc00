//! The runtime: one thread with a runtime of its own, on which all talk with the store happens. A program that blocks its
//! own runtime, or shuts it down, still renews and releases its locks.

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
    /// What must be over before a program that cares should end: releases in the background.
    background: TaskTracker,
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
        Ok(Arc::new(BackgroundRuntime { runtime: handle, background: TaskTracker::new(), _alive: alive }))
    }

    /// Does something on the keeper's thread. It goes on when whoever waits for it does not.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, LockError>> + Send + 'static,
    ) -> Result<T, LockError> {
        self.runtime.spawn(work).await.unwrap_or_else(|error| Err(LockError::failed(error)))
    }

    /// Starts something that nobody waits for.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(work));
    }

    /// Starts something that [`BackgroundRuntime::settled`] waits for.
    pub(crate) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.background.spawn_on(work, &self.runtime));
    }

    /// Waits until nothing goes on in the background.
    pub(crate) async fn flush(&self) {
        self.background.close();
        self.background.wait().await;
        self.background.reopen();
    }

    /// A pause that needs no timer of the caller's runtime.
    pub(crate) async fn sleep(&self, pause: Duration) {
        // The sleep must be made on the keeper's runtime, not only waited for there.
        drop(self.runtime.spawn(async move { tokio::time::sleep(pause).await }).await);
    }
}
