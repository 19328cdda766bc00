//! A transaction of `tokio-postgres`.

use tokio_postgres::GenericClient;

use crate::db::classify;
use crate::db::statements::Statement;
use crate::db::{Executor, Params, Postgres, Row};
use crate::journey::enqueue::caller_tx::CallerTx;
use crate::store::StoreResult;

pub(crate) struct InTransaction<'a, C> {
    pub(crate) db: &'a Postgres,
    pub(crate) transaction: &'a C,
}

impl<C: GenericClient + Sync> Executor for InTransaction<'_, C> {
    async fn rows(&mut self, statement: Statement, params: Params) -> StoreResult<Vec<Row>> {
        self.db.in_transaction(self.transaction, statement, params).await
    }
}

impl<C: GenericClient + Sync> CallerTx for InTransaction<'_, C> {
    async fn execute(&mut self, sql: &str) -> StoreResult<()> {
        self.transaction.batch_execute(sql).await.map_err(classify::postgres)
    }
}
