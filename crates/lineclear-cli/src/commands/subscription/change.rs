//! `lineclear subscription pause`, `resume`, `skip` and `reset`.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::One;
use crate::api_client::Json;
use crate::api_command::print_answer;
use crate::args::Confirm;
use crate::failure::Failure;

const PAUSE_EXAMPLES: &str = "Examples:
  lineclear subscription pause totals
  lineclear subscription pause totals --reason 'the schema changes'

When the command ends, no effect of the subscription's transactions is committed any more. A page of events that is being handled is
undone, and handled again after `lineclear subscription resume`.";

const SKIP_EXAMPLES: &str = "Examples:
  lineclear subscription skip totals
  lineclear subscription skip totals --position 4711 --yes

The subscription never handles that event; it stays in the log. With --position, nothing is skipped if the subscription fails at another
event by now. On a terminal, the command asks for confirmation unless --yes is given.";

const RESET_EXAMPLES: &str = "Examples:
  lineclear subscription reset mailer --to beginning --yes
  lineclear subscription reset mailer --to 4711 --yes
  lineclear subscription reset mailer --to end

What the handler has written is not touched: events that it handles again have their effects again, and events that are left out have
none. `lineclear subscription rebuild` writes the tables of a subscription anew. The command asks for confirmation; without a terminal,
--yes is required.";

#[derive(Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(crate) struct Pause {
    #[command(flatten)]
    one: One,
    /// Reason, shown with the subscription and kept in the audit
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Args)]
#[command(after_help = SKIP_EXAMPLES)]
pub(crate) struct Skip {
    #[command(flatten)]
    one: One,
    /// Position of the event that fails, as `show` prints it
    #[arg(long, value_name = "POSITION")]
    position: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Args)]
#[command(after_help = RESET_EXAMPLES)]
pub(crate) struct Reset {
    #[command(flatten)]
    one: One,
    /// beginning, end, or a position: it goes on with the event after that
    #[arg(long, value_name = "POSITION")]
    to: String,
    #[command(flatten)]
    confirm: Confirm,
}

fn is_changed(response: &Json) -> bool {
    response.get("changed").and_then(Value::as_bool) == Some(true)
}

fn position(response: &Json) -> &str {
    response.get("position").and_then(Value::as_str).unwrap_or_default()
}

impl Pause {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        self.one.with(async |api, target, path| {
            let body = self.reason.as_ref().map_or_else(|| json!({}), |reason| json!({"reason": reason}));
            let response = api.post(&format!("{path}/pause"), body).await?;
            let (name, at) = (&self.one.subscription, position(&response));
            let sentence = match is_changed(&response) {
                true => format!("{name} is paused at position {at}"),
                false => format!("{name} is paused already, at position {at}"),
            };
            print_answer(target, &response, &sentence)
        })
    }
}

pub(super) fn resume(one: &One) -> Result<ExitCode, Failure> {
    one.with(async |api, target, path| {
        let response = api.post(&format!("{path}/resume"), json!({})).await?;
        let (name, at) = (&one.subscription, position(&response));
        let sentence = match is_changed(&response) {
            true => format!("{name} goes on after position {at}"),
            false => format!("{name} is neither paused nor stopped"),
        };
        print_answer(target, &response, &sentence)
    })
}

impl Skip {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let name = &self.one.subscription;
        if self.confirm.would_prompt() {
            let which = self.position.as_ref().map_or_else(
                || "the event at which it fails".to_owned(),
                |position| format!("the event {position}"),
            );
            self.confirm.for_one(&format!("{name} never handles {which}"))?;
        }
        self.one.with(async |api, target, path| {
            let body =
                self.position.as_ref().map_or_else(|| json!({}), |position| json!({"position": position}));
            let response = api.post(&format!("{path}/skip"), body).await?;
            let sentence = format!("{name} goes on after position {}", position(&response));
            print_answer(target, &response, &sentence)
        })
    }
}

impl Reset {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let name = &self.one.subscription;
        let to = match self.to.as_str() {
            "beginning" => "the beginning of the log".to_owned(),
            "end" => "the end of the log".to_owned(),
            position => format!("position {position}"),
        };
        self.confirm
            .for_many(&format!("{name} goes on after {to}; what its handler has written is not touched"))?;
        self.one.with(async |api, target, path| {
            let response = api.post(&format!("{path}/reset"), json!({"to": self.to})).await?;
            let sentence = format!("{name} goes on after position {}", position(&response));
            print_answer(target, &response, &sentence)
        })
    }
}
