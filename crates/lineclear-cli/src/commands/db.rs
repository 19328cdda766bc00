//! `lineclear db`: the schema of the database.

use std::time::Duration;

use clap::Subcommand;
use lineclear::store::{Migration, MigrationEvent, MigrationStatus};
use lineclear::{Store, StoreOptions};
use serde::Serialize;

use crate::args::{DbArgs, open_existing};
use crate::config::parse_duration;
use crate::failure::Failure;
use crate::output::{print, print_json, print_stderr};
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
    Migrate {
        #[command(flatten)]
        db: DbArgs,
        /// How long a migration waits for locks that applications hold, in short tries
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
        lock_wait: Duration,
    },
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
    applied: usize,
    known: usize,
    pending: Vec<&'static str>,
    /// Applied migrations of a newer release, which this program can work with.
    newer: Vec<String>,
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(async {
            match self {
                Command::Migrate { db, lock_wait } => migrate(db, lock_wait).await,
                Command::Status(db) => status(db).await,
                Command::Plan { db, all } => plan(db, all).await,
            }
        })
    }
}

async fn migrate(db: DbArgs, lock_wait: Duration) -> Result<(), Failure> {
    let options = db.options()?;
    let before = migration_status(&options).await?;
    let store = Store::open(options.clone().migrate(false).migrate_lock_wait(lock_wait)).await?;
    let is_json = db.json;
    if !is_json {
        print(&format!("{options}\n"))?;
    }
    let observer = move |event: MigrationEvent| match event {
        // A reader that is gone stops no migration.
        MigrationEvent::Applied { .. } if !is_json => drop(print(&format!("  {event}\n"))),
        MigrationEvent::Applied { .. } => {}
        MigrationEvent::Waiting { .. } => print_stderr(&format!("  {event}\n")),
    };
    let after = store.migrate_observed(observer).await?;
    if is_json {
        return print_json(&report(&options, &after));
    }
    if before.pending.is_empty() {
        print(&format!("{}  up to date; nothing to do\n", newer_lines(&after)))?;
    }
    Ok(())
}

async fn status(db: DbArgs) -> Result<(), Failure> {
    let options = db.options()?;
    let status = migration_status(&options).await?;
    if db.json {
        return print_json(&report(&options, &status));
    }
    let known = options.migrations().len();
    let applied = known - status.pending.len();
    let mut text = format!("{options}\n  {applied} of {known} migrations applied\n");
    for migration in &status.pending {
        text.push_str(&format!("  pending  {}\n", migration.name));
    }
    text.push_str(&newer_lines(&status));
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

/// Migrations of a newer release.
fn newer_lines(status: &MigrationStatus) -> String {
    let lines: String = status.newer.iter().map(|name| format!("  newer    {name}\n")).collect();
    match lines.is_empty() {
        true => lines,
        false => lines + "  the schema is newer than this program, and compatible\n",
    }
}

/// The status of the schema, without creating a file.
async fn migration_status(options: &StoreOptions) -> Result<MigrationStatus, Failure> {
    match open_existing(options.clone().migrate(false)).await? {
        Some(store) => Ok(store.migration_status().await?),
        None => Ok(MigrationStatus { applied: 0, pending: options.migrations(), newer: Vec::new() }),
    }
}

fn report(options: &StoreOptions, status: &MigrationStatus) -> Report {
    let known = options.migrations().len();
    Report {
        store: options.to_string(),
        applied: known - status.pending.len(),
        known,
        pending: status.pending.iter().map(|migration| migration.name).collect(),
        newer: status.newer.clone(),
    }
}
