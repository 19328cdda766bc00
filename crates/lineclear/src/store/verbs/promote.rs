//! promote: jobs whose time has come → ready.

use crate::store::StoreResult;
use crate::store::db::{Session, Value, Verb};
use crate::store::sql::Statement;

/// Verb: brings due jobs into the line; returns how many.
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
