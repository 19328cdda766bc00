//! `lineclear lock list`: the locks of the registry.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::target::{LockTarget, failure, registry_of};
use crate::api_client::{Json, ServerArgs};
use crate::api_command::items;
use crate::display::{Cell, Column, OutputStyle, print_table};
use crate::failure::Failure;
use crate::output::print_stderr;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
States:
  held    held, and its holder renews it
  idle    released, free
  stale   held, but its holder has not renewed it lately
  orphan  free, but never released: its holder disappeared
  drift   held by another holder than the registry recorded

Examples:
  lineclear lock list
  lineclear lock list --store postgres://app@db.internal/app --json
  lineclear lock list --server https://scheduler.internal     (the registry of the server)";

/// The help of `--server`: without it, this command reads the registry of `--store`.
fn server_help(server: clap::Arg) -> clap::Arg {
    server.help("List the registry of this server instead of that of --store")
}

#[derive(Args)]
#[command(after_help = EXAMPLES, mut_arg("server", server_help))]
pub(crate) struct List {
    #[command(flatten)]
    target: LockTarget,
    #[command(flatten)]
    server: ServerArgs,
    /// Maximum number of locks
    #[arg(short = 'n', long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print the JSON of the API
    #[arg(long)]
    json: bool,
}

const COLUMNS: &[Column] = &[
    Column { head: "LOCK", of: |lock| Cell::text(lock.get("name")) },
    Column { head: "STATE", of: |lock| Cell::state(lock.get("state")) },
    Column { head: "NODE", of: |lock| Cell::text(lock.get("node")) },
    Column { head: "KIND", of: |lock| Cell::text(lock.get("kind")) },
    Column { head: "NUMBER", of: |lock| Cell::text(lock.get("epoch")) },
    Column { head: "SINCE", of: |lock| Cell::time(lock.get("since")) },
    Column { head: "RENEWED", of: |lock| Cell::time(lock.get("renewed_at")) },
];

impl List {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let all = match self.server.flag() {
            Some(url) => self.server.client(url)?.get("locks").await?,
            None => self.read_registry().await?,
        };
        if self.json {
            print_json(&all)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (rows, style) = (items(&all), OutputStyle::detect());
        match rows.is_empty() && style.is_terminal {
            true => print("no locks are recorded for this store\n")?,
            false => print_table(COLUMNS, &rows, &style)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The locks in the shape of the API, without a server.
    async fn read_registry(&self) -> Result<Json, Failure> {
        let locks = self.target.open_existing().await?;
        let mut leases = match &locks {
            Some(locks) => {
                let registry = registry_of(locks, "they cannot be listed")?;
                registry.leases(self.limit + 1).await.map_err(failure)?
            }
            None => Vec::new(),
        };
        let more = leases.len() > self.limit as usize;
        leases.truncate(self.limit as usize);
        if more {
            print_stderr(&format!("lineclear: there are more than {} locks; see --limit\n", self.limit));
        }
        let items: Vec<Value> = leases.into_iter().map(lineclear_http::lock_json).collect();
        Ok(json!({"items": items, "next": null}).into())
    }
}
