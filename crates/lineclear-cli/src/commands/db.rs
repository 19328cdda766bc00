//! `lineclear db`: the schema of the database.

use clap::Subcommand;
use lineclear::store::{Migration, MigrationStatus};
use lineclear::{Store, StoreOptions};
use serde::Serialize;

use crate::args::{DbArgs, open_existing};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::runtime::block_on;

const EXAMPLES: &str = "Examples:
  lineclear db migrate
  lineclear db migrate --db postgres://scheduler@db.internal/app
  lineclear db status --db 'postgres://scheduler@db.internal/app?schema=jobs' --json
  lineclear db plan --all --db postgres:///app > schema.sql";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Apply pending migrations. Safe while nodes run, and from several machines at once.
    #[command(after_help = EXAMPLES)]
    Migrate(DbArgs),
    /// Show which migrations are applied. Changes nothing.
    #[command(after_help = EXAMPLES)]
    Status(DbArgs),
    /// Print the SQL that `migrate` would run. Changes nothing.
    #[command(after_help = EXAMPLES)]
    Plan {
        #[command(flatten)]
        db: DbArgs,
        /// Print all migrations, also applied ones; needs no connection
        #[arg(long)]
        all: bool,
    },
}

/// The JSON.
#[derive(Serialize)]
struct Report {
    store: String,
    applied: u32,
    known: usize,
    pending: Vec<&'static str>,
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(async {
            match self {
                Command::Migrate(db) => migrate(db).await,
                Command::Status(db) => status(db).await,
                Command::Plan { db, all } => plan(db, all).await,
            }
        })
    }
}

async fn migrate(db: DbArgs) -> Result<(), Failure> {
    let options = db.options()?;
    let before = migration_status(&options).await?;
    let store = Store::open(options.clone().migrate(false)).await?;
    let after = store.migrate().await?;
    if db.json {
        return print_json(&report(&options, &after));
    }
    let mut text = format!("{options}\n");
    for migration in before.pending.iter().filter(|migration| migration.number <= after.applied) {
        text.push_str(&format!("  applied  {}\n", migration.name));
    }
    if before.pending.is_empty() {
        text.push_str("  up to date; nothing to do\n");
    }
    print(&text)
}

async fn status(db: DbArgs) -> Result<(), Failure> {
    let options = db.options()?;
    let status = migration_status(&options).await?;
    if db.json {
        return print_json(&report(&options, &status));
    }
    let known = options.migrations();
    let mut text = format!("{options}\n  {} of {} migrations applied\n", status.applied, known.len());
    for migration in &status.pending {
        text.push_str(&format!("  pending  {}\n", migration.name));
    }
    text.push_str(if status.pending.is_empty() { "  up to date\n" } else { "  run: lineclear db migrate\n" });
    print(&text)
}

async fn plan(db: DbArgs, all: bool) -> Result<(), Failure> {
    let options = db.options()?;
    let migrations = if all { options.migrations() } else { migration_status(&options).await?.pending };
    if db.json {
        let list: Vec<_> =
            migrations.iter().map(|m| serde_json::json!({"name": m.name, "sql": m.sql()})).collect();
        return print_json(&list);
    }
    let sql: Vec<&str> = migrations.iter().map(Migration::sql).collect();
    match sql.is_empty() {
        true => print("-- up to date; nothing to do\n"),
        false => print(&sql.join("\n")),
    }
}

/// The status of the schema, without creating a file.
async fn migration_status(options: &StoreOptions) -> Result<MigrationStatus, Failure> {
    match open_existing(options.clone().migrate(false)).await? {
        Some(store) => Ok(store.migration_status().await?),
        None => Ok(MigrationStatus { applied: 0, pending: options.migrations() }),
    }
}

fn report(options: &StoreOptions, status: &MigrationStatus) -> Report {
    Report {
        store: options.to_string(),
        applied: status.applied,
        known: options.migrations().len(),
        pending: status.pending.iter().map(|migration| migration.name).collect(),
    }
}
