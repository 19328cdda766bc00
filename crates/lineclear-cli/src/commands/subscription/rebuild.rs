//! `lineclear subscription rebuild`.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::One;
use crate::api_command::print_answer;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  lineclear subscription rebuild totals
  lineclear subscription rebuild totals --on-request
  lineclear subscription rebuild totals --swap
  lineclear subscription rebuild totals --cancel

The node that runs the subscription does the work, with the handler of its program, which must write each version into tables of its
own. The active version goes on meanwhile. Without a node that runs it, the rebuild begins when a program starts the subscription. Only
subscriptions whose effects are in this database can be rebuilt; others can be reset.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rebuild {
    #[command(flatten)]
    one: One,
    /// Take the place of the active version only after --swap
    #[arg(long, conflicts_with_all = ["swap", "cancel"])]
    on_request: bool,
    /// Let the rebuild that goes on take the place of the active version as soon as it has caught up
    #[arg(long, conflicts_with = "cancel")]
    swap: bool,
    /// End the rebuild that goes on; the active version is as it was
    #[arg(long)]
    cancel: bool,
}

impl Rebuild {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (verb, body) = match (self.swap, self.cancel) {
            (true, _) => ("rebuild:swap", json!({})),
            (_, true) => ("rebuild:cancel", json!({})),
            _ => ("rebuild", json!({"on_request": self.on_request})),
        };
        self.one.with(async |api, target, path| {
            let response = api.post(&format!("{path}/{verb}"), body).await?;
            let name = &self.one.subscription;
            let version = response.get("version").and_then(Value::as_i64).unwrap_or_default();
            let sentence = match (self.cancel, self.swap, response.get("node").and_then(Value::as_str)) {
                (true, ..) => format!("version {version} of {name} is cancelled"),
                (_, true, _) => {
                    format!("version {version} of {name} takes the place of the active one as soon as it has caught up")
                }
                (.., Some(node)) => format!(
                    "{node} builds version {version} of {name}; follow it with: lineclear subscription show {name}"
                ),
                (.., None) => format!(
                    "version {version} of {name} is noted; no node runs {name} now, so start the program that subscribes it"
                ),
            };
            print_answer(target, &response, &sentence)
        })
    }
}
