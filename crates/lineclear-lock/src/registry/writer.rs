//! Writes what is pending, soon after it happened and with every heartbeat.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::Inner;
use super::pending_writes::Batch;
use crate::error::LockError;

/// Changes within this time are written together.
const GAP: Duration = Duration::from_millis(200);
/// Rows per statement.
const CHUNK: usize = 500;

/// Writes until the registry is dropped.
pub(super) async fn write(registry: Weak<Inner>, wake: Arc<Notify>, heartbeat: Duration) {
    let mut next_heartbeat = Instant::now() + heartbeat;
    loop {
        let is_heartbeat = tokio::select! {
            biased;
            () = sleep_until(next_heartbeat) => true,
            () = wake.notified() => false,
        };
        if is_heartbeat {
            next_heartbeat = Instant::now() + heartbeat;
        }
        {
            let Some(registry) = registry.upgrade() else { return };
            // `flush` logs errors; what was not written is written with the next heartbeat.
            drop(registry.flush(is_heartbeat).await);
        }
        sleep(GAP.min(heartbeat / 2)).await;
    }
}

impl Inner {
    /// Writes what is pending; with the heartbeat, all locks that are held.
    pub(super) async fn flush(&self, heartbeat: bool) -> Result<(), LockError> {
        let _writing = self.writing.lock().await;
        let batch = self.pending().batch(heartbeat, self.options.heartbeat);
        if !batch.is_empty() {
            let written = self.write(&batch).await;
            self.log_change(&written);
            if written.is_err() {
                self.pending().put_back(batch);
            }
            written?;
        }
        // Beside the leases: a program that may not create the table of runners still records its locks.
        let written = self.flush_runners(heartbeat).await;
        if written.is_err() {
            self.log_change(&written);
        }
        written
    }

    async fn write(&self, batch: &Batch) -> Result<(), LockError> {
        self.prepare().await?;
        for updates in batch.updates.chunks(CHUNK) {
            self.timely(self.tables.write(updates)).await?;
        }
        for end in &batch.ends {
            self.timely(self.tables.end(end)).await?;
        }
        for contentions in batch.contentions.chunks(CHUNK) {
            self.timely(self.tables.contend(contentions)).await?;
        }
        Ok(())
    }
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.updates.is_empty() && self.ends.is_empty() && self.contentions.is_empty()
    }
}
