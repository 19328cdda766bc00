//! Numbered migrations, the same names for both databases.
//!
//! A new database gets all of them in one transaction. One that is in use gets each in a transaction of its own, so that locks are
//! short, and a process that dies half-way leaves whole migrations, after which the next goes on. Of nodes that start together, the
//! first migrates while the others wait.
//!
//! Each applied migration records the oldest program that may work on it. A program that does not know a migration starts if that
//! says so, and refuses otherwise: releases are rolled out, and back, node by node.

mod blockers;
mod index;
mod step;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::db::options::fnv1a;
use crate::db::{Db, Row, Session, Verb};
use crate::store::{Store, StoreError, StoreOptions, StoreResult};

use step::{Step, Stepped};

/// The line of a migration that older programs cannot work with, before the number of the oldest migration that a program must know.
const COMPATIBLE_FROM: &str = "-- compatible from ";
/// The line of a migration that builds one index outside of a transaction, on PostgreSQL.
const BUILT_CONCURRENTLY: &str = "-- built concurrently";
/// The migration that adds the column for this.
const RECORDS_COMPATIBILITY: &str = "_compatible_from";
/// How long to wait for another process that migrates: it may build indexes.
const TURN_WAIT: Duration = Duration::from_secs(60 * 60);
/// The wait before the next try on a SQLite file that another process writes.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

/// One step of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its number in the order, from 1.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    sql: String,
}

impl Migration {
    /// The SQL it runs.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The number of the oldest migration that a program must know to work on the schema after this one; 0: any program may,
    /// because this migration only adds.
    pub fn compatible_from(&self) -> u32 {
        let line = self.sql.lines().find_map(|line| line.strip_prefix(COMPATIBLE_FROM));
        line.map_or(0, |number| number.trim().parse().unwrap_or(self.number))
    }

    /// Whether it builds an index outside of a transaction, so that others write to the table meanwhile.
    pub fn is_concurrent(&self) -> bool {
        self.sql.lines().any(|line| line == BUILT_CONCURRENTLY)
    }

    /// The checksum of its SQL, which reveals a migration that was edited after it was applied.
    fn checksum(&self) -> String {
        format!("{:016x}", fnv1a(&self.sql))
    }
}

/// Which migrations a database has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationStatus {
    /// The number of the newest applied migration that this program knows; 0 for none.
    pub applied: u32,
    /// Migrations that are not applied yet.
    pub pending: Vec<Migration>,
    /// Names of applied migrations that this program does not know, and can work with: the schema is of a newer release.
    pub newer: Vec<String>,
}

/// What happens while a schema is migrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationEvent {
    /// A migration is applied.
    Applied {
        /// Its name.
        name: &'static str,
    },
    /// A migration waits for a lock.
    Waiting {
        /// Its name; `None`: it waits for another process that migrates.
        name: Option<&'static str>,
        /// Since when.
        waited: Duration,
        /// The sessions that block it, in words; empty: unknown.
        blockers: String,
    },
}

impl std::fmt::Display for MigrationEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MigrationEvent::Applied { name } => write!(f, "applied  {name}"),
            MigrationEvent::Waiting { name, waited, blockers } => {
                let seconds = waited.as_secs();
                match name {
                    Some(name) => write!(f, "waiting  {name}, for a lock, {seconds} s")?,
                    None => write!(f, "waiting  for another process that migrates, {seconds} s")?,
                }
                if blockers.is_empty() { Ok(()) } else { write!(f, "; blocked by {blockers}") }
            }
        }
    }
}

/// Is told what happens.
pub(crate) type Observer = Arc<dyn Fn(MigrationEvent) + Send + Sync>;

macro_rules! migrations {
    ($($number:literal $name:literal,)+) => {
        const POSTGRES: &[(u32, &str, &str)] =
            &[$(($number, $name, include_str!(concat!("../../migrations/postgres/", $name, ".sql"))),)+];
        const SQLITE: &[(u32, &str, &str)] =
            &[$(($number, $name, include_str!(concat!("../../migrations/sqlite/", $name, ".sql"))),)+];
    };
}

