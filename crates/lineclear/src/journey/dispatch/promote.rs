//! promote: jobs whose time has come → ready.

use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::store::{Store, StoreResult};

/// Jobs that one statement promotes at most: more would hold their rows, and SQLite's file, for too long.
pub(crate) const PROMOTE_MAX: u32 = 5_000;

impl Store {
    /// Makes up to `most` due jobs ready, in rank order; returns how many.
    pub async fn promote(&self, most: u32) -> StoreResult<u64> {
        let most = most.min(PROMOTE_MAX);
        self.run(Query::one(Statement::Promote, values![most], |row| row.get("promoted"))).await
    }
}
