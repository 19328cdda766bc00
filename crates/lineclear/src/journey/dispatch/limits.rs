//! The limit of a key: how many jobs with it may be active at once.

use crate::journey::settle::wake;
use crate::store::{Store, StoreResult};
use crate::validate;

impl Store {
    /// Sets how many jobs with this limit key may be active at once.
    pub async fn set_limit(&self, key: &str, max: u32) -> StoreResult<()> {
        validate::check_key(key)?;
        validate::check_limit(max)?;
        self.run(wake::SetLimit { key: key.to_owned(), max }).await?;
        self.wake_or_warn(vec![key.to_owned()]).await;
        Ok(())
    }
}
