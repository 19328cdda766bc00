//! Either database, behind one door.
//!
//! A verb is written once, against a [`Session`]; what differs between PostgreSQL and SQLite is in the SQL files.

pub(crate) mod classify;
pub(crate) mod clock;
pub(crate) mod into_store;
pub(crate) mod migrate;
pub(crate) mod options;
mod postgres;
mod query;
mod snippets;
mod sqlite;
pub(crate) mod statements;
mod value;

pub(crate) use crate::db::postgres::Postgres;
pub(crate) use crate::db::query::Query;
pub(crate) use crate::db::sqlite::{Sqlite, at_once, rows_on};
use crate::db::statements::Statement;
#[cfg(feature = "sqlx")]
pub(crate) use crate::db::value::Cell;
pub(crate) use crate::db::value::{Column, Params, Row, Value, values};
use crate::store::{StoreOptions, StoreResult};

/// One atomic transition, with what it needs: a [`Query`] where one statement suffices, an implementation of its own where
/// several statements stand or fall together.
pub(crate) trait Verb: Send + Sync + 'static {
    /// What the caller learns.
    type Answer: Send + 'static;
    /// More than one statement: they stand or fall together. (On SQLite every verb is a transaction.)
    fn is_transaction(&self) -> bool {
        true
    }
    /// It may take as long as it takes: migrations of large tables.
    fn is_patient(&self) -> bool {
        false
    }
    /// Does it. May be run again from the start if a race was lost, so it keeps nothing between runs.
    fn run(&self, session: &mut Session) -> impl Future<Output = StoreResult<Self::Answer>> + Send;
}

/// What runs statements: a session of ours, or a transaction of the caller's own.
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

    /// How the database would run a statement.
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

    /// Runs SQL text as it is: for migrations, whose files hold many statements.
    pub(crate) async fn batch(&mut self, sql: &str) -> StoreResult<()> {
        match self {
            Session::Postgres(session) => session.batch(sql).await,
            Session::Sqlite(session) => session.batch(sql),
        }
    }

    /// Runs one statement that is not of the catalogue, for migrations.
    pub(crate) async fn query(&mut self, sql: &str) -> StoreResult<Vec<Row>> {
        match self {
            Session::Postgres(session) => session.query(sql, &Params::default()).await,
            Session::Sqlite(session) => session.query(sql, &Params::default()),
        }
    }
}

/// A database that is open.
#[derive(Clone)]
pub(crate) enum Db {
    Postgres(Postgres),
    Sqlite(Sqlite),
}

impl Db {
    pub(crate) async fn open(options: &StoreOptions) -> StoreResult<Db> {
        match options.place() {
            crate::db::options::Place::Postgres(config) => {
                Ok(Db::Postgres(Postgres::open(*config, options).await?))
            }
            crate::db::options::Place::Sqlite(path) => Ok(Db::Sqlite(Sqlite::open(path, options).await?)),
        }
    }

    /// Runs a verb that may change something.
    pub(crate) async fn run<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        match self {
            Db::Postgres(db) => db.run(verb).await,
            Db::Sqlite(db) => db.write(verb).await,
        }
    }

    /// The same, by a caller that is in a task of its own and cannot go away.
    pub(crate) async fn run_here<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        match self {
            Db::Postgres(db) => db.run_here(verb).await,
            Db::Sqlite(db) => db.write(verb).await,
        }
    }

    /// Runs a verb that only reads, without standing in the way of writers.
    pub(crate) async fn read<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        match self {
            Db::Postgres(db) => db.run(verb).await,
            Db::Sqlite(db) => db.read(verb).await,
        }
    }
}
