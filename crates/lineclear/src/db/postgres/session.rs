//! A PostgreSQL connection that runs one verb: transactions, statements, rows.

use std::sync::Arc;

use deadpool_postgres::Object;
use lineclear_model::Micros;
use tokio_postgres::types::{ToSql, Type};

use crate::db::classify;
use crate::db::statements::Statement;
use crate::db::value::{Cell, Params, Row};
use crate::store::{StoreError, StoreResult};

#[derive(Clone, Copy, PartialEq)]
enum Transaction {
    None,
    /// Each statement is a transaction of its own, in one round trip: only so can it have time limits behind a pooler.
    Each,
    /// Begins with the first statement, in the same round trip.
    Wanted,
    Open,
}

/// A connection that runs one verb.
pub(crate) struct PgSession {
    client: Option<Object>,
    texts: Arc<Vec<String>>,
    pooler: bool,
    transaction: Transaction,
    begin: String,
}

impl PgSession {
    pub(super) fn new(
        client: Object,
        texts: Arc<Vec<String>>,
        pooler: bool,
        is_transaction: bool,
        sets: Option<String>,
    ) -> PgSession {
        let transaction = match (is_transaction, &sets) {
            (true, _) => Transaction::Wanted,
            (false, Some(_)) => Transaction::Each,
            (false, None) => Transaction::None,
        };
        let begin = sets.map_or_else(|| "begin".to_owned(), |sets| format!("begin; {sets}"));
        PgSession { client: Some(client), texts, pooler, transaction, begin }
    }

    fn client(&self) -> &Object {
        self.client.as_ref().expect("a session has its connection until it ends")
    }

    pub(crate) async fn rows(&mut self, statement: Statement, params: &Params) -> StoreResult<Vec<Row>> {
        let texts = self.texts.clone();
        self.query(&texts[statement as usize], params).await
    }

    pub(crate) async fn query(&mut self, text: &str, params: &Params) -> StoreResult<Vec<Row>> {
        let typed = typed(params);
        let prepared = if self.pooler {
            None
        } else {
            let types: Vec<Type> = typed.iter().map(|(_, ty)| ty.clone()).collect();
            Some(self.client().prepare_typed_cached(text, &types).await.map_err(classify::postgres)?)
        };
        let transaction = self.transaction;
        // Until the answer is here, the connection may be inside a transaction.
        if transaction != Transaction::None {
            self.transaction = Transaction::Open;
        }
        let client = self.client();
        let request = async {
            match &prepared {
                Some(statement) => {
                    let values: Vec<&(dyn ToSql + Sync)> = typed.iter().map(|(v, _)| *v).collect();
                    client.query(statement, &values).await
                }
                None => client.query_typed(text, &typed).await,
            }
        };
        // Pipelined: all are sent without waiting for the first answer, in one round trip.
        let rows = match transaction {
            Transaction::None | Transaction::Open => request.await,
            Transaction::Wanted => {
                let (begun, rows) = tokio::join!(biased; client.batch_execute(&self.begin), request);
                begun.and(rows)
            }
            Transaction::Each => {
                // After a statement that failed, COMMIT rolls back.
                let commit = client.batch_execute("commit");
                let (begun, rows, ended) =
                    tokio::join!(biased; client.batch_execute(&self.begin), request, commit);
                if ended.is_ok() {
                    self.transaction = Transaction::Each;
                }
                begun.and(rows).and_then(|rows| ended.map(|()| rows))
            }
        };
        decode(&rows.map_err(classify::postgres)?)
    }

    /// The server's plan for a statement.
    #[cfg(test)]
    pub(crate) async fn explain(&mut self, statement: Statement, params: &Params) -> StoreResult<String> {
        self.explain_with("costs off", statement, params).await
    }

    /// Runs the statement, too, and counts the pages that it reads.
    #[cfg(test)]
    pub(crate) async fn explain_analyze(
        &mut self,
        statement: Statement,
        params: &Params,
    ) -> StoreResult<String> {
        self.explain_with("analyze, buffers, costs off, timing off, summary off", statement, params).await
    }

