//! Whoever waits for a lock in this process waits in line: one of them asks the store, and the store is spared the rest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::name::LockName;

/// The lines, by name.
#[derive(Debug, Default)]
pub(crate) struct LocalWaiters(Mutex<HashMap<LockName, Weak<Semaphore>>>);

impl LocalWaiters {
    /// Waits for our turn to ask; the next one's comes when this is dropped.
    pub(crate) async fn wait(&self, name: &LockName) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
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
