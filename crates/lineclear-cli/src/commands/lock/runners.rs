//! `lineclear lock runners`: the runners of the registry.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::target::{LockTarget, failure, registry_of};
use crate::api_client::Json;
use crate::api_command::items;
use crate::commands::node::RUNNER;
use crate::display::{OutputStyle, print_table};
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Runners that are read.
const RUNNERS_MAX: u32 = 1_000;

const EXAMPLES: &str = "\
States:
  running  it runs on this node
  waiting  another node runs it; this one would take over
  failing  it runs on this node, fails, and is tried again
  stopped  its program stopped it
  stale    its node has not reported it lately

Examples:
  lineclear lock runners
  lineclear lock runners --store mysql://app@db.internal/app --json

`lineclear node runners` also shows the loops of a scheduler's nodes.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Runners {
    #[command(flatten)]
    target: LockTarget,
    /// Print the JSON of the API
    #[arg(long)]
    json: bool,
}

impl Runners {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let records = match &self.target.open_existing().await? {
            Some(locks) => {
                registry_of(locks, "runners cannot be listed")?.runners(RUNNERS_MAX).await.map_err(failure)?
            }
            None => Vec::new(),
        };
        let rows: Vec<Value> = records.into_iter().map(lineclear_http::runner_json).collect();
        let all: Json = json!({"items": rows, "next": null}).into();
        if self.json {
            print_json(&all)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (rows, style) = (items(&all), OutputStyle::detect());
        match rows.is_empty() && style.is_terminal {
            true => print("no runners are recorded for this store\n")?,
            false => print_table(RUNNER, &rows, &style)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
