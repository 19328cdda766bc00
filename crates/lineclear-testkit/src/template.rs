//! A database that is built once and copied for each test.
//!
//! Copying a migrated database takes a fraction of the time that replaying its migrations does. The kit does not know how
//! to migrate: tests pass that in.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio_postgres::{Client, error::SqlState};

use crate::{
    PostgresDatabase,
    database::{optional_variable, variable},
    pg,
    servers::{place, postgres},
    url::with_database,
};

/// Any number that nothing else on the server uses: `lct` in ASCII.
const TEMPLATE_LOCK: i64 = 0x6c_63_74;
/// SQLite removes its log when the last connection closes, which may happen in another thread.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);

/// Names a database to copy. Test processes that use the same name share one database.
pub struct Template {
    name: String,
}

impl Template {
    /// `contents` decides what the database looks like: other contents make another template.
    pub fn new(name: &str, contents: &str) -> Template {
        let mut hasher = DefaultHasher::new();
        contents.hash(&mut hasher);
        Template { name: format!("lineclear_template_{name}_{:016x}", hasher.finish()) }
    }

    /// A template whose contents are all files below `folder`, for example migrations.
    ///
    /// # Panics
    /// If a file cannot be read.
    pub fn of_folder(name: &str, folder: impl AsRef<Path>) -> Template {
        let folder = folder.as_ref();
        let contents = read_below(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        Template::new(name, &contents)
    }

    /// A copy on the PostgreSQL of tests. The first caller builds what is copied: `build` gets the URL of an empty
    /// database.
    ///
    /// # Panics
    /// If there is no test server, or it refuses.
    pub async fn postgres(&self, build: impl AsyncFnOnce(String)) -> PostgresDatabase {
        let url = variable(postgres::VARIABLE);
        let copy = match PostgresDatabase::copy(&self.name).await {
            Err(error) if is_missing(&error) => {
                let built = self.build_postgres(&url, build).await;
                built.unwrap_or_else(|error| panic!("template {}: {error:#}", self.name));
                PostgresDatabase::copy(&self.name).await
            }
            result => result,
        };
        copy.unwrap_or_else(|error| panic!("{error:#}"))
    }

    async fn build_postgres(&self, url: &str, build: impl AsyncFnOnce(String)) -> Result<()> {
        // The session holds the lock, and releases it when it ends.
        let client = pg::connect(url).await?;
        client.execute("select pg_advisory_lock($1)", &[&TEMPLATE_LOCK]).await?;
        let found = client.query_opt("select from pg_database where datname = $1", &[&self.name]).await?;
        if found.is_some() {
            return Ok(());
        }
        // It gets its name once it is complete, so that an interrupted build is never copied.
        let (template, unfinished) = (&self.name, format!("{}_unfinished", self.name));
        client.batch_execute(&format!("drop database if exists {unfinished} with (force)")).await?;
        client.batch_execute(&format!("create database {unfinished} template template0")).await?;
        build(with_database(url, &unfinished)).await;
        close(&client, &unfinished).await?;
        client.batch_execute(&format!("alter database {unfinished} rename to {template}")).await?;
        Ok(())
    }

    /// Copies an SQLite database to `file`, which does not exist yet. The first caller builds what is copied: `build` gets the path
    /// of a file to create, and closes it. Without `make test` or `make up` there is no place to keep it, and `build` creates
    /// `file` itself.
    ///
    /// # Panics
    /// If a file cannot be read or written, or `build` leaves its database open.
    pub async fn sqlite(&self, file: &Path, build: impl AsyncFnOnce(PathBuf)) {
        let copied = match scratch() {
            None => {
                build(file.into()).await;
                Ok(())
            }
            Some(folder) => self.copy_sqlite(&folder, file, build).await,
        };
        copied.unwrap_or_else(|error| panic!("template {}: {error:#}", self.name));
    }

    async fn copy_sqlite(&self, folder: &Path, to: &Path, build: impl AsyncFnOnce(PathBuf)) -> Result<()> {
        let template = folder.join(&self.name);
        if !template.exists() {
            let lock = File::create(folder.join(format!("{}.lock", self.name)))?;
            lock.lock()?;
            if !template.exists() {
                let unfinished = folder.join(format!("{}.unfinished", self.name));
                fs::remove_file(&unfinished).or_else(found_or_not)?;
                build(unfinished.clone()).await;
                until_closed(&unfinished).await?;
                fs::rename(unfinished, &template)?;
            }
        }
        fs::copy(&template, to).with_context(|| format!("copying to {}", to.display()))?;
        Ok(())
    }
}

fn scratch() -> Option<PathBuf> {
    optional_variable(place::SCRATCH_VARIABLE).map(PathBuf::from).filter(|folder| folder.is_dir())
}

/// Ends all connections to a database and allows no new ones: PostgreSQL does not copy a database that is in use.
async fn close(client: &Client, database: &str) -> Result<()> {
    client.batch_execute(&format!("alter database {database} with allow_connections false")).await?;
    // The second argument makes it wait, in milliseconds, until the connection has ended.
    let end = "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = $1";
    client.query(end, &[&database]).await?;
    Ok(())
}

/// Waits until the log of an SQLite database has been moved into the file.
async fn until_closed(file: &Path) -> Result<()> {
    let deadline = Instant::now() + CLOSED_WITHIN;
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    while Path::new(&log).exists() {
        ensure!(Instant::now() < deadline, "{} is still open", file.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn is_missing(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<tokio_postgres::Error>();
    error.and_then(tokio_postgres::Error::code) == Some(&SqlState::UNDEFINED_DATABASE)
}

fn found_or_not(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn read_below(folder: &Path) -> std::io::Result<String> {
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    let read = |path: PathBuf| if path.is_dir() { read_below(&path) } else { fs::read_to_string(path) };
    paths.into_iter().map(read).collect()
}
