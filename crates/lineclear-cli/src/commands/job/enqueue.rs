//! `lineclear job enqueue`: enqueues a job, and waits for its end if asked to.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::watch::{LastSeen, watch};
use crate::api_client::{ApiClient, ApiTarget};
use crate::api_command::{
    items, millis, nearest, object, print_enqueued, read_json_arg, with_api, with_raw_field,
};
use crate::config::parse_duration;
use crate::failure::Failure;
use crate::output::print_stderr;
use crate::timeout::with_timeout;

const EXAMPLES: &str = "Examples:
  lineclear job enqueue mail.send --input '{\"to\": \"ops\"}'
  lineclear job enqueue import --input @import.json --group etl --priority 20 --in 5m
  echo '{\"argv\": [\"/bin/date\"]}' | lineclear job enqueue command --input - --wait
  lineclear job enqueue report --unique-key report-2026-11 --wait --wait-timeout 10m

With --wait, exits with 0 if the job completed, 8 if it became a dead letter, 9 if it was cancelled, 7 if the wait timed out.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Enqueue {
    /// Kind of the job
    kind: String,
    /// Input as JSON; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Priority; higher runs first
    #[arg(long, value_name = "N")]
    priority: Option<i64>,
    /// Route [default: main]
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// Run at most one job with this key at a time
    #[arg(long, value_name = "KEY")]
    limit_key: Option<String>,
    /// Tag to search for; may be repeated
    #[arg(long = "tag", value_name = "NAME")]
    tags: Vec<String>,
    /// Delay before it runs, such as 90s or 1h30m
    #[arg(long = "in", value_name = "TIME", conflicts_with = "not_before", value_parser = parse_duration)]
    later: Option<Duration>,
    /// Time before which it does not run, such as 2026-12-24T18:00:00Z
    #[arg(long = "at", value_name = "TIME")]
    not_before: Option<String>,
    /// Do not enqueue while a job with this key waits or runs
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// Number of retries
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Timeout of an attempt
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Wait for the end of the job and print its log
    #[arg(long)]
    wait: bool,
    /// With --wait: maximum time to wait
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = parse_duration)]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    target: ApiTarget,
}

impl Enqueue {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let kind = self.kind.clone();
        let input = self.input.as_deref().map(|text| read_json_arg("--input", text)).transpose()?;
        let body = object(vec![
            ("kind", Some(json!(self.kind))),
            ("group", self.group.map(Value::from)),
            ("priority", self.priority.map(Value::from)),
            ("in_ms", self.later.map(millis)),
            ("due_at", self.not_before.map(Value::from)),
            ("unique_key", self.unique_key.map(Value::from)),
            ("route", self.route.map(Value::from)),
            ("limit_key", self.limit_key.map(Value::from)),
            ("tags", Some(self.tags).filter(|tags| !tags.is_empty()).map(Value::from)),
            ("retries", self.retries.map(Value::from)),
            ("timeout_ms", self.timeout.map(millis)),
        ]);
        let (target, wait, mut seen) = (self.target, self.wait, LastSeen::default());
        with_api(&target, async |api| {
            let done = with_timeout(self.wait_timeout, async {
                let made = api.post_text("jobs", with_raw_field(&body, "input", input.as_deref())).await?;
                seen.id = made.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                if !target.json {
                    warn_if_unknown_kind(api, &kind).await;
                }
                if wait {
                    return watch(api, &target, &mut seen).await;
                }
                print_enqueued(&target, &made)
            });
            done.await?.ok_or_else(|| seen.timed_out())
        })
    }
}

/// Warns if no live node runs the kind, which is most likely misspelt.
async fn warn_if_unknown_kind(api: &ApiClient, kind: &str) {
    // Only a hint: the job is enqueued, so errors are ignored.
    let nodes = items(&api.get("nodes").await.unwrap_or_default());
    let alive = nodes.iter().filter(|node| node.get("state").and_then(Value::as_str) == Some("alive"));
    let kinds: BTreeSet<String> = alive
        .filter_map(|node| node.get("kinds")?.as_array())
        .flatten()
        .filter_map(|kind| kind.as_str().map(str::to_owned))
        .collect();
    if kinds.is_empty() || kinds.contains(kind) {
        return;
    }
    let meant = nearest(kinds.into_iter(), kind).map(|there| format!("; did you mean {there}?"));
    print_stderr(&format!(
        "no live node runs the kind {kind}; the job waits for one{}\n",
        meant.unwrap_or_default()
    ));
}
