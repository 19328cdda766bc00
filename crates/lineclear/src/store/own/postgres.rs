//! A transaction of `tokio-postgres`.

use tokio_postgres::GenericClient;

use super::Theirs;
use crate::store::db::{Ask, Params, Postgres, Row};
use crate::store::sql::Statement;
use crate::store::{StoreResult, classify};

pub(super) struct InTransaction<'a, C> {
    pub(super) db: &'a Postgres,
    pub(super) transaction: &'a C,
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
