//! `lineclear subscription`: programs that read the event log of a database.

mod change;
mod parked;
mod rebuild;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::api_client::{ApiTarget, Json};
use crate::api_command::{items, print_one, with_api, with_resource};
use crate::display::{Cell, Column, OutputStyle, print_table};
use crate::failure::Failure;
use crate::output::{approx_duration, print, print_json};

const EXAMPLES: &str = "Examples:
  lineclear subscription list
  lineclear subscription show totals
  lineclear subscription pause totals --reason 'the schema changes'
  lineclear subscription skip totals --position 4711
  lineclear subscription reset mailer --to 4000 --yes";

const LIST_EXAMPLES: &str = "Examples:
  lineclear subscription list
  lineclear subscription list --db postgres://shop@db.internal/shop
  lineclear subscription list --json | jq '.items[] | select(.state == \"stopped\")'

Columns:
  STATE     running, paused, stopped (at an event that fails) or rebuilding
  NODE      the node that runs it; - if none does
  POSITION  all events up to here are handled, parked or filtered out
  HEAD      the position of the last event of the log
  BEHIND    events after its position
  LAG       the age of the first of these
  PARKED    events that failed too often; see parked
Counts stop at 10000.";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List subscriptions: how far each is, and which node runs it.
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show a subscription, its last error, and the transactions that hold it up.
    #[command(
        after_help = "Examples:\n  lineclear subscription show totals\n  lineclear subscription show totals --json"
    )]
    Show(One),
    /// Pause a subscription, and its rebuild.
    Pause(change::Pause),
    /// Resume a subscription that is paused or stopped, with a new budget of attempts.
    #[command(after_help = "Examples:\n  lineclear subscription resume totals")]
    Resume(One),
    /// Skip the event at which a subscription fails.
    Skip(change::Skip),
    /// Reset the position of a subscription: it handles events again, or leaves some out.
    Reset(change::Reset),
    /// Rebuild a subscription: its next version reads the log from its start, and takes the place of the active one.
    Rebuild(rebuild::Rebuild),
    /// List parked events, newest first, or show one.
    Parked(parked::Parked),
    /// Replay parked events: the subscription handles them again.
    Replay(parked::Replay),
    /// Discard parked events: the subscription never handles them.
    Discard(parked::Discard),
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: ApiTarget,
}

/// One subscription.
#[derive(Args)]
pub(crate) struct One {
    /// Name of the subscription
    subscription: String,
    #[command(flatten)]
    target: ApiTarget,
}

impl One {
    /// Runs a command with its path; an unknown name is answered with the nearest one.
    fn with(
        &self,
        command: impl AsyncFnOnce(&crate::api_client::ApiClient, &ApiTarget, &str) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        with_resource(&self.target, ("subscriptions", Some("name")), &self.subscription, command)
    }
}

const SUBSCRIPTIONS: &[Column] = &[
    Column { head: "NAME", of: |one| Cell::text(one.get("name")) },
    Column { head: "STATE", of: |one| Cell::state(one.get("state")) },
    Column { head: "NODE", of: |one| Cell::text(runner(one, "node")) },
    Column { head: "POSITION", of: |one| Cell::text(one.get("position")) },
    Column { head: "HEAD", of: |one| Cell::text(one.get("head")) },
    Column { head: "BEHIND", of: |one| Cell::text(one.get("lag_events")) },
    Column { head: "LAG", of: lag },
    Column { head: "PARKED", of: |one| Cell::text(one.get("parked")) },
    Column { head: "ERROR", of: |one| Cell::text(one.get("last_error")) },
];

const SUBSCRIPTION: &[Column] = &[
    Column { head: "name", of: |one| Cell::text(one.get("name")) },
    Column { head: "state", of: |one| Cell::state(one.get("state")) },
    Column { head: "reason", of: |one| Cell::text(one.get("reason")) },
    Column { head: "node", of: |one| Cell::text(runner(one, "node")) },
    Column { head: "runner", of: |one| Cell::state(runner(one, "state")) },
    Column { head: "effects", of: |one| Cell::text(one.get("kind")) },
    Column { head: "version", of: |one| Cell::text(one.get("version")) },
    Column { head: "position", of: |one| Cell::text(one.get("position")) },
    Column { head: "head", of: |one| Cell::text(one.get("head")) },
    Column { head: "behind", of: |one| Cell::text(one.get("lag_events")) },
    Column { head: "lag", of: lag },
    Column { head: "handled", of: |one| Cell::text(one.get("handled")) },
    Column { head: "parked", of: |one| Cell::text(one.get("parked")) },
    Column { head: "fails at", of: |one| Cell::text(one.get("failed_position")) },
    Column { head: "failures", of: |one| Cell::text(one.get("failures")) },
    Column { head: "last error", of: |one| Cell::text(one.get("last_error")) },
    Column { head: "failed", of: |one| Cell::time(one.get("failed_at")) },
    Column { head: "moved", of: |one| Cell::time(one.get("updated_at")) },
    Column { head: "rebuild", of: rebuild },
    Column { head: "waits for", of: waits_for },
];

fn runner<'a>(one: &'a Json, field: &str) -> Option<&'a Value> {
    one.get("runner")?.get(field)
}

fn lag(one: &Json) -> Cell {
    let is_empty = one.get("lag_events").and_then(Value::as_u64) == Some(0);
    let ms = one.get("lag_ms").and_then(Value::as_i64).filter(|_| !is_empty);
    ms.map_or(Cell::Nothing, |ms| Cell::Text(approx_duration(ms.saturating_mul(1_000))))
}

fn rebuild(one: &Json) -> Cell {
    let Some(rebuild) = one.get("rebuild").filter(|rebuild| !rebuild.is_null()) else { return Cell::Nothing };
    let word = |field: &str| rebuild.get(field).and_then(Value::as_str).unwrap_or_default();
    let number = |field: &str| rebuild.get(field).and_then(Value::as_i64).unwrap_or_default();
    let swaps = rebuild.get("swaps").and_then(Value::as_bool) == Some(true);
    let then = if swaps { "swaps when it has caught up" } else { "swaps on request" };
    let error = rebuild.get("last_error").and_then(Value::as_str).map(|error| format!("; {error}"));
    Cell::Text(format!(
        "version {} is {} at {}, {} behind, {then}{}",
        number("version"),
        word("state"),
        word("position"),
        number("lag_events"),
        error.unwrap_or_default()
    ))
}

fn waits_for(one: &Json) -> Cell {
    let all = one.get("waits_for").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match all {
        [] => Cell::Nothing,
        all => Cell::Text(all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")),
    }
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(List { target }) => with_api(&target, async |api| {
                let all = api.get("subscriptions").await?;
                let (rows, style) = (items(&all), OutputStyle::detect());
                match rows.is_empty() && style.is_terminal {
                    _ if target.json => print_json(&all)?,
                    true => print("no program has subscribed to an event log in this database\n")?,
                    false => print_table(SUBSCRIPTIONS, &rows, &style)?,
                }
                Ok(ExitCode::SUCCESS)
            }),
            Command::Show(one) => {
                one.with(async |api, target, path| print_one(target, &api.get(path).await?, SUBSCRIPTION))
            }
            Command::Pause(pause) => pause.run(),
            Command::Resume(one) => change::resume(&one),
            Command::Skip(skip) => skip.run(),
            Command::Reset(reset) => reset.run(),
            Command::Rebuild(rebuild) => rebuild.run(),
            Command::Parked(parked) => parked.run(),
            Command::Replay(replay) => replay.run(),
            Command::Discard(discard) => discard.run(),
        }
    }
}
