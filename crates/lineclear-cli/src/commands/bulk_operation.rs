//! `lineclear bulk-operation`: one action on many jobs, in the background.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget, path_segment};
use crate::api_command::{ListArgs, millis, object, print_answer, print_one, with_api, with_resource};
use crate::args::Confirm;
use crate::config::parse_duration;
use crate::display::{Cell, Column, Progress};
use crate::failure::Failure;
use crate::output::print_stderr;

/// How often `watch` polls.
const POLL_EVERY: Duration = Duration::from_millis(300);
/// Exit code: the awaited operation was cancelled.
const CANCELLED: u8 = 9;

const EXAMPLES: &str = "Examples:
  lineclear bulk-operation start cancel -q 'kind:mail.send state:waiting' --dry-run
  lineclear bulk-operation start retry -q 'state:failed since:24h' --wait
  lineclear bulk-operation list
  lineclear bulk-operation cancel 3";

const START_EXAMPLES: &str = "Examples:
  lineclear bulk-operation start cancel -q 'kind:mail.send' --dry-run
  lineclear bulk-operation start retry -q 'state:dead error:timeout' --reason 'the mail server is back'
  lineclear bulk-operation start revive -q 'state:dead kind:mail.send' --canary
  lineclear bulk-operation start revive -q 'state:dead kind:report' --over 10m
  lineclear bulk-operation start acknowledge -q 'manifest:nightly state:dead' --yes --wait

The command counts the jobs and asks for confirmation; without a terminal, --yes is required. A server runs the operation in the
background, and another one continues it if that server stops; with --db it waits for a server. Cancelled before it starts, it changes nothing.";

const WATCH_EXAMPLES: &str = "Examples:
  lineclear bulk-operation watch 3

Exits with 0 when the operation is done, 9 if it was cancelled. Stopping this command does not stop the operation.";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List bulk operations, newest first.
    #[command(
        after_help = "Examples:\n  lineclear bulk-operation list\n  lineclear bulk-operation list --json"
    )]
    List(ListArgs),
    /// Show one bulk operation and its progress.
    #[command(after_help = "Examples:\n  lineclear bulk-operation get 3")]
    Get(One),
    /// Start an action on all jobs that match a query.
    #[command(after_help = START_EXAMPLES)]
    Start(Start),
    /// Watch a bulk operation to its end.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(One),
    /// Cancel a bulk operation that has not finished.
    #[command(after_help = "Examples:\n  lineclear bulk-operation cancel 3")]
    Cancel(One),
}

/// One bulk operation.
#[derive(Args)]
pub(crate) struct One {
    /// Id of the bulk operation
    id: String,
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
pub(crate) struct Start {
    /// cancel, retry, revive or acknowledge
    action: String,
    /// Jobs to act on, such as 'state:failed since:24h'; id:>0 matches all
    #[arg(short, long = "query", value_name = "QUERY")]
    query: String,
    /// Only count the jobs
    #[arg(long)]
    dry_run: bool,
    /// Reason, recorded with the operation
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Run one job first, and the others only if it completes (retry, revive)
    #[arg(long, conflicts_with = "over")]
    canary: bool,
    /// Spread the jobs evenly over this time (retry, revive)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    over: Option<Duration>,
    /// Delay before the operation starts, in which it can be cancelled
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    starts_in: Duration,
    /// Watch the operation to its end
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    target: ApiTarget,
}

const COLUMNS: &[Column] = &[
    Column { head: "ID", of: |operation| Cell::text(operation.get("id")) },
    Column { head: "STATUS", of: |operation| Cell::state(operation.get("status")) },
    Column { head: "ACTION", of: |operation| Cell::text(operation.get("action")) },
    Column { head: "DONE", of: |operation| Cell::text(operation.get("done")) },
    Column { head: "SKIPPED", of: |operation| Cell::text(operation.get("skipped")) },
    Column { head: "TOTAL", of: |operation| Cell::text(operation.get("total")) },
    Column { head: "STARTS", of: |operation| Cell::time(operation.get("starts_at")) },
    Column { head: "QUERY", of: |operation| Cell::text(operation.get("q")) },
    Column { head: "BY", of: |operation| Cell::text(operation.get("created_by")) },
];

const DETAILS: &[Column] = &[
    Column { head: "id", of: |operation| Cell::text(operation.get("id")) },
    Column { head: "status", of: |operation| Cell::state(operation.get("status")) },
    Column { head: "action", of: |operation| Cell::text(operation.get("action")) },
    Column { head: "query", of: |operation| Cell::text(operation.get("q")) },
    Column { head: "mode", of: |operation| Cell::text(operation.get("mode")) },
    Column { head: "over", of: |operation| Cell::text(over(operation).map(Value::from).as_ref()) },
    Column { head: "canary job", of: |operation| Cell::text(operation.get("canary_job_id")) },
    Column { head: "stopped because", of: |operation| Cell::text(operation.get("stopped_because")) },
    Column { head: "total", of: |operation| Cell::text(operation.get("total")) },
    Column { head: "done", of: |operation| Cell::text(operation.get("done")) },
    Column { head: "skipped", of: |operation| Cell::text(operation.get("skipped")) },
    Column { head: "created", of: |operation| Cell::time(operation.get("created_at")) },
    Column { head: "by", of: |operation| Cell::text(operation.get("created_by")) },
    Column { head: "reason", of: |operation| Cell::text(operation.get("reason")) },
    Column { head: "starts", of: |operation| Cell::time(operation.get("starts_at")) },
    Column { head: "finished", of: |operation| Cell::time(operation.get("finished_at")) },
];

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(list) => list.run(
                "bulk-operations",
                COLUMNS,
                "no bulk operations; `lineclear bulk-operation start` starts one",
            ),
            Command::Get(one) => {
                one.with(async |api, target, path| print_one(target, &api.get(path).await?, DETAILS))
            }
            Command::Start(start) => start.run(),
            Command::Watch(one) => one.with(async |api, target, path| watch(api, target, path).await),
            Command::Cancel(one) => {
                let id = one.id.clone();
                one.with(async |api, target, path| {
                    let answer = api.post(&format!("{path}/cancel"), Value::Null).await?;
                    print_answer(
                        target,
                        &answer,
                        &format!("bulk operation {id} cancelled{}", done_so_far(&answer)),
                    )
                })
            }
        }
    }
}

