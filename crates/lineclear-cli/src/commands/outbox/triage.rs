//! `lineclear outbox replay` and `discard`: dead messages, by their ids or all.

use std::process::ExitCode;

use clap::Args;

use crate::api_client::ApiTarget;
use crate::args::Confirm;
use crate::commands::triage::Triage;
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

impl Selection {
    fn run(self, verb: &str, done: &'static str) -> Result<ExitCode, Failure> {
        Triage {
            collection: "outboxes",
            name: &self.outbox,
            items: "messages",
            noun: "dead message",
            ids: &self.messages,
            all: self.all,
            confirm: &self.confirm,
            target: &self.target,
            lists: format!("lineclear outbox show {} --state dead", self.outbox),
        }
        .run(verb, done)
    }
}
