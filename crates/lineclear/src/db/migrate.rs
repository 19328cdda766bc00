//! Numbered migrations, the same names for both databases, applied in one transaction under a lock.
//!
//! Of nodes that start together, the first applies the migrations while the others wait. A migration that fails half-way leaves
//! nothing behind. A schema that is newer than this program is refused: an old node must not write to it.

use crate::db::options::fnv1a;
use crate::db::{Row, Session, Verb};
use crate::store::{StoreError, StoreOptions, StoreResult};

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

    /// The checksum of its SQL, which reveals a migration that was edited after it was applied.
    fn checksum(&self) -> String {
        format!("{:016x}", fnv1a(&self.sql))
    }
}

/// Which migrations a database has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationStatus {
    /// The number of the newest applied migration; 0 for none.
    pub applied: u32,
    /// Migrations that are not applied yet.
    pub pending: Vec<Migration>,
}

/// The advisory lock under which lineclear-lock creates its tables, some of which are the engine's, too: two that create the same
/// table at once would fail.
const LOCK_TABLES: i64 = 1_818_520_683;

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
    29 "0029_promotion_by_rank",
    30 "0030_parked_by_manifest",
    36 "0036_session_address",
}

/// All migrations for the database that `options` names.
pub(crate) fn all(options: &StoreOptions) -> Vec<Migration> {
    let (files, schema) =
        if options.is_postgres() { (POSTGRES, options.schema_quoted()) } else { (SQLITE, String::new()) };
    files
        .iter()
        .map(|(number, name, sql)| Migration { number: *number, name, sql: sql.replace("{schema}", &schema) })
        .collect()
}

/// Applies pending migrations, or only reads which there are.
pub(crate) struct Migrate {
    pub(crate) options: StoreOptions,
    pub(crate) apply: bool,
}

impl Verb for Migrate {
    type Answer = MigrationStatus;

    fn is_patient(&self) -> bool {
        self.apply
    }

    async fn run(&self, session: &mut Session) -> StoreResult<MigrationStatus> {
        let postgres = self.options.is_postgres();
        let table = if postgres {
            format!("{}.migration", self.options.schema_quoted())
        } else {
            "migration".to_owned()
        };
        let applied = if self.apply {
            if postgres {
                let key = self.options.advisory_key("migrate");
                session.query(&format!("select pg_advisory_xact_lock({key})")).await?;
                session.query(&format!("select pg_advisory_xact_lock({LOCK_TABLES})")).await?;
                session
                    .batch(&format!("create schema if not exists {}", self.options.schema_quoted()))
                    .await?;
            }
            session.batch(&create_table(&table, postgres)).await?;
            read_applied(session, &table).await?
        } else if exists(session, &self.options).await? {
            read_applied(session, &table).await?
        } else {
            Vec::new()
        };
        let known = all(&self.options);
        let newest = check(&known, &applied)?;
        let pending: Vec<Migration> = known.into_iter().filter(|m| m.number > newest).collect();
        if !self.apply {
            return Ok(MigrationStatus { applied: newest, pending });
        }
        for migration in &pending {
            session.batch(&migration.sql).await?;
            crate::crash::point("migrate.step");
            let (number, name, checksum) = (migration.number, migration.name, migration.checksum());
            session
                .batch(&format!(
                    "insert into {table} (number, name, checksum) values ({number}, '{name}', '{checksum}')"
                ))
                .await?;
        }
        let applied = pending.last().map_or(newest, |m| m.number);
        Ok(MigrationStatus { applied, pending: Vec::new() })
    }
}

fn create_table(table: &str, postgres: bool) -> String {
    let now = if postgres {
        "timestamptz not null default now()"
    } else {
        "text not null default current_timestamp"
    };
    format!(
        "create table if not exists {table} \
         (number integer primary key, name text not null, checksum text not null, applied_at {now})"
    )
}

async fn exists(session: &mut Session, options: &StoreOptions) -> StoreResult<bool> {
    let sql = if options.is_postgres() {
        format!("select to_regclass('{}.migration') is not null as found", options.schema_quoted())
    } else {
        "select exists (select 1 from sqlite_master where name = 'migration') as found".to_owned()
    };
    session.query(&sql).await?.first().map_or(Ok(false), |row| row.get("found"))
}

async fn read_applied(session: &mut Session, table: &str) -> StoreResult<Vec<Row>> {
    session.query(&format!("select number, name, checksum from {table} order by number")).await
}

/// The number of the newest applied migration, if all applied ones match this program's.
fn check(known: &[Migration], applied: &[Row]) -> StoreResult<u32> {
    let mut newest = 0;
    for row in applied {
        let (number, name): (u32, String) = (row.get("number")?, row.get("name")?);
        let Some(migration) = known.iter().find(|m| m.number == number) else {
            let why = format!(
                "the schema is at migration {name}, and this program knows only up to {}; run the newer version",
                known.len()
            );
            return Err(StoreError::refused("schema_newer", why));
        };
        let checksum: String = row.get("checksum")?;
        if checksum != migration.checksum() {
            let what = format!(
                "migration {name} was applied with other contents ({checksum}) than this program has"
            );
            return Err(StoreError::Corrupt { what });
        }
        newest = number;
    }
    Ok(newest)
}
