//! A scratch database: an empty store, and SQL to fill it directly.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use lineclear::store::Lease;
use lineclear::{Store, StoreOptions};
use lineclear_measure::bench_node;
use lineclear_testkit::{PostgresDatabase, fresh_postgres};
use tempfile::TempDir;

use crate::Database;

/// What the database is for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Purpose {
    /// Comparing a small store with a large one. Commits do not wait for the disk and autovacuum is off, so that less noise is measured.
    Growth,
    /// Comparing the engine with its bare statements. Commits wait for the disk, as in production.
    Speed,
    /// Like `Speed`, over a time in which autovacuum runs.
    Endurance,
}

/// Tables that are filled and emptied.
const TABLES: [&str; 5] = ["manifest", "tick", "work_queue", "background_job", "execution"];

/// The database, gone with the db.
enum Connection {
    Postgres { client: tokio_postgres::Client, _database: PostgresDatabase },
    Sqlite { connection: rusqlite::Connection, _dir: TempDir },
}

pub(crate) struct ScratchDb {
    // Before the connection, so that its connections end before the database does.
    pub(crate) store: Store,
    pub(crate) lease: Lease,
    url: String,
    connection: Connection,
}

impl ScratchDb {
    pub(crate) async fn new(database: Database, purpose: Purpose) -> Result<ScratchDb> {
        let (url, connection) = match database {
            Database::Postgres => {
                let database = fresh_postgres().await;
                let client = connect(database.url()).await?;
                if purpose == Purpose::Growth {
                    let name = database.name();
                    client
                        .batch_execute(&format!("alter database {name} set synchronous_commit = off"))
                        .await?;
                }
                (database.url().to_owned(), Connection::Postgres { client, _database: database })
            }
            Database::Sqlite => {
                let dir = tempfile::tempdir()?;
                let file = dir.path().join("bench.db");
                let path = file.to_str().context("the temporary folder's name is not UTF-8")?.to_owned();
                (path, Connection::Sqlite { connection: sqlite(&file)?, _dir: dir })
            }
        };
        let store = match purpose {
            Purpose::Growth => open(&url).await?,
            Purpose::Speed | Purpose::Endurance => Store::open(StoreOptions::new(&url)?).await?,
        };
        let lease = Lease { node: store.heartbeat(bench_node()).await?.id, length: Duration::from_secs(600) };
        let db = ScratchDb { store, lease, url, connection };
        if matches!(db.connection, Connection::Postgres { .. }) && purpose != Purpose::Endurance {
            // `settle_down` vacuums instead.
            for table in TABLES {
                db.sql(&format!("alter table {{t}}{table} set (autovacuum_enabled = off)")).await?;
            }
        }
        Ok(db)
    }

    /// The URL or the path.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Opens the database once more, like a program that starts now.
    pub(crate) async fn another_store(&self) -> Result<Store> {
        open(&self.url).await
    }

    pub(crate) fn database(&self) -> Database {
        match self.connection {
            Connection::Postgres { .. } => Database::Postgres,
            Connection::Sqlite { .. } => Database::Sqlite,
        }
    }

    /// Runs SQL that both databases understand: `{t}` becomes what stands before a table's name, `{at(…)}` a
    /// time given in microseconds.
    pub(crate) async fn sql(&self, sql: &str) -> Result<()> {
        match &self.connection {
            Connection::Postgres { client, .. } => {
                let text = times(&sql.replace("{t}", "lineclear."), "to_timestamp((", ") / 1000000.0)");
                client.batch_execute(&text).await.with_context(|| text.clone())
            }
            Connection::Sqlite { connection, .. } => {
                let text = times(&sql.replace("{t}", ""), "(", ")");
                connection.execute_batch(&text).with_context(|| text.clone())
            }
        }
    }

