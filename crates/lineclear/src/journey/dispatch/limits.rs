//! Stage 4, limits: how many jobs may run under one key, and who is let in when one of them ends.

use crate::journey::settle::wake;
use crate::store::{Store, StoreResult};
use crate::validate;

impl Store {
    /// At most `max` jobs with this limit key are active at once from now on.
    pub async fn set_limit(&self, key: &str, max: u32) -> StoreResult<()> {
        validate::check_key(key)?;
        validate::check_limit(max)?;
        self.run(wake::SetLimit { key: key.to_owned(), max }).await?;
        self.wake_or_warn(vec![key.to_owned()]).await;
        Ok(())
    }
}
