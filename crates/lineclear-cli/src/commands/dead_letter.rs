//! `lineclear dead-letter`: jobs whose retries are used up.

mod export;
mod resolve;
mod filter;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::api_client::{ApiTarget, query_string};
use crate::api_command::{PageArgs, items, print_list, with_api};
use crate::display::{Cell, Column, OutputStyle, print_table};
use crate::failure::Failure;
use crate::output::print_stderr;
use crate::output::{print, print_json};
use filter::DeadLetterFilter;

const EXAMPLES: &str = "Examples:
  lineclear dead-letter families
  lineclear dead-letter list --kind mail.send
  lineclear dead-letter revive 7
  lineclear dead-letter revive --fingerprint 073ad897b6dbd5d3
  lineclear dead-letter acknowledge --all --note 'the old importer' --yes";

const LIST_EXAMPLES: &str = "Examples:
  lineclear dead-letter list
  lineclear dead-letter list --kind import --status any --all
  lineclear dead-letter list --fingerprint 073ad897b6dbd5d3 --json";

const FAMILIES_EXAMPLES: &str = "Examples:
  lineclear dead-letter families
  lineclear dead-letter families --manifest nightly --json

A family is the dead letters of one kind and reason whose errors differ only in numbers and names: most likely they have one cause.
Revive a whole family with: lineclear dead-letter revive --fingerprint FINGERPRINT --kind KIND";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List dead letters, newest first.
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Count awaiting dead letters by error.
    #[command(after_help = FAMILIES_EXAMPLES)]
    Families(Families),
    /// Revive dead letters: queue their jobs again, with the failures reset.
    Revive(resolve::Revive),
    /// Acknowledge dead letters: they stay dead, and no longer await a decision.
    #[command(visible_alias = "ack")]
    Acknowledge(resolve::Acknowledge),
    /// Export dead letters as JSON lines.
    Export(export::Export),
}

#[derive(Args)]
pub(crate) struct List {
    /// awaiting, revived, acknowledged, or any
    #[arg(long, value_name = "STATUS", default_value = AWAITING)]
    status: String,
    #[command(flatten)]
    filter: DeadLetterFilter,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    target: ApiTarget,
}

const AWAITING: &str = "awaiting";

#[derive(Args)]
pub(crate) struct Families {
    #[command(flatten)]
    filter: DeadLetterFilter,
    /// Maximum number of families
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    target: ApiTarget,
}

/// The query parameter for a status.
fn status(wanted: &str) -> (&'static str, Option<String>) {
    ("status", (wanted != "any").then(|| wanted.to_owned()))
}

const COLUMNS: &[Column] = &[
    Column { head: "ID", of: |letter| Cell::text(letter.get("id")) },
    Column { head: "STATUS", of: |letter| Cell::state(letter.get("status")) },
    Column { head: "JOB", of: |letter| Cell::text(letter.get("job_id")) },
    Column { head: "KIND", of: |letter| Cell::text(letter.get("kind")) },
    Column { head: "DIED", of: |letter| Cell::time(letter.get("dead_at")) },
    Column { head: "ERROR", of: |letter| Cell::text(letter.get("last_error")) },
    Column { head: "MANIFEST", of: |letter| Cell::text(letter.get("manifest")) },
    Column { head: "REASON", of: |letter| Cell::text(letter.get("reason")) },
    Column { head: "FINGERPRINT", of: |letter| Cell::text(letter.get("fingerprint")) },
];

const FAMILY: &[Column] = &[
    Column { head: "COUNT", of: |family| Cell::text(family.get("count")) },
    Column { head: "KIND", of: |family| Cell::text(family.get("kind")) },
    Column { head: "FINGERPRINT", of: |family| Cell::text(family.get("fingerprint")) },
    Column { head: "ERROR", of: |family| Cell::text(family.get("last_error")) },
    Column { head: "LAST", of: |family| Cell::time(family.get("last_at")) },
    Column { head: "FIRST", of: |family| Cell::time(family.get("first_at")) },
    Column { head: "REASON", of: |family| Cell::text(family.get("reason")) },
    Column { head: "JOB", of: |family| Cell::text(family.get("job_id")) },
];

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(list) => with_api(&list.target, async |api| {
                let mut query = list.filter.query_pairs();
                query.push(status(&list.status));
                let empty = match list.status.as_str() {
                    AWAITING => "no dead letters await a decision",
                    _ => "no dead letters",
                };
                print_list(api, &list.target, ("dead-letters", &query), &list.page, COLUMNS, empty).await
            }),
            Command::Families(families) => families.run(),
            Command::Revive(revive) => revive.run(),
            Command::Acknowledge(acknowledge) => acknowledge.run(),
            Command::Export(export) => export.run(),
        }
    }
}

impl Families {
    fn run(self) -> Result<ExitCode, Failure> {
        with_api(&self.target, async |api| {
            let mut query = self.filter.query_pairs();
            query.push(("limit", Some(self.limit.to_string())));
            let response = api.get(&format!("dead-letters/families{}", query_string(&query))).await?;
            if self.target.json {
                print_json(&response)?;
                return Ok(ExitCode::SUCCESS);
            }
            let (rows, style) = (items(&response), OutputStyle::detect());
            if rows.is_empty() && style.is_terminal {
                print("no dead letters await a decision\n")?;
                return Ok(ExitCode::SUCCESS);
            }
            print_table(FAMILY, &rows, &style)?;
            if response.get("exact").and_then(serde_json::Value::as_bool) == Some(false) {
                print_stderr("there are more; only the newest 100000 were counted\n");
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
