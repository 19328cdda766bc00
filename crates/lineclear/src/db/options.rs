//! Where the store is and how to reach it.

use std::path::PathBuf;
use std::time::Duration;

use lineclear_tls::{Connector, TlsOptions};

use crate::db::clock::Clock;
use crate::store::StoreError;

/// Where the store is. Made from a URL: `postgres://user@host/database?schema=lineclear&pooler=transaction`,
/// `sqlite:path/to/file.db`, a plain path, or `:memory:`.
#[derive(Clone)]
pub struct StoreOptions {
    place: Place,
    schema: String,
    tls: TlsOptions,
    pooler: bool,
    connections_max: usize,
    deadline: Duration,
    migrate: bool,
    look_only: bool,
    clock: Option<Clock>,
}

#[derive(Clone)]
pub(crate) enum Place {
    Postgres(Box<tokio_postgres::Config>),
    Sqlite(Option<PathBuf>),
}

impl std::fmt::Display for StoreOptions {
    /// For people, without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Place::Postgres(config) => {
                let host = match config.get_hosts().first() {
                    Some(tokio_postgres::config::Host::Tcp(name)) => name.clone(),
                    Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
                    None => "localhost".to_owned(),
                };
                let port = config.get_ports().first().copied().unwrap_or(5432);
                let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
                write!(f, "PostgreSQL database {database} on {host}:{port}, schema {}", self.schema)
            }
            Place::Sqlite(Some(path)) => write!(f, "SQLite file {}", path.display()),
            Place::Sqlite(None) => f.write_str("SQLite in memory"),
        }
    }
}

impl std::fmt::Debug for StoreOptions {
    /// As for people: a derived one would show the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl StoreOptions {
    /// Reads a URL or path.
    pub fn new(url: &str) -> Result<StoreOptions, StoreError> {
        let mut options = StoreOptions {
            place: Place::Sqlite(None),
            schema: "lineclear".to_owned(),
            tls: TlsOptions::default(),
            pooler: false,
            connections_max: 8,
            deadline: Duration::from_secs(30),
            migrate: true,
            look_only: false,
            clock: None,
        };
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let rest = options.take_own_options(url)?;
            let config = rest.parse().map_err(|e: tokio_postgres::Error| {
                let why = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
                StoreError::refused("store_url", format!("the PostgreSQL URL cannot be read: {why}"))
            })?;
            options.place = Place::Postgres(Box::new(config));
        } else if let Some((scheme, _)) = url.split_once("://")
            && scheme != "sqlite"
        {
            let why =
                format!("{scheme}:// is not a store; use postgres://…, sqlite:FILE, a path or :memory:");
            return Err(StoreError::refused("store_url", why));
        } else {
            let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
            if path.is_empty() {
                return Err(StoreError::refused("store_url", "no store was named; use a path or :memory:"));
            }
            options.place = Place::Sqlite((path != ":memory:").then(|| PathBuf::from(path)));
        }
        Ok(options)
    }

    /// A database in memory whose time is that of `clock`.
    pub(crate) fn in_memory(clock: Clock) -> StoreOptions {
        let memory = StoreOptions::new(":memory:").expect("a place that there always is");
        StoreOptions { clock: Some(clock), ..memory }
    }

    /// Takes `schema`, `pooler`, `sslmode` and `sslrootcert` out of the URL: the driver refuses options that it does not know.
    fn take_own_options(&mut self, url: &str) -> Result<String, StoreError> {
        let Some((base, query)) = url.split_once('?') else { return Ok(url.to_owned()) };
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("schema", name) => self.schema = checked_schema(name)?,
                ("pooler", "transaction") => self.pooler = true,
                ("pooler", "none") => self.pooler = false,
                ("pooler", other) => {
                    let why = format!("pooler={other} is not known; use pooler=transaction or pooler=none");
                    return Err(StoreError::refused("store_url", why));
                }
                (name, value) => {
                    let ours =
                        self.tls.set(name, value).map_err(|why| StoreError::refused("store_url", why))?;
                    if !ours {
                        kept.push(pair);
                    }
                }
            }
        }
        Ok(if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) })
    }

    /// How many connections to PostgreSQL at most; 8 unless set.
    pub fn connections(mut self, most: usize) -> StoreOptions {
        self.connections_max = most.max(1);
        self
    }

    /// How long PostgreSQL may take over a verb before it counts as unreachable; 30 s unless set.
    pub fn deadline(mut self, deadline: Duration) -> StoreOptions {
        self.deadline = deadline;
        self
    }

    /// Whether opening brings the schema up to date; it does unless this says no.
    pub fn migrate(mut self, yes: bool) -> StoreOptions {
        self.migrate = yes;
        self
    }

    /// Opens it as it is: nothing is migrated, a SQLite file is left as it was written, and nothing can be written to it.
    pub fn look_only(mut self) -> StoreOptions {
        self.look_only = true;
        self.migrate(false)
    }

    pub(crate) fn only_looks(&self) -> bool {
        self.look_only
    }

    /// Whether the database is in memory, and gone with its last connection.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.place, Place::Sqlite(None))
    }

    /// The same database, in the schema of whoever measures: what is there otherwise is not touched.
    #[doc(hidden)]
    pub fn for_bench(mut self) -> StoreOptions {
        self.schema = BENCH_SCHEMA.to_owned();
        self
    }

    /// The PostgreSQL schema that holds our tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Every migration that this program knows for this kind of store, in order.
    pub fn migrations(&self) -> Vec<crate::store::Migration> {
        crate::db::migrate::all(self)
    }

    /// The file, if the store is SQLite in a file.
    pub fn file(&self) -> Option<&std::path::Path> {
        match &self.place {
            Place::Sqlite(path) => path.as_deref(),
            Place::Postgres(_) => None,
        }
    }

    /// Whether the store is PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        matches!(self.place, Place::Postgres(_))
    }

    pub(crate) fn place(&self) -> Place {
        self.place.clone()
    }

    /// How PostgreSQL is connected to, by TLS or not.
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

    /// The channel on which nodes of this schema wake each other.
    pub(crate) fn channel(&self) -> String {
        format!("lineclear_{:016x}", fnv1a(&self.schema))
    }

    /// A 64-bit advisory key for `purpose`, of this product and schema: two schemas in one database do not meet.
    pub(crate) fn advisory_key(&self, purpose: &str) -> i64 {
        fnv1a(&format!("lineclear/{}/{purpose}", self.schema)).cast_signed()
    }
}

