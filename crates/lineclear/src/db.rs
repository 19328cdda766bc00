//! The two databases behind one interface.
//!
//! A transaction is written once, against a [`Session`]; what differs between PostgreSQL and SQLite is in the SQL files.

pub(crate) mod classify;
pub(crate) mod clock;
pub(crate) mod migrate;
pub(crate) mod options;
mod postgres;
mod query;
mod snippets;
mod sqlite;
pub(crate) mod statements;
pub(crate) mod store_target;
mod url;
mod value;

use std::time::Duration;

use crate::db::options::Database;
pub(crate) use crate::db::postgres::Postgres;
pub(crate) use crate::db::query::Query;
pub(crate) use crate::db::sqlite::{Sqlite, at_once, rows_on};
use crate::db::statements::Statement;
#[cfg(feature = "sqlx")]
pub(crate) use crate::db::value::Cell;
pub(crate) use crate::db::value::{Column, Params, Row, Value, values};
use crate::store::{StoreOptions, StoreResult};

/// Connections of a node's loops to PostgreSQL: the planner, the dispatcher, the promoter, the settler, and one for the rest.
const LOOP_CONNECTIONS: usize = 5;

/// One atomic transition, with what it needs: a [`Query`] where one statement suffices, an implementation of its own where
/// several statements stand or fall together.
pub(crate) trait Verb: Send + Sync + 'static {
    /// What it returns.
    type Answer: Send + 'static;
    /// Whether its statements are one transaction. (On SQLite every verb is.)
    fn is_transaction(&self) -> bool {
        true
    }
    /// Whether it has no deadline: migrations of large tables.
    fn is_patient(&self) -> bool {
        false
    }
    /// Runs it. May be called again from the start after a lost race, so it keeps no state between calls.
    fn run(&self, session: &mut Session) -> impl Future<Output = StoreResult<Self::Answer>> + Send;
}

/// Runs statements: a session, or the caller's own transaction.
pub(crate) trait Executor {
    /// Runs a statement and returns all its rows.
    fn rows(
        &mut self,
        statement: Statement,
        params: Params,
    ) -> impl Future<Output = StoreResult<Vec<Row>>> + Send;
}

impl Executor for Session {
    async fn rows(&mut self, statement: Statement, params: Params) -> StoreResult<Vec<Row>> {
        Session::rows(self, statement, params).await
    }
}

/// A connection that runs one verb.
pub(crate) enum Session {
    Postgres(postgres::PgSession),
    Sqlite(sqlite::SqliteSession),
}

impl Session {
    /// Runs a statement and returns all its rows.
    pub(crate) async fn rows(
        &mut self,
        statement: Statement,
        params: impl Into<Params>,
    ) -> StoreResult<Vec<Row>> {
        let params = params.into();
        tracing::trace!(sql.statement = statement.name());
        match self {
            Session::Postgres(session) => session.rows(statement, &params).await,
            Session::Sqlite(session) => session.rows(statement, &params),
        }
    }

    /// The database's plan for a statement.
    #[cfg(test)]
    pub(crate) async fn explain(
        &mut self,
        statement: Statement,
        params: impl Into<Params>,
    ) -> StoreResult<String> {
        match self {
            Session::Postgres(session) => session.explain(statement, &params.into()).await,
            Session::Sqlite(session) => session.explain(statement),
        }
    }

    /// PostgreSQL's plan for a statement, which it runs, with the pages that it reads.
    #[cfg(test)]
    pub(crate) async fn explain_analyze(
        &mut self,
        statement: Statement,
        params: impl Into<Params>,
    ) -> StoreResult<String> {
        match self {
            Session::Postgres(session) => session.explain_analyze(statement, &params.into()).await,
            Session::Sqlite(_) => Ok(String::new()),
        }
    }

    /// Runs SQL text with any number of statements, for migrations.
    pub(crate) async fn batch(&mut self, sql: &str) -> StoreResult<()> {
        match self {
            Session::Postgres(session) => session.batch(sql).await,
            Session::Sqlite(session) => session.batch(sql),
        }
    }

    /// Runs one statement that has no SQL file, for migrations.
    pub(crate) async fn query(&mut self, sql: &str) -> StoreResult<Vec<Row>> {
        match self {
            Session::Postgres(session) => session.query(sql, &Params::default()).await,
            Session::Sqlite(session) => session.query(sql, &Params::default()),
        }
    }
}

/// An open database.
#[derive(Clone)]
pub(crate) enum Db {
    Postgres(Postgres),
    Sqlite(Sqlite),
}

impl Db {
    pub(crate) async fn open(options: &StoreOptions) -> StoreResult<Db> {
        match options.database() {
            Database::Postgres(config) => Ok(Db::Postgres(Postgres::open(*config, options).await?)),
            Database::Sqlite(path) => Ok(Db::Sqlite(Sqlite::open(path, options).await?)),
        }
    }

    /// The database for the loops of a node: on PostgreSQL over connections that callers cannot use up.
    pub(crate) fn for_loops(&self) -> Db {
        match self {
            Db::Postgres(db) => Db::Postgres(db.for_loops(LOOP_CONNECTIONS)),
            Db::Sqlite(db) => Db::Sqlite(db.clone()),
        }
    }

    /// The database for the watch of a node: on PostgreSQL over a connection that neither callers nor loops can use up.
    pub(crate) fn for_watch(&self, within: Duration) -> Db {
        match self {
            Db::Postgres(db) => Db::Postgres(db.for_watch(within)),
            Db::Sqlite(db) => Db::Sqlite(db.clone()),
        }
    }

    /// Runs a verb that may write.
    pub(crate) async fn run<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        match self {
            Db::Postgres(db) => db.run(verb).await,
            Db::Sqlite(db) => db.write(verb).await,
        }
    }

    /// Runs a verb in the caller's task, which must not be cancelled.
    pub(crate) async fn run_here<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        match self {
            Db::Postgres(db) => db.run_here(verb).await,
            Db::Sqlite(db) => db.write(verb).await,
        }
    }

    /// Runs a verb that only reads, without blocking writers.
    pub(crate) async fn read<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        match self {
            Db::Postgres(db) => db.run(verb).await,
            Db::Sqlite(db) => db.read(verb).await,
        }
    }
}