/// The time over which the jobs are spread.
fn over(operation: &Value) -> Option<String> {
    let millis = operation.get("over_ms")?.as_u64()?;
    Some(lineclear_model::duration::format(Duration::from_millis(millis)))
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// `12 jobs`, or `at least 12 jobs`.
fn jobs(count: u64, exact: bool) -> String {
    format!("{}{count} {}", if exact { "" } else { "at least " }, if count == 1 { "job" } else { "jobs" })
}

fn done_so_far(operation: &Value) -> String {
    match number(operation, "done") {
        0 => String::new(),
        done => format!("; {} were processed before", jobs(done, true)),
    }
}

impl Start {
    fn run(self) -> Result<ExitCode, Failure> {
        let Start { action, query, dry_run, reason, canary, over, starts_in, wait, confirm, target } = self;
        let mode = if canary { Some("canary") } else { over.map(|_| "spread") };
        let body = |more: Vec<(&str, Option<Value>)>| {
            let given = vec![
                ("action", Some(json!(action))),
                ("q", Some(json!(query))),
                ("mode", mode.map(Value::from)),
                ("over_ms", over.map(millis)),
            ];
            object([given, more].concat())
        };
        with_api(&target, async |api| {
            let counted = api.post("bulk-operations", body(vec![("dry_run", Some(json!(true)))])).await?;
            let exact = counted.get("exact").and_then(Value::as_bool) == Some(true);
            let count = number(&counted, "count");
            if dry_run {
                let sentence = format!("would {action} {}; dry run, nothing was changed", jobs(count, exact));
                return print_answer(&target, &counted, &sentence);
            }
            confirm.for_many(&format!("{action} {}", jobs(count, exact)))?;
            let more = vec![("reason", reason.map(Value::from)), ("starts_in_ms", Some(millis(starts_in)))];
            let operation = api.post("bulk-operations", body(more)).await?;
            let id = operation.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            let sentence = format!(
                "bulk operation {id}: {} {}; cancel it with: lineclear bulk-operation cancel {id}",
                action,
                jobs(
                    number(&operation, "total"),
                    operation.get("total_is_exact").and_then(Value::as_bool) == Some(true)
                ),
            );
            if wait {
                if !target.json {
                    print_stderr(&format!("{sentence}\n"));
                }
                return watch(api, &target, &format!("bulk-operations/{}", path_segment(&id))).await;
            }
            print_answer(&target, &operation, &sentence)
        })
    }
}

/// Polls an operation until its end.
async fn watch(api: &ApiClient, target: &ApiTarget, path: &str) -> Result<ExitCode, Failure> {
    let mut progress: Option<Progress> = None;
    loop {
        let operation = api.get(path).await?;
        let status = operation.get("status").and_then(Value::as_str).unwrap_or_default();
        let (done, skipped) = (number(&operation, "done"), number(&operation, "skipped"));
        if status == "running" {
            let begin = || Progress::new("processed", number(&operation, "total"), target.json);
            progress.get_or_insert_with(begin).set(done + skipped);
        }
        let code = match status {
            "done" => 0,
            "cancelled" => CANCELLED,
            "" => return Err(Failure::failed("the response is not a bulk operation: it has no status")),
            _ => {
                tokio::time::sleep(POLL_EVERY).await;
                continue;
            }
        };
        drop(progress);
        let skipped = match skipped {
            0 => String::new(),
            some => format!(", {some} skipped: their state had changed"),
        };
        let id = operation.get("id").and_then(Value::as_str).unwrap_or_default();
        let because = match operation.get("stopped_because").and_then(Value::as_str) {
            Some(because) => format!("; stopped because {because}"),
            None => String::new(),
        };
        let sentence =
            format!("bulk operation {id} {status}: {} processed{skipped}{because}", jobs(done, true));
        print_answer(target, &operation, &sentence)?;
        return Ok(ExitCode::from(code));
    }
}

impl One {
    fn with(
        self,
        run: impl AsyncFnOnce(&ApiClient, &ApiTarget, &str) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        with_resource(&self.target, ("bulk-operations", None), &self.id, run)
    }
}
