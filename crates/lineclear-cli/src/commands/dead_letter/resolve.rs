//! `lineclear dead-letter revive` and `acknowledge`: one by its id, or all that match a filter.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::filter::DeadLetterFilter;
use crate::api_client::{ApiClient, ApiTarget, path_segment, query_string};
use crate::api_command::{millis, object, print_answer, read_json_arg, with_api, with_raw_field};
use crate::args::Confirm;
use crate::config::parse_duration;
use crate::display::Progress;
use crate::failure::Failure;

const REVIVE_EXAMPLES: &str = "Examples:
  lineclear dead-letter revive 7
  lineclear dead-letter revive 7 --input '{\"to\": \"ops\"}' --note 'wrong address'
  lineclear dead-letter revive --kind mail.send --fingerprint 073ad897b6dbd5d3
  lineclear dead-letter revive --all --yes

With filters, the command counts the dead letters and asks for confirmation; without a terminal, --yes is required. Jobs that die
again meanwhile are not revived again.";

const ACKNOWLEDGE_EXAMPLES: &str = "Examples:
  lineclear dead-letter acknowledge 7 --note 'sent by hand'
  lineclear dead-letter acknowledge --manifest nightly --before 2026-11-01T00:00:00Z
  lineclear dead-letter acknowledge --all --yes

With filters, the command counts the dead letters and asks for confirmation; without a terminal, --yes is required.";

/// One dead letter, or all that match.
#[derive(Args)]
struct Selection {
    /// Id of the dead letter
    #[arg(conflicts_with_all = ["all", "kind", "manifest", "group", "fingerprint", "reason", "before"])]
    id: Option<String>,
    #[command(flatten)]
    filter: DeadLetterFilter,
    /// All awaiting dead letters
    #[arg(
        long,
        conflicts_with_all = ["kind", "manifest", "group", "fingerprint", "reason", "before"],
        help_heading = "Filters"
    )]
    all: bool,
    /// Note, recorded with the dead letter
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
#[command(after_help = REVIVE_EXAMPLES)]
pub(crate) struct Revive {
    #[command(flatten)]
    selection: Selection,
    /// With one id: new input as JSON; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON", requires = "id")]
    input: Option<String>,
    /// With one id: delay before it runs, such as 90s or 1h30m
    #[arg(long = "in", value_name = "TIME", requires = "id", value_parser = parse_duration)]
    later: Option<Duration>,
}

#[derive(Args)]
#[command(after_help = ACKNOWLEDGE_EXAMPLES)]
pub(crate) struct Acknowledge {
    #[command(flatten)]
    selection: Selection,
}

/// An action: its path in the API, and its past participle.
struct Action {
    verb: &'static str,
    done: &'static str,
}

impl Revive {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let input = self.input.as_deref().map(|text| read_json_arg("--input", text)).transpose()?;
        let body = vec![("in_ms", self.later.map(millis))];
        self.selection.run(&Action { verb: "revive", done: "revived" }, body, input.as_deref())
    }
}

impl Acknowledge {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        self.selection.run(&Action { verb: "acknowledge", done: "acknowledged" }, Vec::new(), None)
    }
}

impl Selection {
    fn run(
        self,
        action: &Action,
        mut body: Vec<(&str, Option<Value>)>,
        input: Option<&str>,
    ) -> Result<ExitCode, Failure> {
        if let Some(id) = &self.id {
            body.push(("note", self.note.clone().map(Value::from)));
            let path = format!("dead-letters/{}/{}", path_segment(id), action.verb);
            return with_api(&self.target, async |api| {
                let response = api.post_text(&path, with_raw_field(&object(body), "input", input)).await?;
                print_answer(&self.target, &response, &format!("dead letter {id} {}", action.done))
            });
        }
        if !self.all && !self.filter.is_set() {
            return Err(Failure::usage(
                "select dead letters: an id, --kind, --manifest, --group, --fingerprint, --reason, --before, or --all",
            )
            .hint("`lineclear dead-letter families` lists them by error"));
        }
        with_api(&self.target, async |api| self.resolve_matching(api, action).await)
    }

    async fn resolve_matching(&self, api: &ApiClient, action: &Action) -> Result<ExitCode, Failure> {
        let counted =
            api.get(&format!("dead-letters/families{}", query_string(&self.filter.query_pairs()))).await?;
        let total = counted.get("total").and_then(Value::as_u64).unwrap_or_default();
        let exact = counted.get("exact").and_then(Value::as_bool) == Some(true);
        let at = counted.get("at").and_then(Value::as_str).unwrap_or_default();
        let mut done = 0;
        // The count covers the newest only; older ones may match.
        if total > 0 || !exact {
            let least = if exact { "" } else { "at least " };
            let letters = if total == 1 { "dead letter matches" } else { "dead letters match" };
            self.confirm.for_many(&format!("{least}{total} {letters}"))?;
            let mut progress = Progress::new(action.done, total, self.target.json);
            let body = self.filter.body(at, self.note.as_deref());
            loop {
                let swept = api.post(&format!("dead-letters/{}", action.verb), body.clone()).await?;
                done += swept.get("count").and_then(Value::as_u64).unwrap_or_default();
                if swept.get("more").and_then(Value::as_bool) != Some(true) {
                    break;
                }
                progress.set(done);
            }
        }
        // The shape of one response, over all requests.
        let response = json!({"count": done, "more": false});
        print_answer(&self.target, &response.into(), &format!("{done} dead letters {}", action.done))
    }
}
