//! The tables `lock_lease` and `lock_event` of one database: one driver for all databases. It has the statements' names, their
//! parameters (`params.rs`), their transactions (`change.rs`) and the decoding of their rows (`decode.rs`).
//!
//! A [`Database`] has what differs: how to connect, to bind parameters and to read columns. To add one: implement [`Database`], put its
//! SQL files into `sql/`, name its URL in [`open`], and run the tests of `tests/it/registry.rs` on it.

mod change;
mod decode;
mod params;
mod value;

#[cfg(feature = "mssql")]
mod mssql;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;

use change::Change;
use value::{Params, Row};

use super::record::{LeaseRecord, LockEvent};
use super::runners::{RunnerRecord, RunnerUpdate};
use super::updates::{Contention, HoldEnd, LeaseFilter, LeaseUpdate, VanishedHold};
use crate::backend::LockFuture;
use crate::error::LockError;

/// A statement: a file of `sql/<database>/`.
#[derive(Clone, Copy, Debug)]
enum Statement {
    RegistryExists,
    LeaseList,
    LeaseWrite,
    LeaseContend,
    LeaseEnd,
    LeaseRemove,
    LeaseClean,
    EventList,
    EventClean,
    RunnerExists,
    RunnerList,
    RunnerWrite,
    RunnerClean,
    // The others exist only for databases whose executor is not set-wise.
    LeaseCurrent,
    LeaseVanished,
    EventWrite,
}

/// The files of a database, in the order of [`Statement`].
#[allow(unused_macros)]
macro_rules! sql_files {
    ($database:literal) => {
        sql_files!($database, "registry_exists", "lease_list", "lease_write", "lease_contend", "lease_end", "lease_remove",
            "lease_clean", "event_list", "event_clean", "runner_exists", "runner_list", "runner_write", "runner_clean", "lease_current", "lease_vanished", "event_write")
    };
    (set_wise $database:literal) => {
        sql_files!($database, "registry_exists", "lease_list", "lease_write", "lease_contend", "lease_end", "lease_remove",
            "lease_clean", "event_list", "event_clean", "runner_exists", "runner_list", "runner_write", "runner_clean")
    };
    ($database:literal, $($file:literal),+) => {
        [$(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $database, "/", $file, ".sql"))),+]
    };
}
#[allow(unused_imports)]
use sql_files;

/// Where statements run: a transaction, or a connection outside of one.
trait Executor: Send {
    /// Runs a statement and returns its rows.
    fn run(&mut self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>>;

    /// Runs a statement for each of these parameters.
    fn run_all(&mut self, statement: Statement, rows: Vec<Params>) -> LockFuture<'_, ()> {
        Box::pin(async move {
            for params in rows {
                self.run(statement, params).await?;
            }
            Ok(())
        })
    }

    /// Whether `lease_write`, `lease_end` and `lease_remove` decide which rows change and insert the events themselves.
    fn is_set_wise(&self) -> bool {
        false
    }
}

/// Tables that are created together. A program that may not create tables goes on with those that exist.
#[derive(Clone, Copy, Debug)]
pub(super) enum TableSet {
    /// Leases, events, and the view of both.
    Leases,
    /// Runners.
    Runners,
}

/// What differs between databases.
trait Database: fmt::Debug + Send + Sync + 'static {
    /// Creates these tables. Several processes may do so at the same time.
    fn create_tables(&self, which: TableSet) -> LockFuture<'_, ()>;

    /// Runs a statement that only reads.
    fn read(&self, statement: Statement, params: Params) -> LockFuture<'_, Vec<Row>>;

    /// Applies a change in one short transaction.
    fn change(&self, change: Change) -> LockFuture<'_, bool>;
}

/// The tables of one database.
#[derive(Debug)]
pub(super) struct Tables(Box<dyn Database>);

impl Tables {
    /// Creates tables and view unless they exist.
    pub(super) async fn prepare(&self, which: TableSet) -> Result<(), LockError> {
        // If the tables exist, the right to create them is not needed.
        if self.exist(which).await? {
            return Ok(());
        }
        match self.0.create_tables(which).await {
            // Another process may have created them at the same time.
            Err(_) if self.exist(which).await? => Ok(()),
            created => created,
        }
    }

    /// Whether the tables exist.
    pub(super) async fn exist(&self, which: TableSet) -> Result<bool, LockError> {
        let exists = match which {
            TableSet::Leases => Statement::RegistryExists,
            TableSet::Runners => Statement::RunnerExists,
        };
        let rows = self.0.read(exists, Params::new()).await?;
        rows.first().map_or(Ok(false), |row| Ok(row.int("made")? == 1))
    }

