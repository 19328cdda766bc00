//! A PostgreSQL database for one test.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, SystemTime},
};

use crate::{
    pg,
    servers::{mysql, pgbouncer, postgres, redis},
    url::with_database,
};
use anyhow::{Context, Result};

/// Dropping takes some ten milliseconds. A server that is gone must not hold up the end of a test for long.
const DROP_WITHIN: Duration = Duration::from_secs(10);

/// A database for one test. It is dropped, with all connections to it, when this is dropped.
pub struct PostgresDatabase {
    name: String,
    url: String,
    /// The database from which others are created and dropped.
    maintenance_url: String,
}

/// Makes an empty database on the test server.
///
/// # Panics
/// If there is no test server: `make test` and `make up` start one.
pub async fn fresh_postgres() -> PostgresDatabase {
    // No session can connect to `template0`: PostgreSQL does not copy a database that is in use.
    PostgresDatabase::copy("template0").await.unwrap_or_else(|error| panic!("{error:#}"))
}

/// The URL of the MySQL or MariaDB for tests. The kit has no client for it: tests create their databases themselves.
///
/// # Panics
/// If there is none: `make test` and `make up` start one.
pub fn mysql_url() -> String {
    variable(mysql::VARIABLE)
}

/// The URL of the Redis for tests. The kit has no client for it: each test uses its own keys.
///
/// # Panics
/// If there is none: `make test` and `make up` start one.
pub fn redis_url() -> String {
    variable(redis::VARIABLE)
}

impl PostgresDatabase {
    /// Makes a copy of another database of the test server. Copying its files takes less than half of the time that
    /// PostgreSQL needs to copy it block by block, its default, on a server that does not sync.
    pub(crate) async fn copy(template: &str) -> Result<Self> {
        let maintenance_url = variable(postgres::VARIABLE);
        let name = unique_name();
        let sql = format!("create database {name} template {template} strategy file_copy");
        run(&maintenance_url, &sql).await.with_context(|| {
            format!("making a test database; is the server of {} running?", postgres::VARIABLE)
        })?;
        Ok(Self { url: with_database(&maintenance_url, &name), name, maintenance_url })
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The database's URL through pgbouncer in transaction mode.
    ///
    /// # Panics
    /// If there is no pgbouncer for tests.
    pub fn pgbouncer_url(&self) -> String {
        with_database(&variable(pgbouncer::VARIABLE), &self.name)
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        let (url, name) = (self.maintenance_url.clone(), self.name.clone());
        let (done, wait) = mpsc::channel();
        // A separate thread and runtime: the test's runtime may be the one that is dropping us.
        thread::spawn(move || {
            let dropped = tokio::runtime::Builder::new_current_thread().enable_all().build().map(|runtime| {
                runtime.block_on(run(&url, &format!("drop database if exists {name} with (force)")))
            });
            // The receiver is gone if this took too long.
            drop(done.send(dropped));
        });
        // Waiting keeps the disk small: a test's process may end right after this, and the thread with it.
        drop(wait.recv_timeout(DROP_WITHIN));
    }
}

async fn run(url: &str, sql: &str) -> Result<()> {
    Ok(pg::connect(url).await?.batch_execute(sql).await?)
}

/// Unique among all processes that use the server, also in other containers, where process ids start again.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("lineclear_test_{}_{nanos:x}_{count}", process::id())
}

/// A variable of the environment, or else of the nearest `.run/env` above the crate that is tested.
pub(crate) fn variable(name: &str) -> String {
    optional_variable(name).unwrap_or_else(|| {
        panic!("{name} is not set: run `make test`, or `make up` to leave servers running")
    })
}

/// Like [`variable`], for optional ones.
pub(crate) fn optional_variable(name: &str) -> Option<String> {
    if let Some(value) = env::var(name).ok().filter(|value| !value.is_empty()) {
        return Some(value);
    }
    let start = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from);
    start.ancestors().find_map(|folder| read_exported(&folder.join(".run/env"), name))
}

/// Reads `export NAME=value` lines.
fn read_exported(file: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines()
        .find_map(|line| Some(line.strip_prefix("export ")?.strip_prefix(name)?.strip_prefix('=')?.into()))
}
