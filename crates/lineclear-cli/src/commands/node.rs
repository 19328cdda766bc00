//! `lineclear node`: who is there, and who takes work.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ask::{asking, nearest, only, say_or_json};
use super::within::within;
use crate::api::{Api, At, Json, piece};
use crate::config::span;
use crate::failure::{Failure, say};
use crate::output::{print, print_json};
use crate::show::{Cell, Column, Look, Progress, list};

/// How often a node is looked at.
const LOOK: Duration = Duration::from_millis(300);
const TOO_LATE: u8 = 7;

const EXAMPLES: &str = "Examples:
  lineclear node list
  lineclear node drain web-1/4711 --wait
  lineclear node resume 3";

const LIST_EXAMPLES: &str = "Examples:
  lineclear node list
  lineclear node list --json

States:
  alive     it was heard of in the last 30 seconds
  draining  it was told to take nothing new, and finishes what it holds
  drained   it holds nothing any more
  silent    it has stopped, or was not heard of for 30 seconds
  lost      it is silent with jobs in its hands, which others take when its leases end";

const DRAIN_EXAMPLES: &str = "Examples:
  lineclear node drain 3
  lineclear node drain web-1/4711 --wait --within 10m

It takes no new jobs and plans no more; what it holds goes on to its end, and its API answers. It hears of it at once on PostgreSQL or when
you ask its own server, and otherwise with its next heartbeat. When it is started again, it takes work: that is another node.";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Lists nodes, the last heard of first.
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Tells a node to take nothing new.
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(Drain),
    /// Tells a node that drains to take work again.
    #[command(after_help = "Examples:\n  lineclear node resume 3")]
    Resume(One),
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    at: At,
}

/// One node.
#[derive(Args)]
pub(crate) struct One {
    /// The node's id, or its name if no other has it
    node: String,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    one: One,
    /// Waits until it holds nothing
    #[arg(long)]
    wait: bool,
    /// With --wait: no longer than this
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = span)]
    within: Option<Duration>,
}

const COLUMNS: &[Column] = &[
    Column { head: "ID", of: |node| Cell::text(node.get("id")) },
    Column { head: "NAME", of: |node| Cell::text(node.get("name")) },
    Column { head: "STATE", of: |node| Cell::state(node.get("state")) },
    Column { head: "HOLDS", of: |node| Cell::text(node.get("holds")) },
    Column { head: "SLOTS", of: |node| Cell::text(node.get("slots")) },
    Column { head: "SEEN", of: |node| Cell::time(node.get("seen_at")) },
    Column { head: "STARTED", of: |node| Cell::time(node.get("started_at")) },
    Column { head: "VERSION", of: |node| Cell::text(node.get("version")) },
    Column { head: "ROLES", of: |node| Cell::text(node.get("roles")) },
    Column { head: "ROUTES", of: |node| Cell::text(node.get("routes")) },
    Column { head: "KINDS", of: |node| Cell::text(node.get("kinds")) },
];

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(List { at }) => asking(&at, async |api| {
                let all = api.get("nodes").await?;
                let (rows, look) = (only(&all), Look::here());
                match rows.is_empty() && look.is_terminal {
                    _ if at.json => print_json(&all)?,
                    true => print("no nodes; `lineclear serve` or `lineclear work` starts one\n")?,
                    false => list(COLUMNS, &rows, &look)?,
                }
                Ok(ExitCode::SUCCESS)
            }),
            Command::Drain(drain) => drain.run(),
            Command::Resume(one) => asking(&one.at, async |api| {
                let id = one.id(api).await?;
                api.post(&format!("nodes/{}/resume", piece(&id)), Value::Null).await?;
                let now = found(api, &id).await?;
                say_or_json(&one.at, &now, &format!("{} takes work again", named(&now)))
            }),
        }
    }
}

fn text<'a>(node: &'a Value, name: &str) -> &'a str {
    node.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn named(node: &Value) -> String {
    format!("node {} ({})", text(node, "id"), text(node, "name"))
}

