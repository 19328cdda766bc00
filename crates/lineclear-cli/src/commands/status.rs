//! `lineclear status`: one screen; and `lineclear` alone: the same in short, with what to do next.

mod short;

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::ask::asking;
use crate::api::{At, Json};
use crate::failure::Failure;
use crate::output::{print, print_json, roughly};
use crate::show::{Cell, Column, Look, check, fields, list};

pub(crate) use short::bare;

const EXAMPLES: &str = "Examples:
  lineclear status
  lineclear status --server http://scheduler.internal:7171
  lineclear status --db postgres://scheduler@db.internal/app
  lineclear status --json | jq .problems

Ends with 0 if all is well, 10 if it is not: no node alive, or work or manifests that nobody takes. `lineclear doctor` looks closer.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    #[command(flatten)]
    at: At,
}

impl Status {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        asking(&self.at, async |api| {
            let status = api.get("/status").await?;
            if self.at.json {
                print_json(&status)?;
            } else {
                show(&status, &Look::here())?;
            }
            Ok(exit_code(&status))
        })
    }
}

fn exit_code(status: &Value) -> ExitCode {
    if is_healthy(status) { ExitCode::SUCCESS } else { ExitCode::from(10) }
}

fn is_healthy(status: &Value) -> bool {
    status.get("healthy").and_then(Value::as_bool) == Some(true)
}

const FIELDS: &[Column] = &[
    Column {
        head: "status",
        of: |s| Cell::State(if is_healthy(s) { "healthy" } else { "degraded" }.to_owned()),
    },
    Column { head: "leader", of: leader },
    Column { head: "nodes", of: |s| Cell::Text(nodes(s)) },
    Column { head: "jobs", of: |s| Cell::Text(jobs(s)) },
    Column { head: "dead letters", of: |s| Cell::Text(figure(s.get("dead_letters"))) },
    Column { head: "late manifests", of: |s| Cell::Text(figure(s.get("late_manifests"))) },
];

const NODES: &[Column] = &[
    Column { head: "NODE", of: |n| Cell::text(n.get("name")) },
    Column { head: "STATE", of: |n| Cell::state(n.get("state")) },
    Column { head: "SEEN", of: |n| Cell::time(n.get("seen_at")) },
    Column { head: "SLOTS", of: |n| Cell::text(n.get("slots")) },
    Column { head: "HOST", of: |n| Cell::text(n.get("host")) },
    Column { head: "VERSION", of: |n| Cell::text(n.get("version")) },
    Column { head: "ROLES", of: |n| Cell::text(n.get("roles")) },
];

fn show(status: &Json, look: &Look) -> Result<(), Failure> {
    fields(FIELDS, status, look)?;
    let problems = status.get("problems").and_then(Value::as_array).cloned().unwrap_or_default();
    if !look.is_terminal {
        return print(
            &problems
                .iter()
                .map(|problem| format!("problem\t{}", check::tabbed(problem)))
                .collect::<String>(),
        );
    }
    if !problems.is_empty() {
        print(&format!(
            "\n{}",
            problems.iter().map(|problem| check::check(problem, look)).collect::<String>()
        ))?;
    }
    let nodes = status.entries("nodes");
    if !nodes.is_empty() {
        print("\n")?;
        list(NODES, &nodes, look)?;
    }
    Ok(())
}

fn leader(status: &Json) -> Cell {
    let Some(leader) = status.get("leader").filter(|leader| leader.is_object()) else {
        return Cell::Text("nobody yet".to_owned());
    };
    let name = leader.get("node").and_then(Value::as_str).unwrap_or_default();
    let moment = |value: Option<&Value>| value.and_then(Value::as_str)?.parse::<jiff::Timestamp>().ok();
    let now = moment(status.get("at"));
    let for_long = |name: &str| -> Option<String> {
        Some(roughly((now?.as_microsecond() - moment(leader.get(name))?.as_microsecond()).max(0)))
    };
    Cell::Text(match leader.get("live").and_then(Value::as_bool) {
        Some(true) => format!("{name}, for {}", for_long("since").unwrap_or_default()),
        _ => format!("nobody now; {name} until {} ago", for_long("renewed_at").unwrap_or_default()),
    })
}

fn nodes(status: &Value) -> String {
    let number = |name: &str| status.get(name).and_then(Value::as_u64).unwrap_or(0);
    format!("{} alive, {} silent; {} slots", number("alive"), number("silent"), number("slots"))
}

fn jobs(status: &Value) -> String {
    let of = |name: &str| figure(status.get(name));
    let mut text = format!("{} waiting, {} of them due; {} running", of("waiting"), of("due"), of("running"));
    if let Some(ms) = status.get("oldest_waiting_ms").and_then(Value::as_i64) {
        text.push_str(&format!("; the first in line is due for {}", roughly(ms.saturating_mul(1_000))));
    }
    text
}

/// A count that stops somewhere.
fn figure(figure: Option<&Value>) -> String {
    let count = figure.and_then(|figure| figure.get("count")).and_then(Value::as_u64).unwrap_or(0);
    let more = figure.and_then(|figure| figure.get("at_least")).and_then(Value::as_bool) == Some(true);
    if more { format!("{count}+") } else { count.to_string() }
}
