//! Tasks of this process that wait for the same lock wait in line: only the first of them asks the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::name::LockName;

/// The lines, by lock.
#[derive(Debug, Default)]
pub(crate) struct LocalWaiters(Mutex<HashMap<LockName, Weak<Semaphore>>>);

impl LocalWaiters {
    /// Waits until this task is the first in line; the next one is when the permit is dropped.
    pub(crate) async fn wait(&self, name: &LockName) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.line(name).acquire_owned().await.ok()
    }

    fn line(&self, name: &LockName) -> Arc<Semaphore> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(name).and_then(Weak::upgrade) {
            return line;
        }
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::new(Semaphore::new(1));
        lines.insert(name.clone(), Arc::downgrade(&line));
        line
    }
}
