//! `lineclear job`: what waits, runs and has ended.

mod enqueue;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ask::{
    Much, asking, asking_about, explained, json_of, say_or_json, show_list, show_one, with_json,
};
use crate::api::{Api, At, Json};
use crate::failure::Failure;
use crate::show::{Cell, Column};

const EXAMPLES: &str = "Examples:
  lineclear job list -q 'state:dead since:24h'
  lineclear job enqueue command --input '{\"argv\": [\"/bin/date\"]}' --wait
  lineclear job explain 42
  lineclear job logs 42
  lineclear job retry 42";

const LIST_EXAMPLES: &str = "Examples:
  lineclear job list
  lineclear job list -q 'state:failed group:etl since:24h'
  lineclear job list -q 'kind:import -tag:slow' --all --json
  lineclear job list --db lineclear.db          (when no server is up)

The words of -q are in docs/search.md: state, kind, group, manifest, node, tag, since, and more; -WORD leaves out.";

const RETRY_EXAMPLES: &str = "Examples:
  lineclear job retry 42
  lineclear job retry 42 --input '{\"to\": \"ops\"}' --note 'the address was wrong'";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Lists jobs, the newest first.
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Shows one job.
    #[command(after_help = "Examples:\n  lineclear job get 42\n  lineclear job get 42 --json")]
    Get(One),
    /// Enqueues a job.
    Enqueue(enqueue::Enqueue),
    /// Follows a job to its end: its states, and what it logs.
    Watch(watch::Watch),
    /// Prints what a job logged.
    #[command(after_help = "Examples:\n  lineclear job logs 42")]
    Logs(One),
    /// Says why a job does not run, gate by gate, or how it ended.
    #[command(after_help = "Examples:\n  lineclear job explain 42")]
    Explain(One),
    /// Runs a job once more: a dead letter is revived, one that waits for its next try is due now, and one that is over runs again as a new job.
    Retry(Retry),
    /// Ends a job that waits, and asks one that runs to end.
    #[command(after_help = "Examples:\n  lineclear job cancel 42")]
    Cancel(One),
}

#[derive(Args)]
pub(crate) struct List {
    /// Which jobs, such as 'state:failed kind:import since:24h'
    #[arg(short, long = "query", value_name = "QUERY")]
    query: Option<String>,
    #[command(flatten)]
    much: Much,
    #[command(flatten)]
    at: At,
}

/// One job.
#[derive(Args)]
pub(crate) struct One {
    /// The job's id
    id: String,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
#[command(after_help = RETRY_EXAMPLES)]
pub(crate) struct Retry {
    #[command(flatten)]
    job: One,
    /// Another input, for a dead letter or a job that is over: JSON; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Why; kept with it if it was a dead letter
    #[arg(long, value_name = "WHY")]
    note: Option<String>,
}

impl Retry {
    fn run(self) -> Result<ExitCode, Failure> {
        let input = self.input.as_deref().map(|text| json_of("--input", text)).transpose()?;
        let mut body = json!({});
        if let Some(note) = self.note {
            body["note"] = note.into();
        }
        let body = with_json(&body, "input", input.as_deref());
        self.job.ask(async |api, at, path| {
            let made = api.post_text(&format!("{path}/retry"), body).await?;
            let id = made.get("id").and_then(Value::as_str).unwrap_or_default();
            let said = format!("job {id} is the next try; follow it with: lineclear job watch {id}");
            say_or_json(at, &made, &said)
        })
    }
}

pub(super) const COLUMNS: &[Column] = &[
    Column { head: "ID", of: |job| Cell::text(job.get("id")) },
    Column { head: "STATE", of: |job| Cell::state(job.get("state")) },
    Column { head: "KIND", of: |job| Cell::text(job.get("kind")) },
    Column { head: "MANIFEST", of: |job| Cell::text(job.get("manifest")) },
    Column { head: "DUE", of: due },
    Column { head: "ENDED", of: |job| Cell::time(job.get("finished_at")) },
    Column { head: "FAILURES", of: |job| Cell::text(job.get("failures")) },
    Column { head: "ERROR", of: |job| Cell::text(job.get("last_error")) },
];

const DETAILS: &[Column] = &[
    Column { head: "id", of: |job| Cell::text(job.get("id")) },
    Column { head: "state", of: |job| Cell::state(job.get("state")) },
    Column { head: "phase", of: |job| Cell::text(job.get("phase")) },
    Column { head: "kind", of: |job| Cell::text(job.get("kind")) },
    Column { head: "manifest", of: |job| Cell::text(job.get("manifest")) },
    Column { head: "tick", of: |job| Cell::time(job.get("tick_at")) },
    Column { head: "group", of: |job| Cell::text(job.get("group")) },
    Column { head: "route", of: |job| Cell::text(job.get("route")) },
    Column { head: "origin", of: |job| Cell::text(job.get("origin")) },
    Column { head: "made", of: |job| Cell::time(job.get("created_at")) },
    Column { head: "due", of: due },
    Column { head: "ended", of: |job| Cell::time(job.get("finished_at")) },
    Column { head: "claims", of: |job| Cell::text(job.get("claim_no")) },
    Column { head: "failures", of: |job| Cell::text(job.get("failures")) },
    Column { head: "node", of: |job| Cell::text(job.get("node")) },
    Column { head: "input", of: |job| Cell::written(job.field("input")) },
    Column { head: "output", of: output },
    Column { head: "error", of: |job| Cell::text(job.get("last_error")) },
];

/// When it may run. One that is dead is not due any more: what stands there is when it died.
fn due(job: &Json) -> Cell {
    match job.get("state").and_then(Value::as_str) {
        Some("dead") => Cell::Nothing,
        _ => Cell::time(job.get("due_at")),
    }
}

/// What the last of its claims left behind.
fn output(job: &Json) -> Cell {
    let is_final = |one: &Json| one.get("is_final").and_then(Value::as_bool) == Some(true);
    Cell::written(job.entries("executions").into_iter().rfind(is_final).and_then(|last| last.field("output")))
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(all) => asking(&all.at, async |api| {
                let asked = [("q", all.query.clone())];
                let none = "no jobs; `lineclear job enqueue KIND` makes one";
                show_list(api, &all.at, ("jobs", &asked), &all.much, COLUMNS, none).await
            }),
            Command::Get(one) => one.ask(async |api, at, path| show_one(at, &api.get(path).await?, DETAILS)),
            Command::Enqueue(enqueue) => enqueue.run(),
            Command::Watch(watch) => watch.run(),
            Command::Logs(one) => one.ask(async |api, at, path| watch::logs(api, at, path).await),
            Command::Explain(one) => {
                one.ask(async |api, at, path| explained(at, &api.get(&format!("{path}/explain")).await?))
            }
            Command::Retry(retry) => retry.run(),
            Command::Cancel(one) => one.ask(async |api, at, path| {
                let answer = api.post(&format!("{path}/cancel"), Value::Null).await?;
                let became = answer.as_object().and_then(|object| object.values().find_map(Value::as_str));
                say_or_json(at, &answer, became.unwrap_or("cancelled"))
            }),
        }
    }
}

impl One {
    fn ask(
        self,
        what: impl AsyncFnOnce(&Api, &At, &str) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        asking_about(&self.at, ("jobs", None), &self.id, what)
    }
}
