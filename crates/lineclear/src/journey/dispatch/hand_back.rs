//! Jobs that were dispatched without a lease, and that no worker claims, go back into the queue.

use std::time::Duration;

use lineclear_model::Name;

use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::journey::enqueue::insert::millis;
use crate::store::{BATCH, Store, StoreResult};

impl Store {
    /// Takes back up to `most` jobs of a route that were dispatched `after` ago and not claimed since; returns how many.
    pub(crate) async fn hand_back(&self, route: &Name, most: u32, after: Duration) -> StoreResult<usize> {
        let params = values![route, most.min(BATCH), millis(after)];
        let back = Query::each(Statement::HandBack, params, |row| row.get::<Option<String>>("limit_key"));
        let keys = self.run(back).await?;
        let count = keys.len();
        self.wake_or_warn(keys.into_iter().flatten().collect()).await;
        Ok(count)
    }
}
