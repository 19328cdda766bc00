//! `lineclear job enqueue`: a job, and if wanted, its end.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::watch::{Seen, follow};
use crate::api::{Api, At};
use crate::cmd::ask::{asking, json_of, nearest, object, only, say_made, with_json};
use crate::cmd::within::within;
use crate::config::span;
use crate::failure::{Failure, say};

const EXAMPLES: &str = "Examples:
  lineclear job enqueue mail.send --input '{\"to\": \"ops\"}'
  lineclear job enqueue import --input @import.json --group etl --priority 20 --in 5m
  echo '{\"argv\": [\"/bin/date\"]}' | lineclear job enqueue command --input - --wait
  lineclear job enqueue report --unique-key report-2026-11 --wait --within 10m

With --wait: ends with 0 if the job completed, 8 if it became a dead letter, 9 if it was cancelled, 7 if it took too long.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Enqueue {
    /// What shall run it
    kind: String,
    /// JSON; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Higher comes first
    #[arg(long, value_name = "N")]
    priority: Option<i64>,
    /// The lane it waits in [default: main]
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// At most one job with this key is active at a time
    #[arg(long, value_name = "KEY")]
    limit_key: Option<String>,
    /// A word to find it by; may be given several times
    #[arg(long = "tag", value_name = "NAME")]
    tags: Vec<String>,
    /// Not before this time from now, such as 90s or 1h30m
    #[arg(long = "in", value_name = "TIME", conflicts_with = "at_moment", value_parser = span)]
    later: Option<Duration>,
    /// Not before this moment, such as 2026-12-24T18:00:00Z
    #[arg(long = "at", value_name = "MOMENT")]
    at_moment: Option<String>,
    /// While a job with this key waits or runs, another is not made
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// How long it may run
    #[arg(long, value_name = "TIME", value_parser = span)]
    timeout: Option<Duration>,
    /// Follows the job to its end
    #[arg(long)]
    wait: bool,
    /// With --wait: no longer than this
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = span)]
    within: Option<Duration>,
    #[command(flatten)]
    at: At,
}

impl Enqueue {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let kind = self.kind.clone();
        let millis = |time: Duration| json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let input = self.input.as_deref().map(|text| json_of("--input", text)).transpose()?;
        let body = object(vec![
            ("kind", Some(json!(self.kind))),
            ("group", self.group.map(Value::from)),
            ("priority", self.priority.map(Value::from)),
            ("in_ms", self.later.map(millis)),
            ("due_at", self.at_moment.map(Value::from)),
            ("unique_key", self.unique_key.map(Value::from)),
            ("route", self.route.map(Value::from)),
            ("limit_key", self.limit_key.map(Value::from)),
            ("tags", Some(self.tags).filter(|tags| !tags.is_empty()).map(Value::from)),
            ("retries", self.retries.map(Value::from)),
            ("timeout_ms", self.timeout.map(millis)),
        ]);
        let (at, wait, mut seen) = (self.at, self.wait, Seen::default());
        asking(&at, async |api| {
            let done = within(self.within, async {
                let made = api.post_text("jobs", with_json(&body, "input", input.as_deref())).await?;
                seen.id = made.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                if !at.json {
                    warn_of_unknown(api, &kind).await;
                }
                if wait {
                    return follow(api, &at, &mut seen).await;
                }
                say_made(&at, &made)
            });
            done.await?.ok_or_else(|| seen.too_late())
        })
    }
}

/// A job of a kind that nobody runs waits for somebody who does; most likely it is a slip of the pen.
async fn warn_of_unknown(api: &Api, kind: &str) {
    // Only a hint: the job is made, whatever becomes of this.
    let nodes = only(&api.get("nodes").await.unwrap_or_default());
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
    say(&format!(
        "no node that is alive runs the kind {kind}: the job waits for one{}\n",
        meant.unwrap_or_default()
    ));
}
