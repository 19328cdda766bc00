//! `lineclear db`: the database's schema.

use clap::Subcommand;
use lineclear::store::{Migration, MigrationStatus};
use lineclear::{Store, StoreOptions};
use serde::Serialize;

use super::place::{self, Place};
use crate::failure::Failure;
use crate::output::{print, print_json};

const EXAMPLES: &str = "Examples:
  lineclear db migrate
  lineclear db migrate --db postgres://scheduler@db.internal/app
  lineclear db status --db 'postgres://scheduler@db.internal/app?schema=jobs' --json
  lineclear db plan --all --db postgres:///app > schema.sql";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Applies migrations that are missing. Safe while nodes run, and from many nodes at once.
    #[command(after_help = EXAMPLES)]
    Migrate(Place),
    /// Says how far the schema is. Changes nothing.
    #[command(after_help = EXAMPLES)]
    Status(Place),
    /// Prints the SQL that `migrate` would run. Changes nothing.
    #[command(after_help = EXAMPLES)]
    Plan {
        #[command(flatten)]
        place: Place,
        /// All migrations, also those that were applied; needs no connection
        #[arg(long)]
        all: bool,
    },
}

/// What programs get.
#[derive(Serialize)]
struct Report {
    store: String,
    applied: u32,
    known: usize,
    pending: Vec<&'static str>,
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
        runtime.block_on(async {
            match self {
                Command::Migrate(place) => migrate(place).await,
                Command::Status(place) => status(place).await,
                Command::Plan { place, all } => plan(place, all).await,
            }
        })
    }
}

async fn migrate(place: Place) -> Result<(), Failure> {
    let options = place.options()?;
    let before = look(&options).await?;
    let store = Store::open(options.clone().migrate(false)).await?;
    let after = store.migrate().await?;
    if place.json {
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

async fn status(place: Place) -> Result<(), Failure> {
    let options = place.options()?;
    let status = look(&options).await?;
    if place.json {
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

async fn plan(place: Place, all: bool) -> Result<(), Failure> {
    let options = place.options()?;
    let migrations = if all { options.migrations() } else { look(&options).await?.pending };
    if place.json {
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

/// How far the schema is.
async fn look(options: &StoreOptions) -> Result<MigrationStatus, Failure> {
    match place::look(options.clone().migrate(false)).await? {
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
