//! `lineclear batch`: the same done to many jobs, in the background.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ask::{All, asking, asking_about, object, say_or_json, show_one};
use super::sure::Sure;
use crate::api::{Api, At, piece};
use crate::config::span;
use crate::failure::{Failure, say};
use crate::show::{Cell, Column, Progress};

/// How often a batch is looked at.
const LOOK: Duration = Duration::from_millis(300);
/// An awaited batch that was cancelled.
const CANCELLED: u8 = 9;

const EXAMPLES: &str = "Examples:
  lineclear batch start cancel -q 'kind:mail.send state:waiting' --dry-run
  lineclear batch start retry -q 'state:failed since:24h' --wait
  lineclear batch list
  lineclear batch cancel 3";

const START_EXAMPLES: &str = "Examples:
  lineclear batch start cancel -q 'kind:mail.send' --dry-run
  lineclear batch start retry -q 'state:dead error:timeout' --reason 'the mail server is back'
  lineclear batch start revive -q 'state:dead kind:mail.send' --canary
  lineclear batch start revive -q 'state:dead kind:report' --over 10m
  lineclear batch start acknowledge -q 'manifest:nightly state:dead' --yes --wait

The jobs are counted first, and you are asked; without a terminal, --yes is needed. A server works on it in the background, and it
outlives that server; with --db it waits until there is one. It can be taken back until it starts.";

const WATCH_EXAMPLES: &str = "Examples:
  lineclear batch watch 3

Ends with 0 when it is done, 9 if it was cancelled. To stop watching does not stop the batch.";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Lists batches, the newest first.
    #[command(after_help = "Examples:\n  lineclear batch list\n  lineclear batch list --json")]
    List(All),
    /// Shows one batch, and how far it is.
    #[command(after_help = "Examples:\n  lineclear batch get 3")]
    Get(One),
    /// Does the same to all jobs that a query finds.
    #[command(after_help = START_EXAMPLES)]
    Start(Start),
    /// Follows a batch to its end.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(One),
    /// Takes a batch back, or stops it where it is.
    #[command(after_help = "Examples:\n  lineclear batch cancel 3")]
    Cancel(One),
}

/// One batch.
#[derive(Args)]
pub(crate) struct One {
    /// The batch's id
    id: String,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Start {
    /// cancel, retry, revive or acknowledge
    action: String,
    /// Which jobs, such as 'state:failed since:24h'; id:>0 is all
    #[arg(short, long = "query", value_name = "QUERY")]
    query: String,
    /// Only counts
    #[arg(long)]
    dry_run: bool,
    /// Why; it is kept with the batch
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// One job first; the rest follows when it has completed, and never if it ends in another way (retry, revive)
    #[arg(long, conflicts_with = "over")]
    canary: bool,
    /// Jobs become due one after the other, evenly over so long (retry, revive)
    #[arg(long, value_name = "TIME", value_parser = span)]
    over: Option<Duration>,
    /// How long it can be taken back before it starts
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span)]
    starts_in: Duration,
    /// Follows it to its end
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    sure: Sure,
    #[command(flatten)]
    at: At,
}

const COLUMNS: &[Column] = &[
    Column { head: "ID", of: |batch| Cell::text(batch.get("id")) },
    Column { head: "STATUS", of: |batch| Cell::state(batch.get("status")) },
    Column { head: "ACTION", of: |batch| Cell::text(batch.get("action")) },
    Column { head: "DONE", of: |batch| Cell::text(batch.get("done")) },
    Column { head: "SKIPPED", of: |batch| Cell::text(batch.get("skipped")) },
    Column { head: "TOTAL", of: |batch| Cell::text(batch.get("total")) },
    Column { head: "STARTS", of: |batch| Cell::time(batch.get("starts_at")) },
    Column { head: "QUERY", of: |batch| Cell::text(batch.get("q")) },
    Column { head: "BY", of: |batch| Cell::text(batch.get("created_by")) },
];

const DETAILS: &[Column] = &[
    Column { head: "id", of: |batch| Cell::text(batch.get("id")) },
    Column { head: "status", of: |batch| Cell::state(batch.get("status")) },
    Column { head: "action", of: |batch| Cell::text(batch.get("action")) },
    Column { head: "query", of: |batch| Cell::text(batch.get("q")) },
    Column { head: "mode", of: |batch| Cell::text(batch.get("mode")) },
    Column { head: "over", of: |batch| Cell::text(over(batch).map(Value::from).as_ref()) },
    Column { head: "canary job", of: |batch| Cell::text(batch.get("canary_job_id")) },
    Column { head: "stopped because", of: |batch| Cell::text(batch.get("stopped_because")) },
    Column { head: "total", of: |batch| Cell::text(batch.get("total")) },
    Column { head: "done", of: |batch| Cell::text(batch.get("done")) },
    Column { head: "skipped", of: |batch| Cell::text(batch.get("skipped")) },
    Column { head: "made", of: |batch| Cell::time(batch.get("created_at")) },
    Column { head: "by", of: |batch| Cell::text(batch.get("created_by")) },
    Column { head: "reason", of: |batch| Cell::text(batch.get("reason")) },
    Column { head: "starts", of: |batch| Cell::time(batch.get("starts_at")) },
    Column { head: "finished", of: |batch| Cell::time(batch.get("finished_at")) },
];

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(all) => {
                all.show("bulk-operations", COLUMNS, "no batches; `lineclear batch start` makes one")
            }
            Command::Get(one) => one.ask(async |api, at, path| show_one(at, &api.get(path).await?, DETAILS)),
            Command::Start(start) => start.run(),
            Command::Watch(one) => one.ask(async |api, at, path| follow(api, at, path).await),
            Command::Cancel(one) => {
                let id = one.id.clone();
                one.ask(async |api, at, path| {
                    let answer = api.post(&format!("{path}/cancel"), Value::Null).await?;
                    say_or_json(at, &answer, &format!("batch {id} cancelled{}", done_so_far(&answer)))
                })
            }
        }
    }
}

