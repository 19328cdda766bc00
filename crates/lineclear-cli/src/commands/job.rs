//! `lineclear job`: jobs that wait, run or have ended.

mod enqueue;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget, Json};
use crate::api_command::{
    PageArgs, print_answer, print_explanation, print_list, print_one, read_json_arg, with_api,
    with_raw_field, with_resource,
};
use crate::display::{Cell, Column};
use crate::failure::Failure;

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
  lineclear job list --db lineclear.db          (without a server)

Filters of -q are state, kind, group, manifest, node, tag, since and more; a leading - excludes. See docs/search.md.";

const RETRY_EXAMPLES: &str = "Examples:
  lineclear job retry 42
  lineclear job retry 42 --input '{\"to\": \"ops\"}' --note 'the address was wrong'";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List jobs, newest first.
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show one job.
    #[command(after_help = "Examples:\n  lineclear job get 42\n  lineclear job get 42 --json")]
    Get(One),
    /// Enqueue a job.
    Enqueue(enqueue::Enqueue),
    /// Watch a job to its end: its states and its log.
    Watch(watch::Watch),
    /// Print the log of a job.
    #[command(after_help = "Examples:\n  lineclear job logs 42")]
    Logs(One),
    /// Explain why a job does not run, gate by gate, or how it ended.
    #[command(after_help = "Examples:\n  lineclear job explain 42")]
    Explain(One),
    /// Retry a job: revive a dead letter, retry a waiting one now, or enqueue a finished one again as a new job.
    Retry(Retry),
    /// Cancel a job; a running one is asked to stop.
    #[command(after_help = "Examples:\n  lineclear job cancel 42")]
    Cancel(One),
}

#[derive(Args)]
pub(crate) struct List {
    /// Filter, such as 'state:failed kind:import since:24h'
    #[arg(short, long = "query", value_name = "QUERY")]
    query: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    target: ApiTarget,
}

/// One job.
#[derive(Args)]
pub(crate) struct One {
    /// Id of the job
    id: String,
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
#[command(after_help = RETRY_EXAMPLES)]
pub(crate) struct Retry {
    #[command(flatten)]
    job: One,
    /// New input as JSON, for a dead letter or a finished job; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Note, recorded with a dead letter
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl Retry {
    fn run(self) -> Result<ExitCode, Failure> {
        let input = self.input.as_deref().map(|text| read_json_arg("--input", text)).transpose()?;
        let mut body = json!({});
        if let Some(note) = self.note {
            body["note"] = note.into();
        }
        let body = with_raw_field(&body, "input", input.as_deref());
        self.job.with(async |api, target, path| {
            let made = api.post_text(&format!("{path}/retry"), body).await?;
            let id = made.get("id").and_then(Value::as_str).unwrap_or_default();
            let sentence = format!("retrying as job {id}; follow it with: lineclear job watch {id}");
            print_answer(target, &made, &sentence)
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
    Column { head: "created", of: |job| Cell::time(job.get("created_at")) },
    Column { head: "due", of: due },
    Column { head: "ended", of: |job| Cell::time(job.get("finished_at")) },
    Column { head: "claims", of: |job| Cell::text(job.get("claim_no")) },
    Column { head: "failures", of: |job| Cell::text(job.get("failures")) },
    Column { head: "node", of: |job| Cell::text(job.get("node")) },
    Column { head: "holder", of: |job| Cell::text(job.get("holder")) },
    Column { head: "external id", of: |job| Cell::text(job.get("external_id")) },
    Column { head: "input", of: |job| Cell::raw_json(job.field("input")) },
    Column { head: "output", of: output },
    Column { head: "error", of: |job| Cell::text(job.get("last_error")) },
];

/// When it may run. Of a dead job, `due_at` is when it died.
fn due(job: &Json) -> Cell {
    match job.get("state").and_then(Value::as_str) {
        Some("dead") => Cell::Nothing,
        _ => Cell::time(job.get("due_at")),
    }
}

/// The output of its final execution.
fn output(job: &Json) -> Cell {
    let is_final = |one: &Json| one.get("is_final").and_then(Value::as_bool) == Some(true);
    Cell::raw_json(
        job.entries("executions").into_iter().rfind(is_final).and_then(|last| last.field("output")),
    )
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(list) => with_api(&list.target, async |api| {
                let query = [("q", list.query.clone())];
                let empty = "no jobs; `lineclear job enqueue KIND` enqueues one";
                print_list(api, &list.target, ("jobs", &query), &list.page, COLUMNS, empty).await
            }),
            Command::Get(one) => {
                one.with(async |api, target, path| print_one(target, &api.get(path).await?, DETAILS))
            }
            Command::Enqueue(enqueue) => enqueue.run(),
            Command::Watch(watch) => watch.run(),
            Command::Logs(one) => one.with(async |api, target, path| watch::logs(api, target, path).await),
            Command::Explain(one) => one.with(async |api, target, path| {
                print_explanation(target, &api.get(&format!("{path}/explain")).await?)
            }),
            Command::Retry(retry) => retry.run(),
            Command::Cancel(one) => one.with(async |api, target, path| {
                let answer = api.post(&format!("{path}/cancel"), Value::Null).await?;
                let became = answer.as_object().and_then(|object| object.values().find_map(Value::as_str));
                print_answer(target, &answer, became.unwrap_or("cancelled"))
            }),
        }
    }
}

impl One {
    fn with(
        self,
        run: impl AsyncFnOnce(&ApiClient, &ApiTarget, &str) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        with_resource(&self.target, ("jobs", None), &self.id, run)
    }
}
