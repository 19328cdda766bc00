//! `lineclear group`: the limit, priority and pause switch that manifests and jobs share.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget, Json};
use crate::api_command::{ListArgs, print_answer, print_one, with_resource};
use crate::display::{Cell, Column};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  lineclear group list
  lineclear group set etl --limit 4
  lineclear group set '*' --limit 50            (all groups together)
  lineclear group pause etl
  lineclear group run etl";

const SET_EXAMPLES: &str = "Examples:
  lineclear group set etl --limit 4 --priority 10
  lineclear group set etl --limit none
  lineclear group set reports --limit 1 --create
  lineclear group set '*' --limit 50            (all groups together)

The limit is how many jobs of the group workers may hold at once, over all nodes. With 0 no job runs, and ticks still enqueue
jobs that wait.";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List groups and how many of their jobs workers hold.
    #[command(after_help = "Examples:\n  lineclear group list\n  lineclear group list --json")]
    List(ListArgs),
    /// Show one group.
    #[command(after_help = "Examples:\n  lineclear group get etl\n  lineclear group get etl --json")]
    Get(One),
    /// Set the limit or the priority of a group; the other stays as it is.
    #[command(after_help = SET_EXAMPLES)]
    Set(Set),
    /// Pause a group: its manifests enqueue no jobs, and its waiting jobs do not run.
    #[command(after_help = "Examples:\n  lineclear group pause etl")]
    Pause(One),
    /// Resume a group.
    #[command(after_help = "Examples:\n  lineclear group resume etl")]
    Resume(One),
    /// Enqueue a job of each enabled manifest of a group now.
    #[command(after_help = "Examples:\n  lineclear group run etl")]
    Run(One),
}

/// One group.
#[derive(Args)]
pub(crate) struct One {
    /// Name of the group; '*' is the limit of all groups together
    name: String,
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
pub(crate) struct Set {
    #[command(flatten)]
    one: One,
    /// Maximum number of jobs at once, or none
    #[arg(long, value_name = "N", value_parser = limit, required_unless_present = "priority")]
    limit: Option<Limit>,
    /// Priority, 0 to 31; higher runs first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=31))]
    priority: Option<u8>,
    /// Create the group if it does not exist
    #[arg(long)]
    create: bool,
}

/// A limit, or `none`.
#[derive(Clone, Copy)]
struct Limit(Option<u32>);

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => {
            text.parse().map(|limit| Limit(Some(limit))).map_err(|_| "expected a number or none".to_owned())
        }
    }
}

fn state(group: &Json) -> Cell {
    let enabled = group.get("enabled").and_then(Value::as_bool) != Some(false);
    Cell::State(if enabled { "enabled" } else { "paused" }.to_owned())
}

const COLUMNS: &[Column] = &[
    Column { head: "NAME", of: |group| Cell::text(group.get("name")) },
    Column { head: "STATE", of: state },
    Column { head: "ACTIVE", of: |group| Cell::text(group.get("active")) },
    Column { head: "LIMIT", of: |group| Cell::text(group.get("limit")) },
    Column { head: "PRIORITY", of: |group| Cell::text(group.get("priority")) },
];

const DETAILS: &[Column] = &[
    Column { head: "name", of: |group| Cell::text(group.get("name")) },
    Column { head: "state", of: state },
    Column { head: "active", of: |group| Cell::text(group.get("active")) },
    Column { head: "limit", of: |group| Cell::text(group.get("limit")) },
    Column { head: "priority", of: |group| Cell::text(group.get("priority")) },
];

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(list) => list.run(
                "groups",
                COLUMNS,
                "no groups; `lineclear group set NAME --create` or a manifest file creates them",
            ),
            Command::Get(one) => {
                one.with(async |api, target, path| print_one(target, &api.get(path).await?, DETAILS))
            }
            Command::Set(set) => set.run(),
            Command::Pause(one) => one.set_enabled(false),
            Command::Resume(one) => one.set_enabled(true),
            Command::Run(one) => {
                let name = one.name.clone();
                one.with(async |api, target, path| {
                    let made = api.post(&format!("{path}/run"), json!({})).await?;
                    print_answer(target, &made, &enqueued_lines(&name, &made))
                })
            }
        }
    }
}

/// The enqueued jobs, a line each.
fn enqueued_lines(name: &str, made: &Value) -> String {
    let text = |job: &Value, name: &str| job.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let jobs = made.get("jobs").and_then(Value::as_array).into_iter().flatten();
    let lines: Vec<String> =
        jobs.map(|job| format!("job {} of {}", text(job, "id"), text(job, "manifest"))).collect();
    match lines.is_empty() {
        true => format!("no manifest of {name} is enabled; no job was enqueued"),
        false => lines.join("\n"),
    }
}

impl Set {
    fn run(self) -> Result<ExitCode, Failure> {
        let Set { one, limit, priority, create } = self;
        let mut changes = serde_json::Map::new();
        if let Some(Limit(limit)) = limit {
            changes.insert("limit".to_owned(), json!(limit));
        }
        if let Some(priority) = priority {
            changes.insert("priority".to_owned(), json!(priority));
        }
        one.with(async |api, target, path| {
            let body = Value::Object(changes);
            let mut response = api.send("PATCH", path, Some(body.clone())).await?;
            if response.status == 404 && create {
                response = api.send("PUT", path, Some(body)).await?;
            }
            match response.status {
                404 if !create => Err(response.failure().hint("--create creates it")),
                _ => {
                    response.json()?;
                    print_group(api, target, path).await
                }
            }
        })
    }
}

/// Prints the group as it is now.
async fn print_group(api: &ApiClient, target: &ApiTarget, path: &str) -> Result<ExitCode, Failure> {
    let group = api.get(path).await?;
    let number = |name: &str| group.get(name).and_then(Value::as_u64).map(|number| number.to_string());
    let sentence = format!(
        "{}: limit {}, priority {}{}",
        group.get("name").and_then(Value::as_str).unwrap_or_default(),
        number("limit").as_deref().unwrap_or("none"),
        number("priority").as_deref().unwrap_or("0"),
        if group.get("enabled").and_then(Value::as_bool) == Some(false) { ", paused" } else { "" }
    );
    print_answer(target, &group, &sentence)
}

impl One {
    fn with(
        self,
        run: impl AsyncFnOnce(&ApiClient, &ApiTarget, &str) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        with_resource(&self.target, ("groups", Some("name")), &self.name, run)
    }

    fn set_enabled(self, enabled: bool) -> Result<ExitCode, Failure> {
        let name = self.name.clone();
        self.with(async |api, target, path| {
            api.request("PATCH", path, Some(json!({"enabled": enabled}))).await?;
            let group = if target.json { api.get(path).await? } else { Json::default() };
            print_answer(target, &group, &format!("{name} {}", if enabled { "resumed" } else { "paused" }))
        })
    }
}
