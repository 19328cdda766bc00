//! A transaction of `tokio-postgres`.

use tokio_postgres::GenericClient;

use crate::db::classify;
use crate::db::statements::Statement;
use crate::db::{Ask, Params, Postgres, Row};
use crate::journey::enqueue::caller_tx::Theirs;
use crate::store::StoreResult;

pub(crate) struct InTransaction<'a, C> {
    pub(crate) db: &'a Postgres,
    pub(crate) transaction: &'a C,
}

impl<C: GenericClient + Sync> Ask for InTransaction<'_, C> {
    async fn rows(&mut self, statement: Statement, params: Params) -> StoreResult<Vec<Row>> {
        self.db.in_transaction(self.transaction, statement, params).await
    }
}

impl<C: GenericClient + Sync> Theirs for InTransaction<'_, C> {
    async fn execute(&mut self, sql: &str) -> StoreResult<()> {
        self.transaction.batch_execute(sql).await.map_err(classify::postgres)
    }
}