migrations! {
    1 "0001_manifest",
    2 "0002_work_queue",
    3 "0003_background_job",
    4 "0004_execution",
    5 "0005_dead_letter",
    6 "0006_node",
    7 "0007_enqueue",
    8 "0008_step_and_log",
    9 "0009_tending",
    10 "0010_declaration",
    11 "0011_job_key",
    12 "0012_lock_lease",
    13 "0013_access",
    14 "0014_node_kinds",
    15 "0015_idempotency_key",
    16 "0016_events",
    17 "0017_batch",
    18 "0018_stat",
    19 "0019_setting",
    20 "0020_restamp",
    21 "0021_tags",
    22 "0022_node_drain",
    23 "0023_batch_mode",
    24 "0024_stat_total",
    25 "0025_backoff_and_tags",
    26 "0026_bulk_operation",
    27 "0027_heartbeat_interval",
    28 "0028_enqueue_without_locks",
    29 "0029_compatible_from",
    30 "0030_promotion_by_rank",
    31 "0031_parked_by_manifest",
    32 "0032_session_address",
    33 "0033_submitters",
    34 "0034_lock_runner",
}

/// All migrations for the database that `options` names.
pub(crate) fn all(options: &StoreOptions) -> Vec<Migration> {
    let (files, schema) =
        if options.is_postgres() { (POSTGRES, options.schema_quoted()) } else { (SQLITE, String::new()) };
    files
        .iter()
        .copied()
        .chain(crate::crash::later_migrations(options.is_postgres()))
        .map(|(number, name, sql)| Migration { number, name, sql: sql.replace("{schema}", &schema) })
        .collect()
}

