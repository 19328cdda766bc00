//! `lineclear job watch` and `logs`: the states and the log of a job.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::api_client::{ApiClient, ApiTarget, path_segment, query_string};
use crate::api_command::{PageArgs, fetch_pages, items, with_api};
use crate::config::parse_duration;
use crate::failure::Failure;
use crate::output::print_stderr;
use crate::output::{print, print_json, sanitize};
use crate::timeout::with_timeout;

/// How often `watch` polls.
const POLL_EVERY: Duration = Duration::from_millis(300);
/// Exit codes of jobs that did not complete.
const FAILED: u8 = 8;
const CANCELLED: u8 = 9;
const TIMED_OUT: u8 = 7;

const EXAMPLES: &str = "Examples:
  lineclear job watch 42
  lineclear job watch 42 --wait-timeout 5m

Exits with 0 if the job completed, 8 if it became a dead letter, 9 if it was cancelled, 7 if the wait timed out.
Stopping this command does not stop the job.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Watch {
    /// Id of the job
    id: String,
    /// Maximum time to wait
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    target: ApiTarget,
}

impl Watch {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut seen = LastSeen { id: self.id, state: String::new() };
        with_api(&self.target, async |api| {
            let done = with_timeout(self.wait_timeout, watch(api, &self.target, &mut seen)).await?;
            done.ok_or_else(|| seen.timed_out())
        })
    }
}

/// The last known state of the job when the time runs out.
#[derive(Default)]
pub(super) struct LastSeen {
    /// Empty while it is unknown.
    pub(super) id: String,
    state: String,
}

impl LastSeen {
    pub(super) fn timed_out(&self) -> Failure {
        let LastSeen { id, state } = self;
        let (why, hint) = match (id.as_str(), state.as_str()) {
            ("", _) => (
                "timed out before the server responded; the job may or may not be enqueued".to_owned(),
                "lineclear job list".to_owned(),
            ),
            (id, "") => (
                format!("timed out before the state of job {id} was known"),
                format!("lineclear job watch {id}"),
            ),
            (id, state) => {
                (format!("timed out; job {id} is {state} and continues"), format!("lineclear job watch {id}"))
            }
        };
        Failure::coded(TIMED_OUT, why).hint(hint)
    }
}

/// Polls a job until its end. Prints states to standard error and the log to standard output.
pub(super) async fn watch(
    api: &ApiClient,
    target: &ApiTarget,
    seen: &mut LastSeen,
) -> Result<ExitCode, Failure> {
    let id = seen.id.clone();
    let path = format!("jobs/{}", path_segment(&id));
    let (mut position, mut printed) = (LogPosition::default(), String::new());
    loop {
        let job = api.get(&path).await?;
        let text = |name: &str| job.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let state = text("state");
        seen.state.clone_from(&state);
        if !target.json {
            print_new_logs(api, &path, &mut position).await?;
        }
        let now = match text("last_error") {
            error if error.is_empty() || state == "completed" => state.clone(),
            error => format!("{state}: {error}"),
        };
        if now != printed && !target.json {
            print_stderr(&format!("job {id} {now}\n"));
        }
        printed = now;
        let code = match state.as_str() {
            "completed" => 0,
            "dead" | "failed" => FAILED,
            "cancelled" => CANCELLED,
            // Polling again would never end.
            "" => return Err(Failure::failed("the response is not a job: it has no state")),
            _ => {
                tokio::time::sleep(POLL_EVERY).await;
                continue;
            }
        };
        if target.json {
            print_json(&job)?;
        }
        return Ok(ExitCode::from(code));
    }
}

/// Up to where the log was printed: the page, and its last line.
#[derive(Default)]
struct LogPosition {
    cursor: Option<String>,
    last: (u64, u64),
}

/// Prints the lines after this position.
async fn print_new_logs(api: &ApiClient, path: &str, position: &mut LogPosition) -> Result<(), Failure> {
    loop {
        let query = query_string(&[("limit", Some("1000".to_owned())), ("cursor", position.cursor.clone())]);
        let page = api.get(&format!("{path}/logs{query}")).await?;
        for line in items(&page) {
            let number = |name: &str| line.get(name).and_then(Value::as_u64).unwrap_or_default();
            let line_id = (number("claim_no"), number("line_no"));
            if line_id > position.last {
                position.last = line_id;
                let message = line.get("message").and_then(Value::as_str).unwrap_or_default();
                print(&format!("{}\n", sanitize(message)))?;
            }
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => position.cursor = Some(next.to_owned()),
            None => return Ok(()),
        }
    }
}

/// Prints the whole log of a job.
pub(super) async fn logs(api: &ApiClient, target: &ApiTarget, path: &str) -> Result<ExitCode, Failure> {
    if target.json {
        let (all, _) = fetch_pages(api, (&format!("{path}/logs"), &[]), &PageArgs::ALL).await?;
        print_json(&all)?;
    } else {
        print_new_logs(api, path, &mut LogPosition::default()).await?;
    }
    Ok(ExitCode::SUCCESS)
}
