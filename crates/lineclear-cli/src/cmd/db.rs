//! `lineclear db`: the database's schema.

use clap::{Args, Subcommand};
use lineclear::store::{Migration, MigrationStatus};
use lineclear::{Store, StoreOptions};
use serde::Serialize;

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

#[derive(Args)]
pub(crate) struct Place {
    /// postgres://user@host/database?schema=lineclear&pooler=transaction, or a SQLite file
    #[arg(
        long,
        env = "LINECLEAR_DB",
        hide_env_values = true,
        default_value = "lineclear.db",
        value_name = "URL"
    )]
    db: String,
    /// Prints JSON
    #[arg(long)]
    json: bool,
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
    let options = StoreOptions::new(&place.db)?;
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
    let options = StoreOptions::new(&place.db)?;
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
    let options = StoreOptions::new(&place.db)?;
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

/// How far the schema is. A SQLite file that does not exist is not made by looking at it.
async fn look(options: &StoreOptions) -> Result<MigrationStatus, Failure> {
    if options.file().is_some_and(|file| !file.exists()) {
        return Ok(MigrationStatus { applied: 0, pending: options.migrations() });
    }
    let store = Store::open(options.clone().migrate(false)).await?;
    Ok(store.migration_status().await?)
}

fn report(options: &StoreOptions, status: &MigrationStatus) -> Report {
    Report {
        store: options.to_string(),
        applied: status.applied,
        known: options.migrations().len(),
        pending: status.pending.iter().map(|migration| migration.name).collect(),
    }
}
