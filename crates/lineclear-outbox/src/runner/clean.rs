//! Retention: what is kept no longer is removed, in small parts between the runner's other work.

use std::time::Duration;

use tokio::time::Instant;

use super::Sink;
use super::run::Run;
use crate::error::OutboxError;
use crate::store::{CLEAN_MAX, Kept};

/// How often what is kept no longer is removed.
const CLEAN_EVERY: Duration = Duration::from_secs(60);
/// A long cleaning takes at most one part in so many of the time, while messages are on their way.
const CLEAN_SHARE: u32 = 10;

impl<S: Sink> Run<S> {
    pub(super) fn until_clean(&self) -> Duration {
        self.clean_at.saturating_duration_since(Instant::now())
    }

    /// Removes some of it, if it is time. If that was as much as one statement removes, there may be more: it goes on soon.
    pub(super) async fn clean_sometimes(&mut self) -> Result<(), OutboxError> {
        if Instant::now() < self.clean_at.max(self.pause_until) {
            return Ok(());
        }
        let (kept, begun) = (Kept::of(&self.options), Instant::now());
        let cleaned = self.outbox.store.clean(&self.outbox.name, kept).await;
        let is_full = cleaned.as_ref().is_ok_and(|removed| *removed >= CLEAN_MAX.unsigned_abs());
        let is_busy = !self.window.is_idle() || self.window.results() > 0;
        let soon = if is_busy { begun.elapsed() * (CLEAN_SHARE - 1) } else { Duration::ZERO };
        self.clean_at = Instant::now() + if is_full { soon } else { CLEAN_EVERY };
        match cleaned {
            Ok(_) => Ok(()),
            Err(error) => self.database_is_away(error),
        }
    }
}
