//! `lineclear status`: the state of the cluster on one screen; and `lineclear` alone: a summary.

mod summary;

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::api_client::{ApiTarget, Json};
use crate::api_command::with_api;
use crate::display::{Cell, Column, OutputStyle, doctor_check, print_fields, print_table};
use crate::failure::Failure;
use crate::output::{approx_duration, print, print_json};

pub(crate) use summary::print_summary;

const EXAMPLES: &str = "Examples:
  lineclear status
  lineclear status --server https://scheduler.internal
  lineclear status --db postgres://scheduler@db.internal/app
  lineclear status --json | jq .problems

Exits with 0 if healthy, 10 if not: the database cannot be written, no node is alive, or no node takes waiting jobs or plans manifests.
`lineclear doctor` checks more.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    #[command(flatten)]
    target: ApiTarget,
}

impl Status {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        with_api(&self.target, async |api| {
            let status = api.get("/status").await?;
            if self.target.json {
                print_json(&status)?;
            } else {
                show(&status, &OutputStyle::detect())?;
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
    Column { head: "database", of: |s| Cell::Text(database(s).to_owned()) },
    Column { head: "leader", of: leader },
    Column { head: "nodes", of: |s| Cell::Text(nodes(s)) },
    Column { head: "jobs", of: |s| Cell::Text(jobs(s)) },
    Column { head: "dead letters", of: |s| Cell::Text(count(s.get("dead_letters"))) },
    Column { head: "late manifests", of: |s| Cell::Text(count(s.get("late_manifests"))) },
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

fn show(status: &Json, style: &OutputStyle) -> Result<(), Failure> {
    print_fields(FIELDS, status, style)?;
    let problems = status.get("problems").and_then(Value::as_array).cloned().unwrap_or_default();
    if !style.is_terminal {
        return print(
            &problems
                .iter()
                .map(|problem| format!("problem\t{}", doctor_check::render_tsv(problem)))
                .collect::<String>(),
        );
    }
    if !problems.is_empty() {
        print(&format!(
            "\n{}",
            problems.iter().map(|problem| doctor_check::render(problem, style)).collect::<String>()
        ))?;
    }
    let nodes = status.entries("nodes");
    if !nodes.is_empty() {
        print("\n")?;
        print_table(NODES, &nodes, style)?;
    }
    Ok(())
}

fn leader(status: &Json) -> Cell {
    let Some(leader) = status.get("leader").filter(|leader| leader.is_object()) else {
        return Cell::Text("none yet".to_owned());
    };
    let name = leader.get("node").and_then(Value::as_str).unwrap_or_default();
    let moment = |value: Option<&Value>| value.and_then(Value::as_str)?.parse::<jiff::Timestamp>().ok();
    let now = moment(status.get("at"));
    let elapsed = |name: &str| -> Option<String> {
        Some(approx_duration((now?.as_microsecond() - moment(leader.get(name))?.as_microsecond()).max(0)))
    };
    Cell::Text(match leader.get("live").and_then(Value::as_bool) {
        Some(true) => format!("{name}, for {}", elapsed("since").unwrap_or_default()),
        _ => format!("none; {name} until {} ago", elapsed("renewed_at").unwrap_or_default()),
    })
}

fn database(status: &Value) -> &str {
    let message = status.get("database").and_then(|database| database.get("message")).and_then(Value::as_str);
    message.unwrap_or("unknown").trim_start_matches("the database ")
}

fn nodes(status: &Value) -> String {
    let number = |name: &str| status.get(name).and_then(Value::as_u64).unwrap_or(0);
    let workers = match number("workers") {
        0 => String::new(),
        1 => format!("; and 1 remote worker with {} slots", number("worker_slots")),
        workers => format!("; and {workers} remote workers with {} slots", number("worker_slots")),
    };
    format!("{} alive, {} silent; {} slots{workers}", number("alive"), number("silent"), number("slots"))
}

fn jobs(status: &Value) -> String {
    let of = |name: &str| count(status.get(name));
    let mut text = format!("{} waiting, {} of them due; {} running", of("waiting"), of("due"), of("running"));
    if let Some(ms) = status.get("oldest_waiting_ms").and_then(Value::as_i64) {
        text.push_str(&format!("; the first has been due for {}", approx_duration(ms.saturating_mul(1_000))));
    }
    text
}

/// A count; `+` if counting stopped early.
fn count(value: Option<&Value>) -> String {
    let count = value.and_then(|value| value.get("count")).and_then(Value::as_u64).unwrap_or(0);
    let more = value.and_then(|value| value.get("at_least")).and_then(Value::as_bool) == Some(true);
    if more { format!("{count}+") } else { count.to_string() }
}