    /// Writes updates, which are in the order of their names and stores; a change of holder is an event.
    pub(super) async fn write(&self, updates: &[LeaseUpdate]) -> Result<(), LockError> {
        self.0.change(Change::Write(updates.to_vec())).await.map(drop)
    }

    /// Adds to the rows that exist.
    pub(super) async fn contend(&self, contentions: &[Contention]) -> Result<(), LockError> {
        self.0.change(Change::Contend(contentions.to_vec())).await.map(drop)
    }

    /// Inserts an event, and stamps the row as released if it still belongs to that hold.
    pub(super) async fn end(&self, end: &HoldEnd) -> Result<(), LockError> {
        self.0.change(Change::End(end.clone())).await.map(drop)
    }

    /// Deletes a row and inserts an event. `false`: the holder has renewed the row since.
    pub(super) async fn remove(&self, hold: &VanishedHold) -> Result<bool, LockError> {
        self.0.change(Change::Remove(hold.clone())).await
    }

    /// Writes the states of runners.
    pub(super) async fn write_runners(&self, runners: &[RunnerUpdate]) -> Result<(), LockError> {
        self.0.change(Change::Runners(runners.to_vec())).await.map(drop)
    }

    /// Reads runners, by name.
    pub(super) async fn runners(&self, limit: u32) -> Result<Vec<RunnerRecord>, LockError> {
        let params = vec![("limit", i64::from(limit).into())];
        let rows = self.0.read(Statement::RunnerList, params).await?;
        rows.iter().map(decode::runner).collect()
    }

    /// Deletes runners that were not renewed for this many microseconds: at most `limit`.
    pub(super) async fn clean_runners(&self, quiet: i64, limit: u32) -> Result<(), LockError> {
        self.0.change(Change::Run(Statement::RunnerClean, params::clean(quiet, limit))).await.map(drop)
    }

    /// Deletes rows that were released, and events that happened, this many microseconds ago: at most `limit` of each.
    pub(super) async fn clean(&self, idle: i64, history: i64, limit: u32) -> Result<(), LockError> {
        for (statement, keep) in [(Statement::LeaseClean, idle), (Statement::EventClean, history)] {
            self.0.change(Change::Run(statement, params::clean(keep, limit))).await?;
        }
        Ok(())
    }

    /// Reads leases, by name and store. Their state is that of the row alone.
    pub(super) async fn leases(&self, filter: &LeaseFilter) -> Result<Vec<LeaseRecord>, LockError> {
        let rows = self.0.read(Statement::LeaseList, params::list(filter)).await?;
        rows.iter().map(decode::lease).collect()
    }

    /// Reads events, newest first.
    pub(super) async fn events(
        &self,
        name: Option<&str>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<LockEvent>, LockError> {
        let rows = self.0.read(Statement::EventList, params::events(name, before, limit)).await?;
        rows.iter().map(decode::event).collect()
    }
}

/// The tables in the database that a URL names.
pub(super) fn open(url: &str) -> Result<Tables, LockError> {
    let refused = |why: String| Err(LockError::refused("registry_url", why));
    let no_tables = |what: &str| {
        refused(format!(
            "{what} has no tables; name a database: postgres://…, mysql://…, mssql://… or sqlite:FILE"
        ))
    };
    if url == ":memory:" || url == "sqlite::memory:" {
        return no_tables("a process");
    }
    let database: Box<dyn Database> = match url.split_once("://") {
        #[cfg(feature = "sqlite")]
        None | Some(("sqlite", _)) => Box::new(sqlite::SqliteDatabase::new(crate::open::sqlite_path(url))),
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => Box::new(postgres::PostgresDatabase::new(url)?),
        #[cfg(feature = "mysql")]
        Some(("mysql" | "mariadb", _)) => Box::new(mysql::MysqlDatabase::new(url)?),
        #[cfg(feature = "mssql")]
        Some(("mssql" | "sqlserver", _)) => Box::new(mssql::MssqlDatabase::new(url)?),
        Some((scheme @ ("redis" | "rediss"), _)) => return no_tables(&format!("{scheme}://")),
        scheme => {
            let scheme = scheme.map(|(scheme, _)| scheme);
            return match crate::open::missing_feature(scheme) {
                Some(why) => refused(why),
                None => no_tables(&format!("{}://", scheme.unwrap_or_default())),
            };
        }
    };
    Ok(Tables(database))
}
