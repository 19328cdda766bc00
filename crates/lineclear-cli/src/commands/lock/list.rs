//! `lineclear lock list` and `lineclear lock history`: what the registry has.

use std::process::ExitCode;

use clap::Args;
use lineclear_lock::{LockEvent, LockName, What};
use serde_json::{Value, json};

use super::place::{Place, failure, registry_of, usage};
use super::report::{EventReport, moment, short};
use crate::api::{Json, Server};
use crate::cmd::ask::only;
use crate::failure::{Failure, say};
use crate::output::{print, print_json, table};
use crate::show::{Cell, Column, Look, list as in_rows};

const EXAMPLES: &str = "\
States:
  held    its holder has it, and says so
  idle    it was released, and is free
  stale   its holder has not been heard of lately, and the lock is not free yet
  orphan  it is free, but was never released: its holder went away
  drift   another has it than the record says

Examples:
  lineclear lock list
  lineclear lock list --store postgres://app@db.internal/app --json
  lineclear lock list --server https://scheduler.internal     (those that the server's registry has)";

const HISTORY_EXAMPLES: &str = "\
Examples:
  lineclear lock history nightly-backup
  lineclear lock history nightly-backup -n 100 --json";

/// For the help: here --store is looked at unless a server is named.
fn named_only(server: clap::Arg) -> clap::Arg {
    server.help("Lists what the registry of this server has, and not that of --store")
}

#[derive(Args)]
#[command(after_help = EXAMPLES, mut_arg("server", named_only))]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    server: Server,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Prints the JSON of the API
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
    Column { head: "HEARD OF", of: |lock| Cell::time(lock.get("renewed_at")) },
];

impl List {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let all = match self.server.flag() {
            Some(url) => self.server.at(url)?.get("locks").await?,
            None => self.recorded().await?,
        };
        if self.json {
            print_json(&all)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (rows, look) = (only(&all), Look::here());
        match rows.is_empty() && look.is_terminal {
            true => print("no lock of this store was recorded\n")?,
            false => in_rows(COLUMNS, &rows, &look)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// As the API has them, without a server.
    async fn recorded(&self) -> Result<Json, Failure> {
        let locks = self.place.look().await?;
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
            say(&format!("lineclear: there are more than {}; see --limit\n", self.limit));
        }
        let items: Vec<Value> = leases.into_iter().map(lineclear_http::lock_json).collect();
        Ok(json!({"items": items, "next": null}).into())
    }
}

#[derive(Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(crate) struct History {
    /// The lock's name
    name: String,
    #[command(flatten)]
    place: Place,
    /// At most so many, the newest first
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl History {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let name = LockName::new(&self.name).map_err(usage)?;
        let locks = self.place.look_for(name.as_str()).await?;
        let registry = registry_of(&locks, "they have no history")?;
        let events = registry.history(Some(name.as_str()), None, self.limit).await.map_err(failure)?;
        if events.is_empty() && locks.look(name.as_str()).await.map_err(failure)?.is_none() {
            return Err(super::place::never_held(name.as_str()));
        }
        match self.json {
            true => print_json(&events.iter().map(EventReport::from).collect::<Vec<_>>())?,
            false if events.is_empty() => print("nothing of it was recorded\n")?,
            false => {
                print(&table(&events.iter().map(|e| vec![moment(e.at), in_words(e)]).collect::<Vec<_>>()))?
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What happened, in a sentence without its end.
pub(super) fn in_words(event: &LockEvent) -> String {
    let (holder, number) = (short(&event.holder), event.epoch);
    let why = event.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    match (event.what, &event.before) {
        (What::Taken, Some(before)) => {
            format!("{holder} took it as holder number {number}, after {}", short(before))
        }
        (What::Taken, None) => format!("{holder} took it as holder number {number}"),
        (What::Lost, _) => format!("{holder}, number {number}, lost it{why}"),
        (What::Vanished, _) => format!("{holder}, number {number}, went away without a word{why}"),
        (What::Broken, _) => {
            let who = event.by_whom.as_deref().unwrap_or("somebody");
            format!("{who} took it away from {holder}, number {number}{why}")
        }
    }
}
