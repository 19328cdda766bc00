//! The registry in SQL Server, on a connection of its own. It has not run on a real server; see [`crate::mssql`].

use std::borrow::Cow;
use std::sync::Arc;

use tiberius::{ColumnData, ToSql};
use tokio::sync::Mutex;

use super::change::Change;
use super::value::{Params, Row, Value};
use super::{Database, Executor, Statement, TableSet, sql_files};
use crate::backend::LockFuture;
use crate::error::LockError;
use crate::mssql::connection::{Connection, Session};
use crate::mssql::target::MssqlTarget;

const TABLES: [&str; 3] = [
    include_str!("../../../sql/mssql/registry_schema.sql"),
    include_str!("../../../sql/mssql/registry_events.sql"),
    include_str!("../../../sql/mssql/registry_view.sql"),
];
const RUNNERS: [&str; 1] = [include_str!("../../../sql/mssql/runner_schema.sql")];
const SQL: [&str; 16] = sql_files!("mssql");

/// The tables in a database of a server.
#[derive(Debug)]
pub(super) struct MssqlDatabase {
    connection: Connection,
    /// One transaction at a time.
    in_use: Mutex<()>,
}

impl MssqlDatabase {
    pub(super) fn new(url: &str) -> Result<MssqlDatabase, LockError> {
        Ok(MssqlDatabase { connection: Connection::new(MssqlTarget::new(url)?), in_use: Mutex::default() })
    }
}

impl Database for MssqlDatabase {
    fn create_tables(&self, which: TableSet) -> LockFuture<'_, ()> {
        let tables = match which {
            TableSet::Leases => &TABLES[..],
            TableSet::Runners => &RUNNERS[..],
        };
        Box::pin(async move {
            let _in_use = self.in_use.lock().await;
            let session = self.connection.session().await?;
            let mut created = Ok(());
            for table in tables {
                // Another process may have created this one, and not yet the next.
                created = session.rows(table, &[]).await.map(drop).and(created);
            }
            created
        })
    }

    fn read(&self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>> {
        Box::pin(async move {
            let _in_use = self.in_use.lock().await;
            self.connection.session().await?.run(statement, params).await
        })
    }

    /// If the transaction does not come to its end, the connection is closed, which rolls it back.
    fn change(&self, change: Change) -> LockFuture<'_, bool> {
        Box::pin(async move {
            let _in_use = self.in_use.lock().await;
            let mut session = self.connection.session().await?;
            let unfinished = session.ended.clone().drop_guard();
            session.query_opt("begin transaction", &[]).await?;
            let applied = change.apply(&mut session).await?;
            session.query_opt("commit transaction", &[]).await?;
            unfinished.disarm();
            Ok(applied)
        })
    }
}

impl Executor for Arc<Session> {
    fn run(&mut self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>> {
        Box::pin(async move {
            let params: Vec<&dyn ToSql> = params.iter().map(|(_, value)| value as &dyn ToSql).collect();
            let rows = self.rows(SQL[statement as usize], &params).await?;
            rows.iter().map(row).collect()
        })
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> ColumnData<'_> {
        match self {
            Value::Int(number) => ColumnData::I64(*number),
            Value::Text(text) => ColumnData::String(text.as_deref().map(Cow::Borrowed)),
            Value::Name(name) => {
                ColumnData::Binary(name.as_deref().map(|name| Cow::Borrowed(name.as_bytes())))
            }
        }
    }
}

fn row(row: &tiberius::Row) -> Result<Row, LockError> {
    let columns = row.cells().map(|(column, data)| {
        let value = match data {
            ColumnData::I64(number) => Value::Int(*number),
            ColumnData::I32(number) => Value::Int(number.map(i64::from)),
            ColumnData::String(text) => Value::Text(text.as_deref().map(str::to_owned)),
            ColumnData::Binary(name) => {
                Value::Name(name.as_deref().map(|name| String::from_utf8_lossy(name).into_owned()))
            }
            other => {
                return Err(LockError::failed(format!(
                    "column {} has the unknown type {other:?}",
                    column.name()
                )));
            }
        };
        Ok((column.name().to_owned(), value))
    });
    columns.collect()
}
