//! The registry in MySQL or MariaDB, on a connection of its own.

use mysql_async::prelude::Queryable;
use mysql_async::{
    Conn, IsolationLevel, Opts, Params as MysqlParams, Transaction, TxOpts, Value as MysqlValue,
};
use tokio::sync::Mutex;

use super::super::updates::LeaseUpdate;
use super::change::Change;
use super::value::{Params, Row, Value};
use super::{Database, Executor, Statement, TableSet, sql_files};
use crate::backend::LockFuture;
use crate::error::LockError;
use crate::mysql::{classify, opts};

const TABLES: [&str; 3] = [
    include_str!("../../../sql/mysql/registry_schema.sql"),
    include_str!("../../../sql/mysql/registry_events.sql"),
    include_str!("../../../sql/mysql/registry_view.sql"),
];
const RUNNERS: [&str; 1] = [include_str!("../../../sql/mysql/runner_schema.sql")];
const SQL: [&str; 16] = sql_files!("mysql");

/// The tables in a database of a server.
#[derive(Debug)]
pub(super) struct MysqlDatabase {
    opts: Opts,
    /// None while it is in use: a connection whose answer was not read is not used again.
    connection: Mutex<Option<Conn>>,
}

impl MysqlDatabase {
    pub(super) fn new(url: &str) -> Result<MysqlDatabase, LockError> {
        Ok(MysqlDatabase { opts: opts(url)?.0, connection: Mutex::default() })
    }

    async fn on<T>(&self, work: impl AsyncFnOnce(&mut Conn) -> Result<T, LockError>) -> Result<T, LockError> {
        let mut slot = self.connection.lock().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => Conn::new(self.opts.clone()).await.map_err(classify)?,
        };
        let done = work(&mut connection).await;
        // After an error its state is unknown.
        if done.is_ok() {
            *slot = Some(connection);
        }
        done
    }

    /// Renews all these rows in one statement. `false`: some row does not exist, or belongs to another holder.
    async fn renew(&self, updates: &[LeaseUpdate]) -> Result<bool, LockError> {
        let each = vec!["(?, ?, ?, ?)"; updates.len()].join(", ");
        let sql = format!(
            "update lock_lease set renewed_at = utc_timestamp(6) \
             where (lock_name, store, incarnation, epoch) in ({each}) and released_at is null"
        );
        let bytes = |text: &str| MysqlValue::Bytes(text.as_bytes().to_vec());
        let params = updates.iter().flat_map(|update| {
            let incarnation = bytes(&update.holder.incarnation.to_string());
            [bytes(update.name.as_str()), bytes(&update.store), incarnation, update.epoch.get().into()]
        });
        let params = MysqlParams::Positional(params.collect());
        self.on(async move |connection| {
            connection.exec_drop(sql, params).await.map_err(classify)?;
            Ok(connection.affected_rows() == u64::try_from(updates.len()).unwrap_or(u64::MAX))
        })
        .await
    }
}

async fn query(
    connection: &mut impl Queryable,
    statement: Statement,
    params: Params,
) -> Result<Vec<Row>, LockError> {
    let params = match params.is_empty() {
        true => MysqlParams::Empty,
        false => MysqlParams::from(params),
    };
    let rows: Vec<mysql_async::Row> =
        connection.exec(SQL[statement as usize], params).await.map_err(classify)?;
    rows.into_iter().map(row).collect()
}

/// Text is bound as bytes, which are compared byte by byte.
impl From<Value> for MysqlValue {
    fn from(value: Value) -> MysqlValue {
        match value {
            Value::Int(number) => MysqlValue::from(number),
            Value::Text(text) | Value::Name(text) => MysqlValue::from(text.map(String::into_bytes)),
        }
    }
}

fn row(row: mysql_async::Row) -> Result<Row, LockError> {
    let names: Vec<String> = row.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
    let columns = names.into_iter().zip(row.unwrap()).map(|(name, value)| {
        let value = match value {
            MysqlValue::NULL => Value::Int(None),
            MysqlValue::Bytes(bytes) => Value::Text(Some(String::from_utf8_lossy(&bytes).into_owned())),
            number => match mysql_async::from_value_opt(number) {
                Ok(number) => Value::Int(Some(number)),
                Err(error) => return Err(LockError::failed(error)),
            },
        };
        Ok((name, value))
    });
    columns.collect()
}

impl Database for MysqlDatabase {
    fn create_tables(&self, which: TableSet) -> LockFuture<'_, ()> {
        let tables = match which {
            TableSet::Leases => &TABLES[..],
            TableSet::Runners => &RUNNERS[..],
        };
        Box::pin(self.on(async move |connection| {
            for table in tables {
                connection.query_drop(*table).await.map_err(classify)?;
            }
            Ok(())
        }))
    }

    fn read(&self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>> {
        Box::pin(self.on(async move |connection| query(connection, statement, params).await))
    }

    fn change(&self, change: Change) -> LockFuture<'_, bool> {
        Box::pin(async move {
            if let Some(updates) = change.renewals()
                && self.renew(updates).await?
            {
                return Ok(true);
            }
            self.on(async move |connection| {
                // Without gap locks, with which writers of different rows wait for each other.
                let mut options = TxOpts::default();
                options.with_isolation_level(IsolationLevel::ReadCommitted);
                let mut transaction = connection.start_transaction(options).await.map_err(classify)?;
                let applied = change.apply(&mut transaction).await?;
                transaction.commit().await.map_err(classify)?;
                Ok(applied)
            })
            .await
        })
    }
}

impl Executor for Transaction<'_> {
    fn run(&mut self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>> {
        Box::pin(query(self, statement, params))
    }
}
