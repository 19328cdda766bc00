//! `lineclear dead`: jobs that need a person.

mod export;
mod resolve;
mod which;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::ask::{Much, asking, only, show_list};
use crate::api::{At, query};
use crate::failure::{Failure, say};
use crate::output::{print, print_json};
use crate::show::{Cell, Column, Look, list};
use which::Which;

const EXAMPLES: &str = "Examples:
  lineclear dead families
  lineclear dead list --kind mail.send
  lineclear dead revive 7
  lineclear dead revive --fingerprint 073ad897b6dbd5d3
  lineclear dead acknowledge --all --note 'the old importer' --yes";

const LIST_EXAMPLES: &str = "Examples:
  lineclear dead list
  lineclear dead list --kind import --status any --all
  lineclear dead list --fingerprint 073ad897b6dbd5d3 --json";

const FAMILIES_EXAMPLES: &str = "Examples:
  lineclear dead families
  lineclear dead families --manifest nightly --json

Those of one kind that died for the same reason of errors that differ in numbers and names only are one family: one cause, most likely.
Bring all of them back with: lineclear dead revive --fingerprint FINGERPRINT --kind KIND";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Lists dead letters, the newest first.
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Counts dead letters that await a person, by what they died of.
    #[command(after_help = FAMILIES_EXAMPLES)]
    Families(Families),
    /// Brings dead letters back: their jobs wait again, with no failures counted.
    Revive(resolve::Revive),
    /// Lets dead letters rest.
    #[command(visible_alias = "ack")]
    Acknowledge(resolve::Acknowledge),
    /// Prints all that match as JSON, a line each.
    Export(export::Export),
}

#[derive(Args)]
pub(crate) struct List {
    /// awaiting, revived, acknowledged, or any
    #[arg(long, value_name = "STATUS", default_value = AWAITING)]
    status: String,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    much: Much,
    #[command(flatten)]
    at: At,
}

const AWAITING: &str = "awaiting";

#[derive(Args)]
pub(crate) struct Families {
    #[command(flatten)]
    which: Which,
    /// Families at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    at: At,
}

/// What a request says about the status.
fn status(asked: &str) -> (&'static str, Option<String>) {
    ("status", (asked != "any").then(|| asked.to_owned()))
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
            Command::List(all) => asking(&all.at, async |api| {
                let mut asked = all.which.asked();
                asked.push(status(&all.status));
                let none = match all.status.as_str() {
                    AWAITING => "no dead letters await anybody",
                    _ => "no dead letters",
                };
                show_list(api, &all.at, ("dead-letters", &asked), &all.much, COLUMNS, none).await
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
        asking(&self.at, async |api| {
            let mut asked = self.which.asked();
            asked.push(("limit", Some(self.limit.to_string())));
            let answer = api.get(&format!("dead-letters/families{}", query(&asked))).await?;
            if self.at.json {
                print_json(&answer)?;
                return Ok(ExitCode::SUCCESS);
            }
            let (rows, look) = (only(&answer), Look::here());
            if rows.is_empty() && look.is_terminal {
                print("no dead letters await anybody\n")?;
                return Ok(ExitCode::SUCCESS);
            }
            list(FAMILY, &rows, &look)?;
            if answer.get("exact").and_then(serde_json::Value::as_bool) == Some(false) {
                say("there are more: only the newest 100000 were looked at\n");
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
