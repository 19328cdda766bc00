//! A connection of `sqlx` to PostgreSQL.

use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{
    AssertSqlSafe, Column as _, Executor as _, PgConnection, Postgres as SqlxPostgres, Row as _,
    TypeInfo as _,
};

use crate::db::classify;
use crate::db::statements::Statement;
use crate::db::{Cell, Column, Executor, Params, Postgres, Row, Value};
use crate::journey::enqueue::caller_tx::CallerTx;
use crate::store::{StoreError, StoreResult};
use lineclear_model::Micros;

pub(crate) struct InSqlx<'a> {
    pub(crate) db: &'a Postgres,
    pub(crate) connection: &'a mut PgConnection,
}

impl Executor for InSqlx<'_> {
    async fn rows(&mut self, statement: Statement, params: Params) -> StoreResult<Vec<Row>> {
        // Not persistent: nothing stays on the caller's connection.
        let mut query = sqlx::query(AssertSqlSafe(self.db.text(statement).to_owned())).persistent(false);
        for value in params.values {
            query = bind_value(query, value);
        }
        for column in params.batch {
            query = bind_column(query, column);
        }
        let rows = query.fetch_all(&mut *self.connection).await.map_err(classify::sqlx)?;
        rows.iter().map(decode).collect()
    }
}

impl CallerTx for InSqlx<'_> {
    async fn execute(&mut self, sql: &str) -> StoreResult<()> {
        let text = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        self.connection.execute(text).await.map(drop).map_err(classify::sqlx)
    }
}

type Asked<'q> = Query<'q, SqlxPostgres, PgArguments>;

/// Times are sent as text, which the statement casts: sqlx has no encoding for our type.
fn text(at: Option<Micros>) -> Option<String> {
    at.map(|at| at.timestamp().to_string())
}

fn bind_value(query: Asked<'_>, value: Value) -> Asked<'_> {
    match value {
        Value::Int(v) => query.bind(v),
        Value::Bool(v) => query.bind(v),
        Value::Text(v) => query.bind(v),
        Value::Time(v) => query.bind(text(v)),
        Value::Ints(v) => query.bind(v),
        Value::Texts(v) => query.bind(v),
        Value::MaybeTexts(v) => query.bind(v),
    }
}

fn bind_column(query: Asked<'_>, column: Column) -> Asked<'_> {
    match column {
        Column::Ints(v) => query.bind(v),
        Column::Bools(v) => query.bind(v),
        Column::Texts(v) => query.bind(v),
        Column::Times(v) => query.bind(v.into_iter().map(text).collect::<Vec<_>>()),
    }
}

fn decode(row: &PgRow) -> StoreResult<Row> {
    let names: Arc<[String]> = row.columns().iter().map(|column| column.name().to_owned()).collect();
    let mut cells = Vec::with_capacity(names.len());
    for (at, column) in row.columns().iter().enumerate() {
        let int = |v: Option<i64>| v.map_or(Cell::Null, Cell::Int);
        let cell = match column.type_info().name() {
            "INT8" => row.try_get::<Option<i64>, _>(at).map(int),
            "BOOL" => row.try_get::<Option<bool>, _>(at).map(|v| int(v.map(i64::from))),
            "TEXT" => row.try_get::<Option<String>, _>(at).map(|v| v.map_or(Cell::Null, Cell::Text)),
            other => {
                let what =
                    format!("column {} has type {other}, which enqueueing does not return", column.name());
                return Err(StoreError::Corrupt { what });
            }
        };
        cells.push(cell.map_err(classify::sqlx)?);
    }
    Ok(Row { names, cells })
}
