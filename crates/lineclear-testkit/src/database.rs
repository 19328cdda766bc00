//! A PostgreSQL database for one test.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process,
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use tokio_postgres::Client;

use crate::{
    pg,
    servers::{mysql, pgbouncer, postgres, redis},
    url::with_database,
};

/// Dropping takes some ten milliseconds. A server that is gone must not hold up the end of a test for long.
const DROP_WITHIN: Duration = Duration::from_secs(10);
/// Any number will do that nobody else uses: `lct` in ASCII.
const TEMPLATE_LOCK: i64 = 0x6c_63_74;

/// A database that only its owner knows. It is dropped, with all connections to it, when this is dropped.
pub struct PostgresDatabase {
    name: String,
    url: String,
    /// The database in which others are made and dropped.
    maintenance_url: String,
}

/// Makes an empty database on the test server.
///
/// # Panics
/// If there is no test server: `make test` and `make up` start one.
pub async fn fresh_postgres() -> PostgresDatabase {
    // `template0` because nobody can be connected to it, which would be in the way.
    PostgresDatabase::clone_of("template0").await
}

/// Where the MySQL or MariaDB of tests is. The kit has no client for it: tests make their databases themselves.
///
/// # Panics
/// If there is none: `make test` and `make up` start one.
pub fn mysql_url() -> String {
    variable(mysql::VARIABLE)
}

/// Where the Redis of tests is. The kit has no client for it: tests keep to keys of their own.
///
/// # Panics
/// If there is none: `make test` and `make up` start one.
pub fn redis_url() -> String {
    variable(redis::VARIABLE)
}

impl PostgresDatabase {
    /// Makes a copy of another database of the test server, given by name or URL. Nobody may be connected to
    /// it.
    ///
    /// # Panics
    /// If there is no test server, or no such database.
    pub async fn clone_of(template: &str) -> Self {
        let maintenance_url = variable(postgres::VARIABLE);
        let name = unique_name();
        let path = template.split('?').next().unwrap_or(template);
        let template = path.rsplit('/').next().unwrap_or(path);
        create(&maintenance_url, &name, template).await.unwrap_or_else(|error| panic!("{error:#}"));
        Self { url: with_database(&maintenance_url, &name), name, maintenance_url }
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the database is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where the database is when reached through pgbouncer in transaction mode.
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
        // A thread and a runtime of its own: the test's runtime may be the one that is dropping us.
        thread::spawn(move || {
            let dropped = tokio::runtime::Builder::new_current_thread().enable_all().build().map(|runtime| {
                runtime.block_on(run(&url, &format!("drop database if exists {name} with (force)")))
            });
            // Nobody listens any more if it took too long.
            drop(done.send(dropped));
        });
        // Waiting keeps the disk small: a test's process may end right after this, and the thread with it.
        drop(wait.recv_timeout(DROP_WITHIN));
    }
}

/// Makes a database to copy from, once per test server, however many test processes ask for it at the same
/// time. Returns its name for [`PostgresDatabase::clone_of`].
///
/// `build` gets the URL of an empty database and fills it. `contents` is what decides how it comes out, the
/// text of all migrations say: when it changes, another template is made.
///
/// # Panics
/// If there is no test server, or it refuses.
pub async fn postgres_template(name: &str, contents: &str, build: impl AsyncFnOnce(String)) -> String {
    let url = variable(postgres::VARIABLE);
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    let template = format!("lineclear_template_{name}_{:016x}", hasher.finish());
    build_once(&url, &template, build).await.unwrap_or_else(|error| panic!("template {template}: {error:#}"));
    template
}

async fn build_once(url: &str, template: &str, build: impl AsyncFnOnce(String)) -> Result<()> {
    // The lock is the session's: it goes with the client, whatever happens.
    let client = pg::connect(url).await?;
    client.execute("select pg_advisory_lock($1)", &[&TEMPLATE_LOCK]).await?;
    if client.query_opt("select from pg_database where datname = $1", &[&template]).await?.is_some() {
        return Ok(());
    }
    // It gets its name when it is whole. What an interrupted build left behind is built anew.
    let unfinished = format!("{template}_unfinished");
    client.batch_execute(&format!("drop database if exists {unfinished} with (force)")).await?;
    client.batch_execute(&format!("create database {unfinished} template template0")).await?;
    build(with_database(url, &unfinished)).await;
    close(&client, &unfinished).await?;
    client.batch_execute(&format!("alter database {unfinished} rename to {template}")).await?;
    Ok(())
}

/// Nobody may be connected to a template: sends all away, and lets nobody in again.
async fn close(client: &Client, database: &str) -> Result<()> {
    client.batch_execute(&format!("alter database {database} with allow_connections false")).await?;
    // The second argument makes it wait, in milliseconds, until the other one is gone.
    let send_away = "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = $1";
    client.query(send_away, &[&database]).await?;
    Ok(())
}

async fn create(url: &str, name: &str, template: &str) -> Result<()> {
    run(url, &format!("create database {name} template {template}"))
        .await
        .with_context(|| format!("making a test database; is the server of {} running?", postgres::VARIABLE))
}

async fn run(url: &str, sql: &str) -> Result<()> {
    Ok(pg::connect(url).await?.batch_execute(sql).await?)
}

/// Unique among all processes that use the server, also in other containers, where pids begin anew.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("lineclear_test_{}_{nanos:x}_{count}", process::id())
}

/// A variable of the environment, or else of the nearest `.run/env` above the crate that is tested.
fn variable(name: &str) -> String {
    if let Some(value) = env::var(name).ok().filter(|value| !value.is_empty()) {
        return value;
    }
    let start = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from);
    let found = start.ancestors().find_map(|folder| read_exported(&folder.join(".run/env"), name));
    found.unwrap_or_else(|| {
        panic!("{name} is not set: run `make test`, or `make up` to leave servers running")
    })
}

/// Reads `export NAME=value` lines.
fn read_exported(file: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines()
        .find_map(|line| Some(line.strip_prefix("export ")?.strip_prefix(name)?.strip_prefix('=')?.into()))
}
