//! Statements and transactions in SQLite.

use std::sync::Arc;

use lineclear_lock::Fence;
use lineclear_lock::sqlite::fence as check_fence;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::{Cell, Database, Row, Statement, Step, Transacted, Value};
use crate::error::OutboxError;
use crate::sqlite::{SqliteStore, classify, immediate};
use crate::store::StoreFuture;
use crate::subscriptions::error::HandlerError;
use crate::subscriptions::handler::Work;

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = |json: Result<String, serde_json::Error>| {
            json.map(ToSqlOutput::from).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
        };
        match self {
            Value::Int(number) => number.to_sql(),
            Value::Text(text) => text.to_sql(),
            Value::Flag(flag) => flag.to_sql(),
            Value::Ints(numbers) => json(serde_json::to_string(numbers)),
            Value::Texts(texts) => json(serde_json::to_string(texts)),
        }
    }
}

fn rows(connection: &Connection, statement: &Statement, params: &[Value]) -> Result<Vec<Row>, OutboxError> {
    let mut prepared = connection.prepare_cached(statement.sqlite).map_err(classify)?;
    let columns: Arc<[String]> = prepared.column_names().into_iter().map(str::to_owned).collect();
    let read = prepared.query_map(params_from_iter(params), |row| {
        let cell = |at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Integer(number) => Cell::Int(number),
                ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Cell::Null,
            })
        };
        Ok(Row::new(columns.clone(), (0..columns.len()).map(cell).collect::<rusqlite::Result<_>>()?))
    });
    read.map_err(classify)?.collect::<rusqlite::Result<_>>().map_err(classify)
}

fn is_made(connection: &Connection) -> Result<bool, OutboxError> {
    let made = rows(connection, super::twin!("event_exists"), &[])?;
    Ok(made.into_iter().any(|mut row| row.flag("made")))
}

impl Database for SqliteStore {
    fn prepare(&self) -> StoreFuture<'_, ()> {
        self.on(|connection| {
            // If the tables exist, there is no need to wait for other writers.
            if is_made(connection)? {
                return Ok(());
            }
            let transaction = immediate(connection)?;
            let tables = include_str!("../../sql/sqlite/event_schema.sql");
            transaction.execute_batch(tables).map_err(classify)?;
            transaction.commit().map_err(classify)
        })
    }

    fn has_log(&self) -> StoreFuture<'_, bool> {
        if !self.path.exists() {
            return Box::pin(async { Ok(false) });
        }
        self.on(|connection| is_made(connection))
    }

    fn query<'a>(&'a self, statement: &'static Statement, params: Vec<Value>) -> StoreFuture<'a, Vec<Row>> {
        self.on(move |connection| rows(connection, statement, &params))
    }

    fn transact<'a>(
        &'a self,
        fence: Option<&'a Fence>,
        work: Option<Work>,
        steps: Vec<Step>,
    ) -> StoreFuture<'a, Transacted> {
        // The statements run on another thread, and may outlive the caller.
        let fence = fence.cloned();
        self.on(move |connection| {
            let transaction = immediate(connection)?;
            if let Some(held) = &fence
                && !check_fence(&transaction, held)?
            {
                return Ok(Transacted::Lost);
            }
            if let Some(work) = &work
                && let Err(error) = work.run_sqlite(&transaction)
            {
                return Ok(Transacted::Failed(error));
            }
            let mut all = Vec::with_capacity(steps.len());
            for step in &steps {
                let rows = rows(&transaction, step.statement, &step.params)?;
                if step.must && rows.is_empty() {
                    return Ok(Transacted::Changed);
                }
                all.push(rows);
            }
            match transaction.commit().map_err(classify) {
                Ok(()) => Ok(Transacted::Done(all)),
                Err(error @ OutboxError::Failed(_)) if work.is_some() => {
                    Ok(Transacted::Failed(HandlerError::from(error)))
                }
                Err(error) => Err(error),
            }
        })
    }
}
