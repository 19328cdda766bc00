//! Wake-ups: a hint to other nodes, never needed for anything but speed.

use crate::store::StoreResult;
use crate::store::db::{Session, Value, Verb};
use crate::store::sql::Statement;

/// Verb: tell other nodes that there may be work.
pub(crate) struct Notify(pub(crate) String);

impl Verb for Notify {
    type Answer = ();

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        session.rows(Statement::Notify, vec![Value::Text(Some(self.0.clone()))]).await.map(drop)
    }
}
