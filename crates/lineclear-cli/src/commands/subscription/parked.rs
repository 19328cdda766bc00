//! `lineclear subscription parked`, `replay` and `discard`: events that failed too often.

use std::process::ExitCode;

use clap::Args;

use crate::api_client::{ApiTarget, path_segment};
use crate::api_command::{PageArgs, print_list, print_one, with_resource};
use crate::args::Confirm;
use crate::commands::triage::Triage;
use crate::display::{Cell, Column};
use crate::failure::Failure;

const PARKED_EXAMPLES: &str = "Examples:
  lineclear subscription parked mailer
  lineclear subscription parked mailer --all --json
  lineclear subscription parked mailer 17

With an id, the payload and the headers are shown, too; values that look like secrets are masked.";

const REPLAY_EXAMPLES: &str = "Examples:
  lineclear subscription replay mailer 17
  lineclear subscription replay mailer --all --yes

Each is handled once, after events that came later. One that fails again stays parked. With --all, the command asks for confirmation;
without a terminal, --yes is required.";

const DISCARD_EXAMPLES: &str = "Examples:
  lineclear subscription discard mailer 17
  lineclear subscription discard mailer --all --yes

The events stay in the log. With --all, the command asks for confirmation; without a terminal, --yes is required.";

const ROWS: &[Column] = &[
    Column { head: "ID", of: |parked| Cell::text(parked.get("id")) },
    Column { head: "POSITION", of: |parked| Cell::text(parked.get("position")) },
    Column { head: "TYPE", of: |parked| Cell::text(parked.get("type")) },
    Column { head: "STREAM", of: |parked| Cell::text(parked.get("stream")) },
    Column { head: "ATTEMPTS", of: |parked| Cell::text(parked.get("attempts")) },
    Column { head: "PARKED", of: |parked| Cell::time(parked.get("parked_at")) },
    Column { head: "REPLAYS", of: |parked| Cell::text(parked.get("replays")) },
    Column { head: "ERROR", of: |parked| Cell::text(parked.get("last_error")) },
];

const DETAIL: &[Column] = &[
    Column { head: "id", of: |parked| Cell::text(parked.get("id")) },
    Column { head: "position", of: |parked| Cell::text(parked.get("position")) },
    Column { head: "type", of: |parked| Cell::text(parked.get("type")) },
    Column { head: "stream", of: |parked| Cell::text(parked.get("stream")) },
    Column { head: "version", of: |parked| Cell::text(parked.get("version")) },
    Column { head: "event id", of: |parked| Cell::text(parked.get("event_id")) },
    Column { head: "attempts", of: |parked| Cell::text(parked.get("attempts")) },
    Column { head: "parked", of: |parked| Cell::time(parked.get("parked_at")) },
    Column { head: "replays", of: |parked| Cell::text(parked.get("replays")) },
    Column { head: "last error", of: |parked| Cell::text(parked.get("last_error")) },
    Column { head: "headers", of: |parked| Cell::raw_json(parked.field("headers")) },
    Column { head: "payload", of: |parked| Cell::raw_json(parked.field("payload")) },
];

#[derive(Args)]
#[command(after_help = PARKED_EXAMPLES)]
pub(crate) struct Parked {
    /// Name of the subscription
    subscription: String,
    /// Id of a parked event
    #[arg(value_name = "EVENT", conflicts_with_all = ["limit", "all"])]
    event: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    target: ApiTarget,
}

impl Parked {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let resource = ("subscriptions", Some("name"));
        with_resource(&self.target, resource, &self.subscription, async |api, target, path| {
            let path = format!("{path}/parked");
            if let Some(id) = &self.event {
                let parked = api.get(&format!("{path}/{}", path_segment(id))).await?;
                return print_one(target, &parked, DETAIL);
            }
            let empty = "no event of this subscription is parked";
            print_list(api, target, (&path, &[]), &self.page, ROWS, empty).await
        })
    }
}

/// Some parked events, or all.
#[derive(Args)]
struct Selection {
    /// Name of the subscription
    subscription: String,
    /// Ids of parked events
    #[arg(value_name = "EVENT", conflicts_with = "all", num_args = 0..=1000)]
    events: Vec<String>,
    /// All parked events of the subscription
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
            collection: "subscriptions",
            name: &self.subscription,
            items: "parked",
            noun: "parked event",
            ids: &self.events,
            all: self.all,
            confirm: &self.confirm,
            target: &self.target,
            lists: format!("lineclear subscription parked {}", self.subscription),
        }
        .run(verb, done)
    }
}
