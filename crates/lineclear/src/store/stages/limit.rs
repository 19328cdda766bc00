//! Stage 4, limits: how many jobs may run under one key, and who is let in when one of them ends.

use crate::store::verbs::wake;
use crate::store::{Store, StoreResult, door};

impl Store {
    /// At most `max` jobs with this limit key are active at once from now on.
    pub async fn set_limit(&self, key: &str, max: u32) -> StoreResult<()> {
        door::check_key(key)?;
        door::check_limit(max)?;
        self.run(wake::SetLimit { key: key.to_owned(), max }).await?;
        self.wake_or_warn(vec![key.to_owned()]).await;
        Ok(())
    }

    /// Lets jobs that these keys held back try again.
    pub(in crate::store) async fn wake(&self, mut keys: Vec<String>) -> StoreResult<()> {
        keys.sort_unstable();
        keys.dedup();
        if !keys.is_empty() {
            self.run(wake::WakeKeys(keys)).await?;
        }
        Ok(())
    }

    /// The same after something that is done and must not be reported as failed; the cleaner wakes whom we could not.
    pub(in crate::store) async fn wake_or_warn(&self, keys: Vec<String>) {
        if let Err(error) = self.wake(keys).await {
            tracing::warn!(%error, "jobs held by a limit key could not be woken");
        }
    }

    /// Wakes jobs whose waker died between settling and waking.
    pub(in crate::store) async fn wake_forgotten(&self) -> StoreResult<()> {
        const PAGE: u32 = 500;
        let mut after = String::new();
        loop {
            let keys = self.run(wake::HeldKeys { after: after.clone(), most: PAGE }).await?;
            let Some(last) = keys.last().cloned() else { return Ok(()) };
            self.wake(keys).await?;
            after = last;
        }
    }
}