    /// One number of a query that both databases understand.
    pub(crate) async fn number(&self, sql: &str) -> Result<i64> {
        match &self.connection {
            Connection::Postgres { client, .. } => {
                let row = client.query_opt(&sql.replace("{t}", "lineclear."), &[]).await?;
                Ok(row.map_or(0, |row| row.get(0)))
            }
            Connection::Sqlite { connection, .. } => {
                let mut statement = connection.prepare_cached(&sql.replace("{t}", ""))?;
                let mut rows = statement.query([])?;
                Ok(rows.next()?.map_or(Ok(0), |row| row.get(0))?)
            }
        }
    }

    /// Starts the statistics of statements; returns whether the server has them.
    pub(crate) async fn watch_statements(&self) -> bool {
        match &self.connection {
            Connection::Postgres { client, .. } => {
                let made = client.batch_execute("create extension if not exists pg_stat_statements").await;
                made.is_ok() && client.batch_execute("select pg_stat_statements_reset()").await.is_ok()
            }
            Connection::Sqlite { .. } => false,
        }
    }

    /// The slowest statement since then: milliseconds, and the beginning of its text.
    pub(crate) async fn slowest_statement(&self) -> Option<(f64, String)> {
        let Connection::Postgres { client, .. } = &self.connection else { return None };
        let query =
            "select max_exec_time, left(regexp_replace(query, '\\s+', ' ', 'g'), 60) from pg_stat_statements
                     where  dbid = (select oid from pg_database where datname = current_database())
                            and query not ilike '%pg_stat_statements%'
                     order  by max_exec_time desc limit 1";
        let row = client.query_opt(query, &[]).await.ok()??;
        Some((row.get(0), row.get(1)))
    }

    /// Deletes all jobs and executions.
    pub(crate) async fn clear_jobs(&self) -> Result<()> {
        match &self.connection {
            Connection::Postgres { .. } => {
                self.sql("truncate {t}work_queue, {t}background_job, {t}execution").await
            }
            Connection::Sqlite { .. } => {
                self.sql("delete from work_queue; delete from background_job; delete from execution").await
            }
        }
    }

    /// To be called after loading: vacuums, analyzes and checkpoints now instead of later. SQLite gets no statistics, because the
    /// store never uses them.
    pub(crate) async fn settle_down(&self) -> Result<()> {
        match &self.connection {
            Connection::Postgres { .. } => {
                self.sql("vacuum analyze").await?;
                // Needs a superuser; without it the figures are a little noisier.
                let _ = self.sql("checkpoint").await;
                Ok(())
            }
            Connection::Sqlite { .. } => self.sql("pragma wal_checkpoint(truncate)").await,
        }
    }

    /// To be called between rounds, in place of autovacuum. A small table with many dead rows is slow for its size, which would
    /// flatter the large one.
    pub(crate) async fn vacuum(&self) -> Result<()> {
        match &self.connection {
            Connection::Postgres { .. } => {
                let tables = TABLES.map(|table| format!("{{t}}{table}"));
                self.sql(&format!("vacuum {}", tables.join(", "))).await
            }
            Connection::Sqlite { .. } => Ok(()),
        }
    }

    /// Makes statistics of empty tables.
    pub(crate) async fn analyze(&self) -> Result<()> {
        match &self.connection {
            Connection::Postgres { .. } => self.sql("analyze").await,
            Connection::Sqlite { .. } => Ok(()),
        }
    }
}

/// Replaces `{at(…)}`, which does not nest.
fn times(sql: &str, open: &str, close: &str) -> String {
    sql.replace("{at(", open).replace(")}", close)
}

/// Opens a store with one connection, so that statements are prepared on the connection that is measured.
async fn open(url: &str) -> Result<Store> {
    Ok(Store::open(StoreOptions::new(url)?.connections(1)).await?)
}

pub(crate) async fn connect(url: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Tuned for loading: the rows are not needed after a crash.
fn sqlite(path: &Path) -> Result<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(60))?;
    connection
        .execute_batch("pragma synchronous = off; pragma cache_size = -262144; pragma temp_store = memory")?;
    Ok(connection)
}

/// Microseconds since 1970. Both databases are on this machine, and share its clock.
pub(crate) fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
