//! `lineclear outbox replay` and `discard`: dead messages, by their ids or all.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget};
use crate::api_command::{print_answer, with_resource};
use crate::args::Confirm;
use crate::display::Progress;
use crate::failure::Failure;

const REPLAY_EXAMPLES: &str = "Examples:
  lineclear outbox replay main 4711
  lineclear outbox replay main 4711 4712
  lineclear outbox replay main --all --yes

With --all, the command asks for confirmation; without a terminal, --yes is required. Messages that die again meanwhile are not
replayed again. Receivers know a message that comes twice by its delivery id.";

const DISCARD_EXAMPLES: &str = "Examples:
  lineclear outbox discard main 4711
  lineclear outbox discard main --all --yes

Discarded messages cannot be restored. With --all, the command asks for confirmation; without a terminal, --yes is required.";

/// Some dead messages, or all.
#[derive(Args)]
struct Selection {
    /// Name of the outbox
    outbox: String,
    /// Ids of dead messages
    #[arg(value_name = "MESSAGE", conflicts_with = "all", num_args = 0..=1000)]
    messages: Vec<String>,
    /// All dead messages of the outbox
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(crate) struct Replay {
    #[command(flatten)]
    selection: Selection,
}

#[derive(Args)]
#[command(after_help = DISCARD_EXAMPLES)]
pub(crate) struct Discard {
    #[command(flatten)]
    selection: Selection,
}

impl Replay {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        self.selection.run("replay", "replayed")
    }
}

impl Discard {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        self.selection.run("discard", "discarded")
    }
}

fn count(response: &Value) -> u64 {
    response.get("count").and_then(Value::as_u64).unwrap_or_default()
}

impl Selection {
    fn run(self, verb: &str, done: &'static str) -> Result<ExitCode, Failure> {
        if self.messages.is_empty() && !self.all {
            let hint = format!("`lineclear outbox show {} --state dead` lists them", self.outbox);
            return Err(Failure::usage("select dead messages: their ids, or --all").hint(hint));
        }
        let outbox = &self.outbox;
        with_resource(&self.target, ("outboxes", Some("name")), outbox, async |api, target, path| {
            let path = format!("{path}/messages:{verb}");
            let sum = match self.all {
                true => self.sweep(api, &path, done).await?,
                false => count(&*api.post(&path, json!({"ids": self.messages})).await?),
            };
            let response = json!({"count": sum, "next": null});
            let messages = if sum == 1 { "message" } else { "messages" };
            print_answer(target, &response.into(), &format!("{sum} dead {messages} {done}"))
        })
    }

    /// All dead messages, in the order of their ids.
    async fn sweep(&self, api: &ApiClient, path: &str, done: &'static str) -> Result<u64, Failure> {
        self.confirm.for_many(&format!("all dead messages of {} are {done}", self.outbox))?;
        let mut progress = Progress::without_total(done, !self.target.json);
        let (mut sum, mut after) = (0, None::<String>);
        loop {
            let mut body = json!({"all": true});
            if let Some(after) = after {
                body["after"] = after.into();
            }
            let swept = api.post(path, body).await?;
            sum += count(&swept);
            after = swept.get("next").and_then(Value::as_str).map(str::to_owned);
            if after.is_none() {
                return Ok(sum);
            }
            progress.set(sum);
        }
    }
}
