//! promote: jobs whose time has come → ready.

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::store::{BATCH, Store, StoreResult};

/// Verb: makes due jobs ready; returns how many.
pub(crate) struct Promote {
    pub(crate) most: u32,
}

impl Verb for Promote {
    type Answer = u64;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<u64> {
        let rows = session.rows(Statement::Promote, vec![Value::Int(Some(i64::from(self.most)))]).await?;
        Ok(u64::try_from(rows.len()).expect("a count fits"))
    }
}

impl Store {
    /// Makes up to `most` due jobs ready; returns how many.
    pub async fn promote(&self, most: u32) -> StoreResult<u64> {
        self.run(Promote { most: most.min(BATCH) }).await
    }
}
