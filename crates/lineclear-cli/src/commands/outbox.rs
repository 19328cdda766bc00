//! `lineclear outbox`: messages that programs wrote with their own rows.

mod triage;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::api_client::{ApiTarget, Json, path_segment};
use crate::api_command::{PageArgs, items, print_list, print_one, with_api, with_resource};
use crate::display::{Cell, Column, OutputStyle, print_table};
use crate::failure::Failure;
use crate::output::{approx_duration, print, print_json};

const EXAMPLES: &str = "Examples:
  lineclear outbox list
  lineclear outbox show main --state dead
  lineclear outbox show main 4711
  lineclear outbox replay main 4711
  lineclear outbox discard main --all --yes";

const LIST_EXAMPLES: &str = "Examples:
  lineclear outbox list
  lineclear outbox list --db postgres://shop@db.internal/shop
  lineclear outbox list --json | jq '.items[] | select(.runner == null)'

Columns:
  READY    messages to deliver now
  LAG      how long the first of them has been due
  WAITING  messages to deliver later: after a delay, before their next attempt, or behind another one of their key
  DEAD     messages that were not delivered; see replay and discard
Counts stop at 10000. A RUNNER of - means that no node delivers.";

const SHOW_EXAMPLES: &str = "Examples:
  lineclear outbox show main
  lineclear outbox show main --state dead --all --json
  lineclear outbox show main 4711

With an id, the payload and the headers are shown, too; values that look like secrets are masked.";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List outboxes: what waits, since when, and which node delivers.
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show the messages of an outbox, newest first, or one message.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Replay dead messages: deliver them again, with a new budget of attempts.
    Replay(triage::Replay),
    /// Discard dead messages: delete them.
    Discard(triage::Discard),
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
pub(crate) struct Show {
    /// Name of the outbox
    outbox: String,
    /// Id of a message
    #[arg(value_name = "MESSAGE", conflicts_with_all = ["state", "limit", "all"])]
    message: Option<String>,
    /// ready, waiting, dead or delivered
    #[arg(long, value_name = "STATE", default_value = "ready")]
    state: String,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    target: ApiTarget,
}

const OUTBOXES: &[Column] = &[
    Column { head: "NAME", of: |outbox| Cell::text(outbox.get("name")) },
    Column { head: "RUNNER", of: |outbox| Cell::state(runner(outbox, "state")) },
    Column { head: "NODE", of: |outbox| Cell::text(runner(outbox, "node")) },
    Column { head: "READY", of: |outbox| Cell::text(outbox.get("ready")) },
    Column { head: "LAG", of: lag },
    Column { head: "WAITING", of: |outbox| Cell::text(outbox.get("waiting")) },
    Column { head: "DEAD", of: |outbox| Cell::text(outbox.get("dead")) },
    Column { head: "ERROR", of: |outbox| Cell::text(outbox.get("last_error")) },
];

const MESSAGES: &[Column] = &[
    Column { head: "ID", of: |message| Cell::text(message.get("id")) },
    Column { head: "STATE", of: |message| Cell::state(message.get("state")) },
    Column { head: "TOPIC", of: |message| Cell::text(message.get("topic")) },
    Column { head: "KEY", of: |message| Cell::text(message.get("key")) },
    Column { head: "ATTEMPTS", of: |message| Cell::text(message.get("attempts")) },
    Column { head: "WRITTEN", of: |message| Cell::time(message.get("created_at")) },
    Column { head: "AT", of: |message| Cell::time(message.get("at")) },
    Column { head: "ERROR", of: |message| Cell::text(message.get("last_error")) },
];

const MESSAGE: &[Column] = &[
    Column { head: "id", of: |message| Cell::text(message.get("id")) },
    Column { head: "outbox", of: |message| Cell::text(message.get("outbox")) },
    Column { head: "state", of: |message| Cell::state(message.get("state")) },
    Column { head: "topic", of: |message| Cell::text(message.get("topic")) },
    Column { head: "key", of: |message| Cell::text(message.get("key")) },
    Column { head: "delivery id", of: |message| Cell::text(message.get("delivery_id")) },
    Column { head: "attempts", of: |message| Cell::text(message.get("attempts")) },
    Column { head: "written", of: |message| Cell::time(message.get("created_at")) },
    Column { head: "at", of: |message| Cell::time(message.get("at")) },
    Column { head: "last error", of: |message| Cell::text(message.get("last_error")) },
    Column { head: "headers", of: |message| Cell::raw_json(message.field("headers")) },
    Column { head: "payload", of: |message| Cell::raw_json(message.field("payload")) },
];

fn runner<'a>(outbox: &'a Json, field: &str) -> Option<&'a Value> {
    outbox.get("runner")?.get(field)
}

fn lag(outbox: &Json) -> Cell {
    let is_empty = outbox.get("ready").and_then(Value::as_u64) == Some(0);
    let ms = outbox.get("lag_ms").and_then(Value::as_i64).filter(|_| !is_empty);
    ms.map_or(Cell::Nothing, |ms| Cell::Text(approx_duration(ms.saturating_mul(1_000))))
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(List { target }) => with_api(&target, async |api| {
                let all = api.get("outboxes").await?;
                let (rows, style) = (items(&all), OutputStyle::detect());
                match rows.is_empty() && style.is_terminal {
                    _ if target.json => print_json(&all)?,
                    true => print("no outbox in this database has messages or a runner\n")?,
                    false => print_table(OUTBOXES, &rows, &style)?,
                }
                Ok(ExitCode::SUCCESS)
            }),
            Command::Show(show) => show.run(),
            Command::Replay(replay) => replay.run(),
            Command::Discard(discard) => discard.run(),
        }
    }
}

impl Show {
    fn run(self) -> Result<ExitCode, Failure> {
        with_resource(&self.target, ("outboxes", Some("name")), &self.outbox, async |api, target, path| {
            if let Some(id) = &self.message {
                let message = api.get(&format!("{path}/messages/{}", path_segment(id))).await?;
                return print_one(target, &message, MESSAGE);
            }
            let query = [("state", Some(self.state.clone()))];
            let empty = format!("no message of this outbox is {}", self.state);
            print_list(api, target, (&format!("{path}/messages"), &query), &self.page, MESSAGES, &empty).await
        })
    }
}
