//! Stage 9, clean: what nobody needs any more goes.

use crate::store::verbs::{clean, switch};
use crate::store::{BATCH, Cleaned, Retention, Store, StoreResult};

impl Store {
    /// One pass of cleaning, at most `most` of each kind of thing; returns how much went.
    pub async fn clean(&self, keep: &Retention, most: u32) -> StoreResult<Cleaned> {
        self.wake_forgotten().await?;
        self.run(switch::UnparkForgotten(most.min(BATCH))).await?;
        let mut counts = [0; 11];
        for (count, batch) in counts.iter_mut().zip(clean::batches(keep, most.min(BATCH))) {
            *count = self.run(batch).await?;
        }
        let [
            executions,
            dead_letters,
            ticks,
            keys,
            nodes,
            locks,
            idempotency_keys,
            audit,
            sessions,
            stats,
            totals,
        ] = counts;
        Ok(Cleaned {
            executions,
            dead_letters,
            ticks,
            keys,
            nodes,
            locks,
            idempotency_keys,
            audit,
            sessions,
            stats: stats + totals,
        })
    }
}