impl One {
    /// Which one is meant: by its id, or by a name that one of those that are alive has.
    async fn id(&self, api: &Api) -> Result<String, Failure> {
        let all = only(&api.get("nodes").await?);
        if all.iter().any(|node| text(node, "id") == self.node) {
            return Ok(self.node.clone());
        }
        let mut so_named: Vec<&Json> = all.iter().filter(|node| text(node, "name") == self.node).collect();
        if so_named.len() > 1 {
            so_named.retain(|node| !["silent", "lost"].contains(&text(node, "state")));
        }
        match so_named[..] {
            [one] => Ok(text(one, "id").to_owned()),
            [] => {
                let unknown = Failure::coded(3, format!("there is no node {:?}", self.node));
                let unknown = unknown.hint("`lineclear node list` shows all");
                let names = all.iter().map(|node| text(node, "name").to_owned());
                Err(nearest(names, &self.node).map_or(unknown.clone(), |there| unknown.nearest(&there)))
            }
            _ => Err(Failure::coded(5, format!("more than one node is named {:?}", self.node))
                .hint("say which by its id; `lineclear node list` shows it")),
        }
    }
}

async fn found(api: &Api, id: &str) -> Result<Json, Failure> {
    let all = only(&api.get("nodes").await?);
    let found = all.into_iter().find(|node| text(node, "id") == id);
    found.ok_or_else(|| Failure::coded(3, format!("node {id} is not there any more")))
}

impl Drain {
    fn run(self) -> Result<ExitCode, Failure> {
        let Drain { one, wait, within: limit } = self;
        let mut seen = Json::default();
        asking(&one.at, async |api| {
            let now = within(limit, async {
                let id = one.id(api).await?;
                api.post(&format!("nodes/{}/drain", piece(&id)), json!(null)).await?;
                seen = found(api, &id).await?;
                if wait { drained(api, &id, &mut seen, one.at.json).await } else { Ok(seen.clone()) }
            });
            let now = now.await?.ok_or_else(|| too_late(&seen))?;
            let sentence = match text(&now, "state") {
                "drained" => format!("{} holds nothing", named(&now)),
                "draining" => format!("{} is told to take nothing new; {}", named(&now), holding(&now)),
                state => format!("{} is {state}: it has not heard of it", named(&now)),
            };
            say_or_json(&one.at, &now, &sentence)
        })
    }
}

fn holds(node: &Value) -> u64 {
    node.get("holds").and_then(Value::as_u64).unwrap_or_default()
}

fn holding(node: &Value) -> String {
    match holds(node) {
        1 => "it holds 1 job".to_owned(),
        holds => format!("it holds {holds} jobs"),
    }
}

/// There was no more time.
fn too_late(seen: &Value) -> Failure {
    let (why, hint) = match seen {
        Value::Null => {
            ("there was no answer in time: whether it drains is not known".to_owned(), "lineclear node list")
        }
        node => (
            format!("{} still drains; {}", named(node), holding(node)),
            "it goes on draining; wait again with the same command",
        ),
    };
    Failure::coded(TOO_LATE, why).hint(hint)
}

/// Waits until it holds nothing.
async fn drained(api: &Api, id: &str, seen: &mut Json, quiet: bool) -> Result<Json, Failure> {
    let (mut most, mut progress) = (0, None);
    loop {
        let node = found(api, id).await?;
        seen.clone_from(&node);
        let left = holds(&node);
        match text(&node, "state") {
            "drained" => return Ok(node),
            state @ ("silent" | "lost") => {
                return Err(Failure::failed(format!("{} is {state}; {}", named(&node), holding(&node))));
            }
            "alive" => {
                let why = format!("{} takes work again: somebody has resumed it", named(&node));
                return Err(Failure::coded(5, why));
            }
            _ => {}
        }
        if left > most {
            // It may have taken some before it heard of it.
            most = left;
            if progress.is_none() && !quiet {
                say(&format!("{} drains; {}\n", named(&node), holding(&node)));
            }
            progress = Some(Progress::new("finished", most, quiet));
        }
        if let Some(progress) = &mut progress {
            progress.at(most - left);
        }
        tokio::time::sleep(LOOK).await;
    }
}
