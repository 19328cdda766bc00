//! `lineclear job watch` and `logs`: what a job says, and how it ends.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::api::{Api, At, piece, query};
use crate::cmd::ask::{asking, only};
use crate::config::span;
use crate::failure::{Failure, say};
use crate::output::{plain, print, print_json};

/// How often the job is looked at.
const LOOK: Duration = Duration::from_millis(300);
/// Awaited jobs that did not complete.
const FAILED: u8 = 8;
const CANCELLED: u8 = 9;
const TOO_LATE: u8 = 7;

const EXAMPLES: &str = "Examples:
  lineclear job watch 42
  lineclear job watch 42 --within 5m

Ends with 0 if the job completed, 8 if it became a dead letter, 9 if it was cancelled, 7 if it took too long.
To stop watching does not stop the job.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Watch {
    /// The job's id
    id: String,
    /// No longer than this
    #[arg(long, value_name = "TIME", value_parser = span)]
    within: Option<Duration>,
    #[command(flatten)]
    at: At,
}

impl Watch {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        asking(&self.at, async |api| follow(api, &self.at, &self.id, self.within).await)
    }
}

/// Follows a job to its end: states to standard error, what it logs to standard output.
pub(super) async fn follow(
    api: &Api,
    at: &At,
    id: &str,
    within: Option<Duration>,
) -> Result<ExitCode, Failure> {
    let until = within.map(|within| Instant::now() + within);
    let path = format!("jobs/{}", piece(id));
    let (mut read, mut said) = (Read::default(), String::new());
    loop {
        let job = api.get(&path).await?;
        let text = |name: &str| job.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let state = text("state");
        if !at.json {
            more_logs(api, &path, &mut read).await?;
        }
        let now = match text("last_error") {
            error if error.is_empty() || state == "completed" => state.clone(),
            error => format!("{state}: {error}"),
        };
        if now != said && !at.json {
            say(&format!("job {id} {now}\n"));
        }
        said = now;
        let code = match state.as_str() {
            "completed" => 0,
            "dead" | "failed" => FAILED,
            "cancelled" => CANCELLED,
            _ if until.is_some_and(|until| Instant::now() >= until) => {
                return Err(Failure::coded(TOO_LATE, format!("job {id} is {state}, and goes on"))
                    .hint(format!("lineclear job watch {id}")));
            }
            _ => {
                tokio::time::sleep(LOOK).await;
                continue;
            }
        };
        if at.json {
            print_json(&job)?;
        }
        return Ok(ExitCode::from(code));
    }
}

/// Where a log was read to: the page, and the last line of it.
#[derive(Default)]
struct Read {
    cursor: Option<String>,
    last: (u64, u64),
}

/// Prints what was logged since.
async fn more_logs(api: &Api, path: &str, read: &mut Read) -> Result<(), Failure> {
    loop {
        let asked = query(&[("limit", Some("1000".to_owned())), ("cursor", read.cursor.clone())]);
        let page = api.get(&format!("{path}/logs{asked}")).await?;
        for line in only(&page) {
            let number = |name: &str| line.get(name).and_then(Value::as_u64).unwrap_or_default();
            let place = (number("claim_no"), number("line_no"));
            if place > read.last {
                read.last = place;
                let message = line.get("message").and_then(Value::as_str).unwrap_or_default();
                print(&format!("{}\n", plain(message)))?;
            }
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => read.cursor = Some(next.to_owned()),
            None => return Ok(()),
        }
    }
}

/// Prints all that a job logged.
pub(super) async fn logs(api: &Api, at: &At, path: &str) -> Result<ExitCode, Failure> {
    if at.json {
        print_json(&api.get(&format!("{path}/logs?limit=1000")).await?)?;
    } else {
        more_logs(api, path, &mut Read::default()).await?;
    }
    Ok(ExitCode::SUCCESS)
}
