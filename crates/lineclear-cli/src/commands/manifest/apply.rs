//! `lineclear manifest apply`: applies manifest files.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::files::Files;
use crate::api_client::ApiTarget;
use crate::api_command::with_api;
use crate::args::Confirm;
use crate::failure::Failure;
use crate::output::print_stderr;
use crate::output::{print, print_json, sanitize};

const EXAMPLES: &str = "Examples:
  lineclear manifest apply -f jobs.toml --dry-run
  lineclear manifest apply -f manifests/ --owner billing --prune
  lineclear manifest apply -f jobs.toml --db lineclear.db

A small file; the server must have been started with --commands /bin/date --allow-open-commands:
  [[manifest]]
  key = \"clock\"
  kind = \"command\"
  input = { argv = [\"/bin/date\", \"-u\"] }
  schedule = { every = \"5s\" }

Preview the changes field by field with: lineclear manifest diff -f jobs.toml

+ is created, ~ is changed, - is removed. --prune removes manifests that the same owner applied \
before and that are in no file any more; on a terminal it asks first. Either all changes are made, \
or none.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Apply {
    #[command(flatten)]
    files: Files,
    /// Only print the changes
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    target: ApiTarget,
}

impl Apply {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut body = self.files.declaration(self.dry_run)?;
        with_api(&self.target, async |api| {
            if self.files.prunes() && !self.dry_run && self.confirm.would_prompt() {
                body["dry_run"] = json!(true);
                let plan = api.post("manifests:apply", body.clone()).await?;
                body["dry_run"] = json!(false);
                if let Some(removed) = removed(&plan) {
                    print_stderr(&removed);
                    self.confirm.for_one("this removes the manifests above and their waiting jobs")?;
                }
            }
            let plan = api.post("manifests:apply", body).await?;
            if self.target.json {
                print_json(&plan)?;
            } else {
                print(&changes(&plan))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// The removals, a line each; `None` if there are none.
fn removed(plan: &Value) -> Option<String> {
    let lines: Vec<String> =
        changes(plan).lines().filter(|line| line.starts_with("- ")).map(|line| format!("{line}\n")).collect();
    (!lines.is_empty()).then(|| lines.concat())
}

/// A line for each change, and the number of unchanged manifests and groups.
fn changes(plan: &Value) -> String {
    let mut text = String::new();
    let mut same = 0;
    for (what, word) in [("groups", "group"), ("manifests", "manifest")] {
        let Some(list) = plan.get(what) else { continue };
        let all = |name: &str| list.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        same += all("unchanged").len();
        for (sign, name) in [("+", "created"), ("~", "changed"), ("-", "removed")] {
            for one in all(name) {
                let key =
                    one.as_str().or_else(|| one.get("key")?.as_str()).or_else(|| one.get("name")?.as_str());
                text.push_str(&format!("{sign} {word} {}\n", sanitize(key.unwrap_or_default())));
            }
        }
    }
    if text.is_empty() {
        return format!("no changes ({same} unchanged)\n");
    }
    let dry = plan.get("dry_run").and_then(Value::as_bool) == Some(true);
    text + &format!("{same} unchanged{}\n", if dry { "; dry run, nothing was changed" } else { "" })
}
