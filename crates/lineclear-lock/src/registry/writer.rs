//! Writes what the ledger has, soon after it happened and with every heartbeat.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::Inner;
use super::pending_writes::Batch;
use crate::error::LockError;

/// What happens within this time is written together.
const GAP: Duration = Duration::from_millis(200);
/// Rows for one statement.
const AT_ONCE: usize = 500;

/// Writes until the registry is dropped.
pub(super) async fn write(registry: Weak<Inner>, wake: Arc<Notify>, heartbeat: Duration) {
    let mut next_beat = Instant::now() + heartbeat;
    loop {
        let is_beat = tokio::select! {
            biased;
            () = sleep_until(next_beat) => true,
            () = wake.notified() => false,
        };
        if is_beat {
            next_beat = Instant::now() + heartbeat;
        }
        {
            let Some(registry) = registry.upgrade() else { return };
            // It is told inside; what was not written waits for the next heartbeat.
            drop(registry.flush(is_beat).await);
        }
        sleep(GAP.min(heartbeat / 2)).await;
    }
}

impl Inner {
    /// Writes what is to be written; with the heartbeat, all that is held.
    pub(super) async fn flush(&self, heartbeat: bool) -> Result<(), LockError> {
        let _turn = self.turn.lock().await;
        let batch = self.ledger().batch(heartbeat, self.options.heartbeat);
        if batch.is_empty() {
            return Ok(());
        }
        let written = self.write(&batch).await;
        self.tell(&written);
        if written.is_err() {
            self.ledger().again(batch);
        }
        written
    }

    async fn write(&self, batch: &Batch) -> Result<(), LockError> {
        self.prepare().await?;
        for words in batch.words.chunks(AT_ONCE) {
            self.within(self.table.write(words)).await?;
        }
        for ending in &batch.endings {
            self.within(self.table.end(ending)).await?;
        }
        for contentions in batch.contentions.chunks(AT_ONCE) {
            self.within(self.table.contend(contentions)).await?;
        }
        Ok(())
    }
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.endings.is_empty() && self.contentions.is_empty()
    }
}