    #[cfg(test)]
    async fn explain_with(
        &mut self,
        options: &str,
        statement: Statement,
        params: &Params,
    ) -> StoreResult<String> {
        let text = format!("explain ({options}) {}", self.texts[statement as usize]);
        let rows = self.query(&text, params).await?;
        Ok(rows
            .iter()
            .map(|row| row.get::<String>("QUERY PLAN"))
            .collect::<StoreResult<Vec<_>>>()?
            .join("\n"))
    }

    pub(crate) async fn batch(&mut self, sql: &str) -> StoreResult<()> {
        if self.transaction == Transaction::Wanted {
            self.transaction = Transaction::Open;
            self.client().batch_execute(&self.begin).await.map_err(classify::postgres)?;
        }
        self.client().batch_execute(sql).await.map_err(classify::postgres)
    }

    pub(crate) async fn commit(&mut self) -> StoreResult<()> {
        if self.transaction == Transaction::Open {
            self.client().batch_execute("commit").await.map_err(classify::postgres)?;
            self.transaction = Transaction::None;
        }
        Ok(())
    }

    pub(crate) async fn roll_back(&mut self) {
        if self.transaction == Transaction::Open && self.client().batch_execute("rollback").await.is_ok() {
            self.transaction = Transaction::None;
        }
    }

    /// Closes the connection instead of returning it to the pool.
    pub(super) fn close(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

impl Drop for PgSession {
    /// A connection whose transaction may still be open must not return to the pool.
    fn drop(&mut self) {
        if self.transaction == Transaction::Open {
            self.close();
        }
    }
}

/// Parameters with their types.
pub(super) fn typed(params: &Params) -> Vec<(&(dyn ToSql + Sync), Type)> {
    let values = params.values.iter().map(|v| (v as &(dyn ToSql + Sync), v.pg_type()));
    values.chain(params.batch.iter().map(|c| (c as &(dyn ToSql + Sync), c.pg_type()))).collect()
}

/// Rows in the form of both databases.
pub(super) fn decode(rows: &[tokio_postgres::Row]) -> StoreResult<Vec<Row>> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let names: Arc<[String]> = first.columns().iter().map(|c| c.name().to_owned()).collect();
    let cells =
        |row: &tokio_postgres::Row| (0..row.len()).map(|at| cell(row, at)).collect::<StoreResult<_>>();
    rows.iter().map(|row| Ok(Row { names: names.clone(), cells: cells(row)? })).collect()
}

fn cell(row: &tokio_postgres::Row, at: usize) -> StoreResult<Cell> {
    let ty = row.columns()[at].type_();
    let int = |v: Option<i64>| v.map_or(Cell::Null, Cell::Int);
    let cell = match *ty {
        Type::INT8 => row.try_get::<_, Option<i64>>(at).map(int),
        Type::INT4 => row.try_get::<_, Option<i32>>(at).map(|v| int(v.map(i64::from))),
        Type::INT2 => row.try_get::<_, Option<i16>>(at).map(|v| int(v.map(i64::from))),
        Type::BOOL => row.try_get::<_, Option<bool>>(at).map(|v| int(v.map(i64::from))),
        Type::TIMESTAMPTZ => {
            row.try_get::<_, Option<jiff::Timestamp>>(at).map(|v| int(v.map(|at| Micros::from(at).get())))
        }
        Type::TEXT => row.try_get::<_, Option<String>>(at).map(|v| v.map_or(Cell::Null, Cell::Text)),
        Type::VOID => Ok(Cell::Null),
        _ => {
            let what =
                format!("column {} has type {ty}, which no statement returns", row.columns()[at].name());
            return Err(StoreError::Corrupt { what });
        }
    };
    cell.map_err(|e| StoreError::Corrupt { what: e.to_string() })
}