/// The time over which jobs are spread.
fn over(batch: &Value) -> Option<String> {
    let millis = batch.get("over_ms")?.as_u64()?;
    Some(lineclear_model::duration::format(Duration::from_millis(millis)))
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// `12 jobs`, or at least so many.
fn jobs(count: u64, exact: bool) -> String {
    format!("{}{count} {}", if exact { "" } else { "at least " }, if count == 1 { "job" } else { "jobs" })
}

fn done_so_far(batch: &Value) -> String {
    match number(batch, "done") {
        0 => String::new(),
        done => format!("; {} were treated before", jobs(done, true)),
    }
}

impl Start {
    fn run(self) -> Result<ExitCode, Failure> {
        let Start { action, query, dry_run, reason, canary, over, starts_in, wait, sure, at } = self;
        let whole = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mode = if canary { Some("canary") } else { over.map(|_| "spread") };
        let body = |more: Vec<(&str, Option<Value>)>| {
            let given = vec![
                ("action", Some(json!(action))),
                ("q", Some(json!(query))),
                ("mode", mode.map(Value::from)),
                ("over_ms", over.map(|over| json!(whole(over)))),
            ];
            object([given, more].concat())
        };
        asking(&at, async |api| {
            let counted = api.post("bulk-operations", body(vec![("dry_run", Some(json!(true)))])).await?;
            let exact = counted.get("exact").and_then(Value::as_bool) == Some(true);
            let count = number(&counted, "count");
            if dry_run {
                let sentence =
                    format!("{} would be meant; nothing was changed: this was a dry run", jobs(count, exact));
                return say_or_json(&at, &counted, &sentence);
            }
            sure.of_many(&format!("{action}: {} meant", are(count, exact)))?;
            let more =
                vec![("reason", reason.map(Value::from)), ("starts_in_ms", Some(json!(whole(starts_in))))];
            let batch = api.post("bulk-operations", body(more)).await?;
            let id = batch.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            let sentence = format!(
                "batch {id}: {} for {}; take it back with: lineclear batch cancel {id}",
                action,
                jobs(
                    number(&batch, "total"),
                    batch.get("total_is_exact").and_then(Value::as_bool) == Some(true)
                ),
            );
            if wait {
                if !at.json {
                    say(&format!("{sentence}\n"));
                }
                return follow(api, &at, &format!("bulk-operations/{}", piece(&id))).await;
            }
            say_or_json(&at, &batch, &sentence)
        })
    }
}

fn are(count: u64, exact: bool) -> String {
    format!("{} {}", jobs(count, exact), if count == 1 { "is" } else { "are" })
}

/// Follows a batch to its end.
async fn follow(api: &Api, at: &At, path: &str) -> Result<ExitCode, Failure> {
    let mut progress: Option<Progress> = None;
    loop {
        let batch = api.get(path).await?;
        let status = batch.get("status").and_then(Value::as_str).unwrap_or_default();
        let (done, skipped) = (number(&batch, "done"), number(&batch, "skipped"));
        if status == "running" {
            let begin = || Progress::new("treated", number(&batch, "total"), at.json);
            progress.get_or_insert_with(begin).at(done + skipped);
        }
        let code = match status {
            "done" => 0,
            "cancelled" => CANCELLED,
            "" => return Err(Failure::failed("the answer is no batch: it has no status")),
            _ => {
                tokio::time::sleep(LOOK).await;
                continue;
            }
        };
        drop(progress);
        let skipped = match skipped {
            0 => String::new(),
            some => format!(", {some} skipped: they could not be treated any more"),
        };
        let id = batch.get("id").and_then(Value::as_str).unwrap_or_default();
        let because = match batch.get("stopped_because").and_then(Value::as_str) {
            Some(because) => format!("; it stopped because {because}"),
            None => String::new(),
        };
        let sentence = format!("batch {id} {status}: {} treated{skipped}{because}", jobs(done, true));
        say_or_json(at, &batch, &sentence)?;
        return Ok(ExitCode::from(code));
    }
}

impl One {
    fn ask(
        self,
        what: impl AsyncFnOnce(&Api, &At, &str) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        asking_about(&self.at, ("bulk-operations", None), &self.id, what)
    }
}
