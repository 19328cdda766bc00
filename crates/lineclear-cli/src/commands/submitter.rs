//! `lineclear submitter`: where the jobs of each kind go.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::api_client::{ApiTarget, Json};
use crate::api_command::{items, with_api};
use crate::display::{Cell, Column, OutputStyle, print_table};
use crate::failure::Failure;
use crate::output::{approx_duration, print_json};

const EXAMPLES: &str = "Examples:
  lineclear submitter list
  lineclear submitter list --server https://scheduler.internal
  lineclear submitter list --json | jq '.items[] | select(.state != \"ready\")'";

const LIST_EXAMPLES: &str = "Examples:
  lineclear submitter list
  lineclear submitter list --json

Submitters:
  local     the handlers of the node that answers
  inline    its handlers that run inside the call that enqueues
  pull      remote workers, which ask for jobs
  host …    a host that jobs of the kind http do not call for now, because its last calls failed
  others    as the settings or the program name them; of other nodes as of their last heartbeat

States:
  ready         takes jobs
  breaker open  its endpoint failed repeatedly; RETRY says when it is tried again. Its jobs wait, and spend no retry
  no node       no live node has this submitter
  no worker     no remote worker is alive";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List submitters, with their kinds and state.
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: ApiTarget,
}

const COLUMNS: &[Column] = &[
    Column { head: "NAME", of: |submitter| Cell::text(submitter.get("name")) },
    Column { head: "STATE", of: |submitter| Cell::state(submitter.get("state")) },
    Column { head: "KINDS", of: |submitter| Cell::text(submitter.get("kinds")) },
    Column { head: "TARGET", of: |submitter| Cell::text(submitter.get("target")) },
    Column { head: "NODE", of: |submitter| Cell::text(submitter.get("node")) },
    Column { head: "IN FLIGHT", of: in_flight },
    Column { head: "ACCEPTED", of: |submitter| Cell::text(submitter.get("accepted")) },
    Column { head: "RETRY", of: retry },
    Column { head: "DETAIL", of: |submitter| Cell::text(submitter.get("detail")) },
];

fn in_flight(submitter: &Json) -> Cell {
    let number = |name: &str| submitter.get(name).and_then(Value::as_u64).unwrap_or(0);
    Cell::Text(format!("{}/{}", number("in_flight"), number("capacity")))
}

fn retry(submitter: &Json) -> Cell {
    let ms = submitter.get("retry_in_ms").and_then(Value::as_i64);
    ms.map_or(Cell::Nothing, |ms| Cell::Text(format!("in {}", approx_duration(ms.saturating_mul(1_000)))))
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let Command::List(List { target }) = self;
        with_api(&target, async |api| {
            let all = api.get("submitters").await?;
            match target.json {
                true => print_json(&all)?,
                false => print_table(COLUMNS, &items(&all), &OutputStyle::detect())?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