/// Where somebody measures. Whoever finds it with nobody at work may drop it.
pub(crate) const BENCH_SCHEMA: &str = "lineclear_bench";

fn checked_schema(name: &str) -> Result<String, StoreError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > 48 || !name.chars().all(fits) || name.starts_with("pg_") {
        let why = format!("schema={name} cannot be used: 1 to 48 of a-z, 0-9 and _, not beginning with pg_");
        return Err(StoreError::refused("store_url", why));
    }
    Ok(name.to_owned())
}

/// FNV-1a, 64 bits: stable for ever, so that every version of every node derives the same keys.
pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let pg =
            StoreOptions::new("postgres://me@db/app?schema=jobs&sslmode=disable&pooler=transaction").unwrap();
        assert!(pg.is_postgres() && pg.behind_pooler());
        assert_eq!(pg.schema(), "jobs");
        for path in ["jobs.db", "sqlite:jobs.db", "sqlite://jobs.db"] {
            let Place::Sqlite(Some(file)) = StoreOptions::new(path).unwrap().place() else {
                panic!("{path}")
            };
            assert_eq!(file, PathBuf::from("jobs.db"));
        }
        assert!(matches!(StoreOptions::new(":memory:").unwrap().place(), Place::Sqlite(None)));
    }

    #[test]
    fn bad_urls_are_refused_with_the_reason() {
        for (url, says) in [
            ("mysql://x", "mysql:// is not a store"),
            ("", "no store was named"),
            ("postgres://db/app?schema=Drop\"", "schema="),
            ("postgres://db/app?pooler=session", "pooler=session is not known"),
            ("postgres://db/app?nonsense=1", "cannot be read"),
            ("postgres://db/app?sslmode=prefer", "verify-full"),
        ] {
            let error = StoreOptions::new(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let options = StoreOptions::new("postgres://me:hunter2@db/app").unwrap();
        assert_eq!(format!("{options:?}"), "PostgreSQL database app on db:5432, schema lineclear");
    }

    #[test]
    fn advisory_keys_differ_by_schema_and_purpose_and_never_change() {
        let options =
            |schema: &str| StoreOptions::new(&format!("postgres://db/app?schema={schema}")).unwrap();
        assert_ne!(options("a").advisory_key("plan"), options("b").advisory_key("plan"));
        assert_ne!(options("a").advisory_key("plan"), options("a").advisory_key("declare"));
        assert_eq!(fnv1a("lineclear"), 0x1d6a_8fb2_907d_b6b8);
    }
}
