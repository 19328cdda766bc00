//! `lineclear manifest apply`: what files say becomes so.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::files::Files;
use crate::api::At;
use crate::cmd::ask::asking;
use crate::cmd::sure::Sure;
use crate::failure::{Failure, say};
use crate::output::{plain, print, print_json};

const EXAMPLES: &str = "Examples:
  lineclear manifest apply -f jobs.toml --dry-run
  lineclear manifest apply -f manifests/ --owner billing --prune
  lineclear manifest apply -f jobs.toml --db lineclear.db

A small file; the server must have been started with --commands /bin/date:
  [[manifest]]
  key = \"clock\"
  kind = \"command\"
  input = { argv = [\"/bin/date\", \"-u\"] }
  schedule = { every = \"5s\" }

Look at a file before, field by field: lineclear manifest diff -f jobs.toml

+ is new, ~ changes, - is removed. With --prune, manifests that the same owner applied before and \
that are in no file any more are removed: on a terminal you are asked first. All of it becomes so, \
or nothing.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Apply {
    #[command(flatten)]
    files: Files,
    /// Only says what it would do
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    sure: Sure,
    #[command(flatten)]
    at: At,
}

impl Apply {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut body = self.files.declaration(self.dry_run)?;
        asking(&self.at, async |api| {
            if self.files.prunes() && !self.dry_run && self.sure.would_ask() {
                body["dry_run"] = json!(true);
                let plan = api.post("manifests:apply", body.clone()).await?;
                body["dry_run"] = json!(false);
                if let Some(removed) = removed(&plan) {
                    say(&removed);
                    self.sure.of_one("these are removed, with their waiting jobs")?;
                }
            }
            let plan = api.post("manifests:apply", body).await?;
            if self.at.json {
                print_json(&plan)?;
            } else {
                print(&told(&plan))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// What would go, a line each; `None`: nothing would.
fn removed(plan: &Value) -> Option<String> {
    let lines: Vec<String> =
        told(plan).lines().filter(|line| line.starts_with("- ")).map(|line| format!("{line}\n")).collect();
    (!lines.is_empty()).then(|| lines.concat())
}

/// `+ ~ -`, and how much stays as it is.
fn told(plan: &Value) -> String {
    let mut text = String::new();
    let mut same = 0;
    for (what, word) in [("groups", "group"), ("manifests", "manifest")] {
        let Some(changes) = plan.get(what) else { continue };
        let all = |name: &str| changes.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        same += all("unchanged").len();
        for (sign, name) in [("+", "created"), ("~", "changed"), ("-", "removed")] {
            for one in all(name) {
                let key =
                    one.as_str().or_else(|| one.get("key")?.as_str()).or_else(|| one.get("name")?.as_str());
                text.push_str(&format!("{sign} {word} {}\n", plain(key.unwrap_or_default())));
            }
        }
    }
    if text.is_empty() {
        return format!("all is as it should be ({same} unchanged)\n");
    }
    let dry = plan.get("dry_run").and_then(Value::as_bool) == Some(true);
    text + &format!(
        "{same} unchanged{}\n",
        if dry { "; nothing was changed: this was a dry run" } else { "" }
    )
}
