//! The registry in a SQLite file, on a connection of its own.

use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rusqlite::types::{ToSqlOutput, Value as Stored, ValueRef};
use rusqlite::{Connection, ToSql};

use super::change::Change;
use super::value::{Params, Row, Value};
use super::{Database, Executor, Statement, TableSet, sql_files};
use crate::backend::LockFuture;
use crate::error::LockError;
use crate::sqlite::{File, classify, connect_plain, now};

/// Migration 0012 of the scheduler is a symbolic link to this file. Applied migrations have its checksum: its text must not change.
const TABLES: &str = include_str!("../../../migrations/sqlite/0012_lock_lease.sql");
/// Migration 0034, likewise.
const RUNNERS: &str = include_str!("../../../migrations/sqlite/0034_lock_runner.sql");
const SQL: [&str; 16] = sql_files!("sqlite");

/// The tables in a file.
#[derive(Debug)]
pub(super) struct SqliteDatabase(File);

impl SqliteDatabase {
    pub(super) fn new(path: impl AsRef<Path>) -> SqliteDatabase {
        SqliteDatabase(File::new(path, |path| {
            let connection = connect_plain(path)?;
            // A power failure may lose the last rows.
            connection.pragma_update(None, "synchronous", "normal")?;
            Ok(connection)
        }))
    }

    /// Runs `work` in a transaction that never has to be upgraded.
    fn transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, LockError> + Send + 'static,
    ) -> LockFuture<'static, T> {
        self.0.on(move |connection| {
            connection.execute_batch("begin immediate").map_err(classify)?;
            let mut transaction = Transaction { connection, now: now() };
            let done = work(&mut transaction)?;
            transaction.connection.execute_batch("commit").map_err(classify)?;
            Ok(done)
        })
    }
}

/// An open transaction; it is rolled back unless it was committed. Not rusqlite's, which must stay on one thread and so cannot be an
/// [`Executor`].
struct Transaction<'a> {
    connection: &'a mut Connection,
    now: i64,
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.connection.is_autocommit() {
            // If it fails, the connection's next transaction fails.
            drop(self.connection.execute_batch("rollback"));
        }
    }
}

impl Executor for Transaction<'_> {
    fn run(&mut self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>> {
        let rows = query(self.connection, statement, &params, self.now);
        Box::pin(std::future::ready(rows.map_err(classify)))
    }
}

fn query(
    connection: &Connection,
    statement: Statement,
    params: &Params,
    now: i64,
) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(SQL[statement as usize])?;
    for (name, value) in params {
        if let Some(index) = statement.parameter_index(&format!(":{name}"))? {
            statement.raw_bind_parameter(index, value)?;
        }
    }
    if let Some(index) = statement.parameter_index(":now")? {
        statement.raw_bind_parameter(index, now)?;
    }
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let (mut rows, mut read) = (statement.raw_query(), Vec::new());
    while let Some(row) = rows.next()? {
        let value = |index| -> rusqlite::Result<Value> {
            Ok(match row.get_ref(index)? {
                ValueRef::Null => Value::Int(None),
                ValueRef::Integer(number) => Value::Int(Some(number)),
                _ => Value::Text(Some(row.get(index)?)),
            })
        };
        let columns = names.iter().enumerate().map(|(index, name)| Ok((name.clone(), value(index)?)));
        read.push(columns.collect::<rusqlite::Result<Row>>()?);
    }
    Ok(read)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Value::Int(Some(number)) => ToSqlOutput::Owned(Stored::Integer(*number)),
            Value::Text(Some(text)) | Value::Name(Some(text)) => ToSqlOutput::from(text.as_str()),
            Value::Int(None) | Value::Text(None) | Value::Name(None) => ToSqlOutput::Owned(Stored::Null),
        })
    }
}

/// The result of a future that never waits.
fn now_or_error<T>(work: impl Future<Output = Result<T, LockError>>) -> Result<T, LockError> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(LockError::failed("a statement on a SQLite file must not wait")),
    }
}

impl Database for SqliteDatabase {
    fn create_tables(&self, which: TableSet) -> LockFuture<'_, ()> {
        let sql = match which {
            TableSet::Leases => TABLES,
            TableSet::Runners => RUNNERS,
        };
        self.transaction(move |transaction| transaction.connection.execute_batch(sql).map_err(classify))
    }

    fn read(&self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>> {
        // Reading must not create the file: one that does not exist has no rows.
        if !self.0.exists() {
            return Box::pin(async { Ok(Vec::new()) });
        }
        self.0.on(move |connection| query(connection, statement, &params, now()).map_err(classify))
    }

    fn change(&self, change: Change) -> LockFuture<'_, bool> {
        self.transaction(move |transaction| now_or_error(change.apply(transaction)))
    }
}
