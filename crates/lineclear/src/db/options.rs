//! The options of a store.

use std::path::PathBuf;
use std::time::Duration;

use lineclear_tls::{Connector, TlsOptions};

use crate::db::clock::Clock;
use crate::store::StoreError;

/// The options of a store, from a URL: `postgres://user@host/database?schema=lineclear&pooler=transaction&connections=8&deadline=30s`,
/// `sqlite:path/to/file.db`, a plain path, or `:memory:`.
#[derive(Clone)]
pub struct StoreOptions {
    pub(super) database: Database,
    pub(super) schema: String,
    pub(super) tls: TlsOptions,
    pub(super) pooler: bool,
    connections_max: usize,
    deadline: Duration,
    migrate: bool,
    lock_wait: Duration,
    read_only: bool,
    clock: Option<Clock>,
}

/// The database and how to reach it; `Sqlite(None)` is in memory.
#[derive(Clone)]
pub(crate) enum Database {
    Postgres(Box<tokio_postgres::Config>),
    Sqlite(Option<PathBuf>),
}

impl std::fmt::Display for StoreOptions {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.database {
            Database::Postgres(config) => {
                let host = match config.get_hosts().first() {
                    Some(tokio_postgres::config::Host::Tcp(name)) => name.clone(),
                    Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
                    None => "localhost".to_owned(),
                };
                let port = config.get_ports().first().copied().unwrap_or(5432);
                let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
                write!(f, "PostgreSQL database {database} on {host}:{port}, schema {}", self.schema)
            }
            Database::Sqlite(Some(path)) => write!(f, "SQLite file {}", path.display()),
            Database::Sqlite(None) => f.write_str("SQLite in memory"),
        }
    }
}

impl std::fmt::Debug for StoreOptions {
    /// Like `Display`: a derived implementation would show the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl StoreOptions {
    pub(super) fn of(database: Database) -> StoreOptions {
        StoreOptions {
            database,
            schema: "lineclear".to_owned(),
            tls: TlsOptions::default(),
            pooler: false,
            connections_max: 8,
            deadline: Duration::from_secs(30),
            migrate: true,
            lock_wait: Duration::from_secs(60),
            read_only: false,
            clock: None,
        }
    }

    /// A database in memory that follows `clock`.
    pub(crate) fn in_memory(clock: Clock) -> StoreOptions {
        StoreOptions { clock: Some(clock), ..StoreOptions::of(Database::Sqlite(None)) }
    }

    /// Connections to PostgreSQL at most. Default: 8.
    pub fn connections(mut self, most: usize) -> StoreOptions {
        self.connections_max = most.max(1);
        self
    }

    /// How long a transaction may take before PostgreSQL counts as unreachable. Default: 30 s.
    pub fn deadline(mut self, deadline: Duration) -> StoreOptions {
        self.deadline = deadline;
        self
    }

    /// Whether opening migrates the schema. Default: yes.
    pub fn migrate(mut self, yes: bool) -> StoreOptions {
        self.migrate = yes;
        self
    }

    /// How long a migration waits for locks that applications hold, in short tries. Default: 60 s.
    pub fn migrate_lock_wait(mut self, wait: Duration) -> StoreOptions {
        self.lock_wait = wait;
        self
    }

    pub(crate) fn lock_wait(&self) -> Duration {
        self.lock_wait
    }

    /// Opens the database read-only: does not migrate it, and leaves a SQLite file as it is.
    pub fn read_only(mut self) -> StoreOptions {
        self.read_only = true;
        self.migrate(false)
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether the database is in memory, and gone with its last connection.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.database, Database::Sqlite(None))
    }

    /// The same database with the schema of benchmarks.
    #[doc(hidden)]
    pub fn for_bench(mut self) -> StoreOptions {
        self.schema = BENCH_SCHEMA.to_owned();
        self
    }

    /// The PostgreSQL schema that holds the tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// All migrations of this program for this kind of database, in order.
    pub fn migrations(&self) -> Vec<crate::store::Migration> {
        crate::db::migrate::all(self)
    }

    /// The file, if the store is SQLite in a file.
    pub fn file(&self) -> Option<&std::path::Path> {
        match &self.database {
            Database::Sqlite(path) => path.as_deref(),
            Database::Postgres(_) => None,
        }
    }

    /// Whether the store is PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        matches!(self.database, Database::Postgres(_))
    }

    pub(crate) fn database(&self) -> Database {
        self.database.clone()
    }

    /// The connector to PostgreSQL, with or without TLS.
    pub(crate) fn connector(&self, config: &mut tokio_postgres::Config) -> Result<Connector, StoreError> {
        self.tls.connector(config).map_err(|why| StoreError::refused("store_url", why))
    }

    pub(crate) fn clock(&self) -> Option<Clock> {
        self.clock.clone()
    }

    pub(crate) fn schema_quoted(&self) -> String {
        format!("\"{}\"", self.schema)
    }

    pub(crate) fn behind_pooler(&self) -> bool {
        self.pooler
    }

    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max
    }

    pub(crate) fn verb_deadline(&self) -> Duration {
        self.deadline
    }

    pub(crate) fn migrates(&self) -> bool {
        self.migrate
    }

    /// The channel on which nodes of this schema notify each other.
    pub(crate) fn channel(&self) -> String {
        format!("lineclear_{:016x}", fnv1a(&self.schema))
    }

    /// The advisory lock key for `purpose`, distinct for each schema of a database.
    pub(crate) fn advisory_key(&self, purpose: &str) -> i64 {
        fnv1a(&format!("lineclear/{}/{purpose}", self.schema)).cast_signed()
    }
}

/// The schema of benchmarks.
pub(crate) const BENCH_SCHEMA: &str = "lineclear_bench";

/// FNV-1a, 64 bits: stable, so that every version of every node derives the same keys.
pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advisory_keys_differ_by_schema_and_purpose_and_never_change() {
        let options =
            |schema: &str| StoreOptions::new(&format!("postgres://db/app?schema={schema}")).unwrap();
        assert_ne!(options("a").advisory_key("plan"), options("b").advisory_key("plan"));
        assert_ne!(options("a").advisory_key("plan"), options("a").advisory_key("declare"));
        assert_eq!(fnv1a("lineclear"), 0x1d6a_8fb2_907d_b6b8);
    }
}
