//! `lineclear group`: the limit, priority and switch that manifests and jobs share.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ask::{All, asking_about, say_or_json, show_one};
use crate::api::{Api, At, Json};
use crate::failure::Failure;
use crate::show::{Cell, Column};

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

A limit is how many jobs of the group may be in the hands of workers at once, on all nodes together. 0 hands over nothing, and ticks
still become jobs that wait.";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Lists groups, and how many of their jobs are in the hands of workers.
    #[command(after_help = "Examples:\n  lineclear group list\n  lineclear group list --json")]
    List(All),
    /// Shows one group.
    #[command(after_help = "Examples:\n  lineclear group get etl\n  lineclear group get etl --json")]
    Get(One),
    /// Sets the limit or the priority of a group; what is not said stays.
    #[command(after_help = SET_EXAMPLES)]
    Set(Set),
    /// Pauses a group: its manifests make no jobs, and its waiting jobs step aside.
    #[command(after_help = "Examples:\n  lineclear group pause etl")]
    Pause(One),
    /// Resumes a group.
    #[command(after_help = "Examples:\n  lineclear group resume etl")]
    Resume(One),
    /// Makes a job of each enabled manifest of a group now.
    #[command(after_help = "Examples:\n  lineclear group run etl")]
    Run(One),
}

/// One group.
#[derive(Args)]
pub(crate) struct One {
    /// The group's name; '*' is everybody's
    name: String,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Set {
    #[command(flatten)]
    one: One,
    /// How many jobs at once, or none
    #[arg(long, value_name = "N", value_parser = limit, required_unless_present = "priority")]
    limit: Option<Limit>,
    /// Higher comes first: 0 to 31
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=31))]
    priority: Option<u8>,
    /// Makes the group if there is none
    #[arg(long)]
    create: bool,
}

/// A limit, or that there is none.
#[derive(Clone, Copy)]
struct Limit(Option<u32>);

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => text.parse().map(|limit| Limit(Some(limit))).map_err(|_| "a number, or none".to_owned()),
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
            Command::List(all) => all.show(
                "groups",
                COLUMNS,
                "no groups; `lineclear group set NAME --create` or a file of manifests makes them",
            ),
            Command::Get(one) => one.ask(async |api, at, path| show_one(at, &api.get(path).await?, DETAILS)),
            Command::Set(set) => set.run(),
            Command::Pause(one) => one.switch(false),
            Command::Resume(one) => one.switch(true),
            Command::Run(one) => {
                let name = one.name.clone();
                one.ask(async |api, at, path| {
                    let made = api.post(&format!("{path}/run"), json!({})).await?;
                    say_or_json(at, &made, &ran(&name, &made))
                })
            }
        }
    }
}

/// Each job that was made, a line each.
fn ran(name: &str, made: &Value) -> String {
    let text = |job: &Value, name: &str| job.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let jobs = made.get("jobs").and_then(Value::as_array).into_iter().flatten();
    let lines: Vec<String> =
        jobs.map(|job| format!("job {} of {}", text(job, "id"), text(job, "manifest"))).collect();
    match lines.is_empty() {
        true => format!("no manifest of {name} is enabled; nothing was made"),
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
        one.ask(async |api, at, path| {
            let body = Value::Object(changes);
            let mut answer = api.ask_anyway("PATCH", path, Some(body.clone())).await?;
            if answer.status == 404 && create {
                answer = api.ask_anyway("PUT", path, Some(body)).await?;
            }
            match answer.status {
                404 if !create => Err(answer.failure().hint("--create makes it")),
                _ => {
                    answer.json()?;
                    shown(api, at, path).await
                }
            }
        })
    }
}

/// The group as it is now.
async fn shown(api: &Api, at: &At, path: &str) -> Result<ExitCode, Failure> {
    let group = api.get(path).await?;
    let number = |name: &str| group.get(name).and_then(Value::as_u64).map(|number| number.to_string());
    let sentence = format!(
        "{}: limit {}, priority {}{}",
        group.get("name").and_then(Value::as_str).unwrap_or_default(),
        number("limit").as_deref().unwrap_or("none"),
        number("priority").as_deref().unwrap_or("0"),
        if group.get("enabled").and_then(Value::as_bool) == Some(false) { ", paused" } else { "" }
    );
    say_or_json(at, &group, &sentence)
}

impl One {
    fn ask(
        self,
        what: impl AsyncFnOnce(&Api, &At, &str) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        asking_about(&self.at, ("groups", Some("name")), &self.name, what)
    }

    fn switch(self, enabled: bool) -> Result<ExitCode, Failure> {
        let name = self.name.clone();
        self.ask(async |api, at, path| {
            api.ask("PATCH", path, Some(json!({"enabled": enabled}))).await?;
            let group = if at.json { api.get(path).await? } else { Json::default() };
            say_or_json(at, &group, &format!("{name} {}", if enabled { "resumed" } else { "paused" }))
        })
    }
}
