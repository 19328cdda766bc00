//! `lineclear dead revive` and `acknowledge`: one by its id, or all that match.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::which::Which;
use crate::api::{Api, At, piece, query};
use crate::cmd::ask::{asking, json_of, object, say_or_json, with_json};
use crate::cmd::sure::Sure;
use crate::config::span;
use crate::failure::Failure;
use crate::show::Progress;

const REVIVE_EXAMPLES: &str = "Examples:
  lineclear dead revive 7
  lineclear dead revive 7 --input '{\"to\": \"ops\"}' --note 'wrong address'
  lineclear dead revive --kind mail.send --fingerprint 073ad897b6dbd5d3
  lineclear dead revive --all --yes

Many are counted first, and you are asked; without a terminal, --yes is needed. What dies again meanwhile is left alone.";

const ACKNOWLEDGE_EXAMPLES: &str = "Examples:
  lineclear dead acknowledge 7 --note 'sent by hand'
  lineclear dead acknowledge --manifest nightly --before 2026-11-01T00:00:00Z
  lineclear dead acknowledge --all --yes

Many are counted first, and you are asked; without a terminal, --yes is needed.";

/// One, or those that match.
#[derive(Args)]
struct Meant {
    /// The dead letter's id
    #[arg(conflicts_with_all = ["all", "kind", "manifest", "group", "fingerprint", "reason", "before"])]
    id: Option<String>,
    #[command(flatten)]
    which: Which,
    /// All that await a person
    #[arg(
        long,
        conflicts_with_all = ["kind", "manifest", "group", "fingerprint", "reason", "before"],
        help_heading = "Which"
    )]
    all: bool,
    /// What to remember about it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    sure: Sure,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
#[command(after_help = REVIVE_EXAMPLES)]
pub(crate) struct Revive {
    #[command(flatten)]
    meant: Meant,
    /// With one id: another input, as JSON; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON", requires = "id")]
    input: Option<String>,
    /// With one id: not before this time from now, such as 90s or 1h30m
    #[arg(long = "in", value_name = "TIME", requires = "id", value_parser = span)]
    later: Option<Duration>,
}

#[derive(Args)]
#[command(after_help = ACKNOWLEDGE_EXAMPLES)]
pub(crate) struct Acknowledge {
    #[command(flatten)]
    meant: Meant,
}

/// What is done, in the words of the API and of people.
struct Act {
    verb: &'static str,
    done: &'static str,
}

impl Revive {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let millis = |time: Duration| json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let input = self.input.as_deref().map(|text| json_of("--input", text)).transpose()?;
        let body = vec![("in_ms", self.later.map(millis))];
        self.meant.run(&Act { verb: "revive", done: "revived" }, body, input.as_deref())
    }
}

impl Acknowledge {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        self.meant.run(&Act { verb: "acknowledge", done: "acknowledged" }, Vec::new(), None)
    }
}

impl Meant {
    fn run(
        self,
        act: &Act,
        mut body: Vec<(&str, Option<Value>)>,
        input: Option<&str>,
    ) -> Result<ExitCode, Failure> {
        if let Some(id) = &self.id {
            body.push(("note", self.note.clone().map(Value::from)));
            let path = format!("dead-letters/{}/{}", piece(id), act.verb);
            return asking(&self.at, async |api| {
                let answer = api.post_text(&path, with_json(&object(body), "input", input)).await?;
                say_or_json(&self.at, &answer, &format!("dead letter {id} {}", act.done))
            });
        }
        if !self.all && !self.which.is_given() {
            return Err(Failure::usage(
                "say which: an id, --kind, --manifest, --group, --fingerprint, --reason, --before, or --all",
            )
            .hint("`lineclear dead families` shows what there is"));
        }
        asking(&self.at, async |api| self.all_that_match(api, act).await)
    }

    async fn all_that_match(&self, api: &Api, act: &Act) -> Result<ExitCode, Failure> {
        let counted = api.get(&format!("dead-letters/families{}", query(&self.which.asked()))).await?;
        let total = counted.get("total").and_then(Value::as_u64).unwrap_or_default();
        let exact = counted.get("exact").and_then(Value::as_bool) == Some(true);
        let at = counted.get("at").and_then(Value::as_str).unwrap_or_default();
        let mut done = 0;
        // When not all were looked at, those that match may be among the others.
        if total > 0 || !exact {
            let least = if exact { "" } else { "at least " };
            let letters = if total == 1 { "dead letter matches" } else { "dead letters match" };
            self.sure.of_many(&format!("{least}{total} {letters}"))?;
            let mut progress = Progress::new(act.done, total, self.at.json);
            let body = self.which.body(at, self.note.as_deref());
            loop {
                let swept = api.post(&format!("dead-letters/{}", act.verb), body.clone()).await?;
                done += swept.get("count").and_then(Value::as_u64).unwrap_or_default();
                if swept.get("more").and_then(Value::as_bool) != Some(true) {
                    break;
                }
                progress.at(done);
            }
        }
        // The same shape as one call answers, over all of them.
        let answer = json!({"count": done, "more": false});
        say_or_json(&self.at, &answer.into(), &format!("{done} {}", act.done))
    }
}
