//! `lineclear job watch` and `logs`: what a job says, and how it ends.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::api::{Api, At, piece, query};
use crate::cmd::ask::{Much, asking, collected, only};
use crate::cmd::within::within;
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
        let mut seen = Seen { id: self.id, state: String::new() };
        asking(&self.at, async |api| {
            let done = within(self.within, follow(api, &self.at, &mut seen)).await?;
            done.ok_or_else(|| seen.too_late())
        })
    }
}

/// What was last heard of a job.
#[derive(Default)]
pub(super) struct Seen {
    /// Empty while it is not known.
    pub(super) id: String,
    state: String,
}

impl Seen {
    /// There was no more time.
    pub(super) fn too_late(&self) -> Failure {
        let Seen { id, state } = self;
        let (why, hint) = match (id.as_str(), state.as_str()) {
            ("", _) => (
                "there was no answer in time: whether the job was made is not known".to_owned(),
                "lineclear job list".to_owned(),
            ),
            (id, "") => {
                (format!("nothing was heard of job {id} in time"), format!("lineclear job watch {id}"))
            }
            (id, state) => (format!("job {id} is {state}, and goes on"), format!("lineclear job watch {id}")),
        };
        Failure::coded(TOO_LATE, why).hint(hint)
    }
}

/// Follows a job to its end: states to standard error, what it logs to standard output.
pub(super) async fn follow(api: &Api, at: &At, seen: &mut Seen) -> Result<ExitCode, Failure> {
    let id = seen.id.clone();
    let path = format!("jobs/{}", piece(&id));
    let (mut read, mut said) = (Read::default(), String::new());
    loop {
        let job = api.get(&path).await?;
        let text = |name: &str| job.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let state = text("state");
        seen.state.clone_from(&state);
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
            // To wait for more of it would be to wait for ever.
            "" => return Err(Failure::failed("the answer is no job: it has no state")),
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
        let (all, _) = collected(api, (&format!("{path}/logs"), &[]), &Much::ALL).await?;
        print_json(&all)?;
    } else {
        more_logs(api, path, &mut Read::default()).await?;
    }
    Ok(ExitCode::SUCCESS)
}
