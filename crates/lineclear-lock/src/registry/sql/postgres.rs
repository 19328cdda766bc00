//! The registry in PostgreSQL: each change is one statement, so that any pooler may be in between.

use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type};

use super::change::Change;
use super::value::{Params, Row, Value};
use super::{Database, Executor, Statement, TableSet, sql_files};
use crate::backend::LockFuture;
use crate::error::LockError;
use crate::postgres::connection::{Connection, Purpose};
use crate::postgres::schema::create;
use crate::postgres::{PostgresTarget, classify};

/// Migration 0012 of the scheduler is a symbolic link to this file. Applied migrations have its checksum: its text must not change.
const TABLES: &str = include_str!("../../../migrations/postgres/0012_lock_lease.sql");
/// Migration 0034, likewise.
const RUNNERS: &str = include_str!("../../../migrations/postgres/0034_lock_runner.sql");
const SQL: [&str; 13] = sql_files!(set_wise "postgres");

/// The tables in a schema of a database.
#[derive(Debug)]
pub(super) struct PostgresDatabase {
    target: PostgresTarget,
    connection: Connection,
    sql: [String; 13],
}

impl PostgresDatabase {
    pub(super) fn new(url: &str) -> Result<PostgresDatabase, LockError> {
        let target = PostgresTarget::new(url)?;
        let connection = Connection::new(&target, Purpose::Statements, Arc::default());
        Ok(PostgresDatabase { connection, sql: SQL.map(|text| target.sql(text)), target })
    }

    async fn query(&self, statement: Statement, params: &[Param]) -> Result<Vec<Row>, LockError> {
        let Some(sql) = self.sql.get(statement as usize) else {
            return Err(LockError::failed(format!("{statement:?} has no SQL for PostgreSQL")));
        };
        let params: Vec<_> =
            params.iter().map(|(value, ty)| (&**value as &(dyn ToSql + Sync), ty.clone())).collect();
        let call = self.connection.call().await?;
        let rows = call.session().client.query_typed(sql, &params).await;
        call.answer(rows)?.iter().map(row).collect()
    }
}

type Param = (Box<dyn ToSql + Send + Sync>, Type);

fn param(value: Value) -> Param {
    match value {
        Value::Int(number) => (Box::new(number), Type::INT8),
        Value::Text(text) | Value::Name(text) => (Box::new(text), Type::TEXT),
    }
}

/// All values of one parameter.
fn array(values: impl Iterator<Item = Value>) -> Param {
    let (mut numbers, mut texts) = (Vec::new(), Vec::new());
    for value in values {
        match value {
            Value::Int(number) => numbers.push(number),
            Value::Text(text) | Value::Name(text) => texts.push(text),
        }
    }
    if texts.is_empty() { (Box::new(numbers), Type::INT8_ARRAY) } else { (Box::new(texts), Type::TEXT_ARRAY) }
}

fn row(row: &tokio_postgres::Row) -> Result<Row, LockError> {
    let columns = row.columns().iter().enumerate().map(|(index, column)| {
        let value = match *column.type_() {
            Type::BOOL => row.try_get(index).map(|yes: Option<bool>| Value::Int(yes.map(i64::from))),
            Type::INT8 => row.try_get(index).map(Value::Int),
            _ => row.try_get(index).map(Value::Text),
        };
        Ok((column.name().to_owned(), value.map_err(classify)?))
    });
    columns.collect()
}

impl Database for PostgresDatabase {
    fn create_tables(&self, which: TableSet) -> LockFuture<'_, ()> {
        let sql = match which {
            TableSet::Leases => TABLES,
            TableSet::Runners => RUNNERS,
        };
        Box::pin(async move { create(&self.target, self.connection.call().await?, sql).await })
    }

    fn read(&self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>> {
        let params: Vec<Param> = params.into_iter().map(|(_, value)| param(value)).collect();
        Box::pin(async move { self.query(statement, &params).await })
    }

    fn change(&self, change: Change) -> LockFuture<'_, bool> {
        Box::pin(async move { change.apply(&mut { self }).await })
    }
}

impl Executor for &PostgresDatabase {
    fn run(&mut self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>> {
        self.read(statement, params)
    }

    /// One statement for all: each parameter is an array.
    fn run_all(&mut self, statement: Statement, rows: Vec<Params>) -> LockFuture<'_, ()> {
        let count = rows.first().map_or(0, Vec::len);
        let column = |index: usize| array(rows.iter().filter_map(move |row| Some(row.get(index)?.1.clone())));
        let params: Vec<Param> = (0..count).map(column).collect();
        Box::pin(async move { self.query(statement, &params).await.map(drop) })
    }

    fn is_set_wise(&self) -> bool {
        true
    }
}