/// Applies what is pending, one migration after the other.
pub(crate) async fn migrate(
    store: &Store,
    before: MigrationStatus,
    observer: Observer,
) -> StoreResult<MigrationStatus> {
    // A role that may not change the schema can use one that is up to date.
    if before.pending.is_empty() {
        return Ok(before);
    }
    let watcher = match store.db.for_loops() {
        Db::Postgres(db) => Some(db),
        Db::Sqlite(_) => None,
    };
    let (mut since, mut report_at) = (Instant::now(), Duration::ZERO);
    loop {
        let step =
            Step { options: store.options.clone(), observer: observer.clone(), watcher: watcher.clone() };
        match store.run(step).await {
            Ok(Stepped::Applied(names)) => {
                names.into_iter().for_each(|name| observer(MigrationEvent::Applied { name }));
                (since, report_at) = (Instant::now(), Duration::ZERO);
            }
            Ok(Stepped::Waits(blockers)) if since.elapsed() < TURN_WAIT => {
                let waited = since.elapsed();
                if waited >= report_at {
                    report_at = next_report(waited);
                    observer(MigrationEvent::Waiting { name: None, waited, blockers });
                }
            }
            Ok(Stepped::Waits(blockers)) => {
                let source =
                    format!("another process has migrated for an hour: blocked by {blockers}").into();
                return Err(StoreError::Locked { source });
            }
            Ok(Stepped::UpToDate(status)) => return Ok(status),
            // SQLite; on PostgreSQL a step itself tries again.
            Err(StoreError::Contended { .. })
                if watcher.is_none() && since.elapsed() < store.options.lock_wait() =>
            {
                let (waited, blockers) = (since.elapsed(), "a process that writes to the file".to_owned());
                observer(MigrationEvent::Waiting { name: None, waited, blockers });
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// When to report a wait again: after twice the time, and at least once a minute.
fn next_report(waited: Duration) -> Duration {
    waited + waited.min(Duration::from_secs(60))
}

/// Reads which migrations there are, and changes nothing.
pub(crate) struct ReadStatus(pub(crate) Arc<StoreOptions>);

impl Verb for ReadStatus {
    type Answer = MigrationStatus;

    async fn run(&self, session: &mut Session) -> StoreResult<MigrationStatus> {
        read_status(session, &self.0).await
    }
}

async fn read_status(session: &mut Session, options: &StoreOptions) -> StoreResult<MigrationStatus> {
    let applied = match exists(session, options).await? {
        true => read_applied(session, options).await?,
        false => Vec::new(),
    };
    compare(all(options), &applied)
}

/// The table of applied migrations.
fn table(options: &StoreOptions) -> String {
    match options.is_postgres() {
        true => format!("{}.migration", options.schema_quoted()),
        false => "migration".to_owned(),
    }
}

async fn exists(session: &mut Session, options: &StoreOptions) -> StoreResult<bool> {
    let sql = if options.is_postgres() {
        format!("select to_regclass('{}') is not null as found", table(options))
    } else {
        "select exists (select 1 from sqlite_master where name = 'migration') as found".to_owned()
    };
    session.query(&sql).await?.first().map_or(Ok(false), |row| row.get("found"))
}

async fn read_applied(session: &mut Session, options: &StoreOptions) -> StoreResult<Vec<Row>> {
    // The column is not there before its migration. A schema that is being migrated may get it between two statements.
    let compatible_from = if options.is_postgres() {
        "(to_jsonb(m) ->> 'compatible_from')::integer"
    } else {
        let sql = "select exists (select 1 from pragma_table_info('migration') where name = 'compatible_from') as found";
        match session.query(sql).await?.first().map_or(Ok(false), |row| row.get("found"))? {
            true => "compatible_from",
            false => "null",
        }
    };
    let table = table(options);
    session
        .query(&format!(
            "select number, name, checksum, {compatible_from} as compatible_from from {table} m order by number"
        ))
        .await
}

/// Compares what is applied with what this program knows.
fn compare(known: Vec<Migration>, applied: &[Row]) -> StoreResult<MigrationStatus> {
    let newest = known.last().map_or(0, |migration| migration.number);
    let mut status = MigrationStatus { applied: 0, pending: Vec::new(), newer: Vec::new() };
    for row in applied {
        let (number, name): (u32, String) = (row.get("number")?, row.get("name")?);
        let Some(migration) = known.iter().find(|migration| migration.number == number) else {
            let oldest: Option<u32> = row.get("compatible_from")?;
            if oldest.is_none_or(|oldest| oldest > newest) {
                return Err(too_new(&name, oldest.unwrap_or(number), newest));
            }
            status.newer.push(name);
            continue;
        };
        let checksum: String = row.get("checksum")?;
        if checksum != migration.checksum() {
            let what = format!(
                "migration {name} was applied with other contents ({checksum}) than this program has"
            );
            return Err(StoreError::Corrupt { what });
        }
        status.applied = number;
    }
    status.pending = known.into_iter().filter(|migration| migration.number > status.applied).collect();
    match (status.newer.first(), status.pending.first()) {
        (Some(newer), Some(missing)) => {
            let missing = missing.name;
            let why = format!(
                "the schema has migration {newer}, and lacks {missing}: no release made it; restore a backup"
            );
            Err(StoreError::refused("schema_gap", why))
        }
        _ => Ok(status),
    }
}

fn too_new(name: &str, oldest: u32, newest: u32) -> StoreError {
    let why = format!(
        "the schema is at migration {name}, which needs a program that knows migration {oldest}, and this program knows only up to \
         {newest}; run the newer version"
    );
    StoreError::refused("schema_newer", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migration(sql: &str) -> Migration {
        Migration { number: 40, name: "0040_x", sql: sql.to_owned() }
    }

    #[test]
    fn a_migration_is_compatible_with_any_program_unless_it_says_otherwise() {
        assert_eq!(migration("-- 0040_x · adds\nalter table t add column c text;").compatible_from(), 0);
        assert_eq!(migration("-- 0040_x · drops\n-- compatible from 0038\n").compatible_from(), 38);
        assert_eq!(migration("-- compatible from nowhere\n").compatible_from(), 40, "misspelt: none");
    }

    #[test]
    fn both_databases_have_the_same_migrations_that_need_the_same_programs() {
        let of = |url: &str| all(&StoreOptions::new(url).expect("a URL"));
        let (postgres, sqlite) = (of("postgres://h/x"), of(":memory:"));
        assert_eq!(postgres.len(), sqlite.len());
        let mut before = 0;
        for (one, other) in postgres.iter().zip(&sqlite) {
            assert_eq!((one.number, one.name), (other.number, other.name));
            assert_eq!(one.compatible_from(), other.compatible_from(), "{}", one.name);
            assert!(one.number > before && one.name.starts_with(&format!("{:04}_", one.number)));
            assert!(one.compatible_from() <= one.number, "{}", one.name);
            before = one.number;
        }
    }
}
