//! `lineclear node`: nodes, and whether they take work.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget, Json, path_segment};
use crate::api_command::{items, nearest, print_answer, with_api};
use crate::config::parse_duration;
use crate::display::{Cell, Column, OutputStyle, Progress, print_table};
use crate::failure::Failure;
use crate::output::print_stderr;
use crate::output::{print, print_json};
use crate::timeout::with_timeout;

/// How often `drain --wait` polls.
const POLL_EVERY: Duration = Duration::from_millis(300);
const TIMED_OUT: u8 = 7;

const EXAMPLES: &str = "Examples:
  lineclear node list
  lineclear node drain web-1/4711 --wait
  lineclear node resume 3";

const LIST_EXAMPLES: &str = "Examples:
  lineclear node list
  lineclear node list --json

States:
  alive     sent a heartbeat in the last 30 seconds
  draining  takes no new jobs and finishes those it holds
  drained   takes no new jobs and holds none
  silent    stopped, or sent no heartbeat for 30 seconds
  lost      silent while it held jobs; other nodes take these when its leases end

Remote workers have the role `worker`; `lineclear submitter list` shows where the jobs of each kind go.";

const RUNNERS_EXAMPLES: &str = "Examples:
  lineclear node runners
  lineclear node runners --json | jq '.items[] | select(.state == \"failing\")'

First work that runs on one node at a time, such as an outbox, then the loops of each node (of the kind `loop`).

States:
  running  it runs on this node
  waiting  another node runs it; this one would take over
  failing  it runs on this node, fails, and is tried again
  stopped  its program stopped it
  stale    its node has not reported it lately";

const DRAIN_EXAMPLES: &str = "Examples:
  lineclear node drain 3
  lineclear node drain web-1/4711 --wait --wait-timeout 10m

The node takes no new jobs and stops planning; the jobs it holds run to their end, and its API keeps responding. It drains at once on
PostgreSQL or if you send the request to its own server, otherwise at its next heartbeat. After a restart it is a new node and takes work.";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List nodes, latest heartbeat first, then remote workers.
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// List the runners of all nodes: state, since when, and last error.
    #[command(after_help = RUNNERS_EXAMPLES)]
    Runners(List),
    /// Drain a node: it takes no new jobs.
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(Drain),
    /// Resume a drained node: it takes jobs again.
    #[command(after_help = "Examples:\n  lineclear node resume 3")]
    Resume(One),
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: ApiTarget,
}

/// One node.
#[derive(Args)]
pub(crate) struct One {
    /// Id of the node, or its name if that is unique
    node: String,
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    one: One,
    /// Wait until the node holds no jobs
    #[arg(long)]
    wait: bool,
    /// With --wait: maximum time to wait
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = parse_duration)]
    wait_timeout: Option<Duration>,
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

/// Also of `lineclear lock runners`.
pub(crate) const RUNNER: &[Column] = &[
    Column { head: "RUNNER", of: |runner| Cell::text(runner.get("name")) },
    Column { head: "STATE", of: |runner| Cell::state(runner.get("state")) },
    Column { head: "NODE", of: |runner| Cell::text(runner.get("node")) },
    Column { head: "SINCE", of: |runner| Cell::time(runner.get("since")) },
    Column { head: "KIND", of: |runner| Cell::text(runner.get("kind")) },
    Column { head: "NUMBER", of: |runner| Cell::text(runner.get("epoch")) },
    Column { head: "ERROR", of: |runner| Cell::text(runner.get("last_error")) },
];

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(List { target }) => with_api(&target, async |api| {
                let all = api.get("nodes").await?;
                let (rows, style) = (items(&all), OutputStyle::detect());
                match rows.is_empty() && style.is_terminal {
                    _ if target.json => print_json(&all)?,
                    true => print("no nodes; `lineclear serve` or `lineclear work` starts one\n")?,
                    false => print_table(COLUMNS, &rows, &style)?,
                }
                Ok(ExitCode::SUCCESS)
            }),
            Command::Runners(List { target }) => with_api(&target, async |api| {
                let all = api.get("runners").await?;
                match target.json {
                    true => print_json(&all)?,
                    false => print_table(RUNNER, &items(&all), &OutputStyle::detect())?,
                }
                Ok(ExitCode::SUCCESS)
            }),
            Command::Drain(drain) => drain.run(),
            Command::Resume(one) => with_api(&one.target, async |api| {
                let id = one.find_id(api).await?;
                api.post(&format!("nodes/{}/resume", path_segment(&id)), Value::Null).await?;
                let now = fetch(api, &id).await?;
                print_answer(&one.target, &now, &format!("{} takes jobs again", describe(&now)))
            }),
        }
    }
}

fn text<'a>(node: &'a Value, name: &str) -> &'a str {
    node.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn describe(node: &Value) -> String {
    format!("node {} ({})", text(node, "id"), text(node, "name"))
}

impl One {
    /// Finds the node by its id, or by a name that only one live node has.
    async fn find_id(&self, api: &ApiClient) -> Result<String, Failure> {
        let all = items(&api.get("nodes").await?);
        if all.iter().any(|node| text(node, "id") == self.node) {
            return Ok(self.node.clone());
        }
        let mut named: Vec<&Json> = all.iter().filter(|node| text(node, "name") == self.node).collect();
        if named.len() > 1 {
            named.retain(|node| !["silent", "lost"].contains(&text(node, "state")));
        }
        match named[..] {
            [one] => Ok(text(one, "id").to_owned()),
            [] => {
                let unknown = Failure::coded(3, format!("node {:?} does not exist", self.node));
                let unknown = unknown.hint("`lineclear node list` lists all nodes");
                let names = all.iter().map(|node| text(node, "name").to_owned());
                Err(nearest(names, &self.node).map_or(unknown.clone(), |there| unknown.did_you_mean(&there)))
            }
            _ => Err(Failure::coded(5, format!("several nodes are named {:?}", self.node))
                .hint("use the id; `lineclear node list` shows it")),
        }
    }
}

async fn fetch(api: &ApiClient, id: &str) -> Result<Json, Failure> {
    let all = items(&api.get("nodes").await?);
    let found = all.into_iter().find(|node| text(node, "id") == id);
    found.ok_or_else(|| Failure::coded(3, format!("node {id} no longer exists")))
}

impl Drain {
    fn run(self) -> Result<ExitCode, Failure> {
        let Drain { one, wait, wait_timeout } = self;
        let mut last_seen = Json::default();
        with_api(&one.target, async |api| {
            let now = with_timeout(wait_timeout, async {
                let id = one.find_id(api).await?;
                api.post(&format!("nodes/{}/drain", path_segment(&id)), json!(null)).await?;
                last_seen = fetch(api, &id).await?;
                if wait {
                    wait_until_drained(api, &id, &mut last_seen, one.target.json).await
                } else {
                    Ok(last_seen.clone())
                }
            });
            let now = now.await?.ok_or_else(|| timed_out(&last_seen))?;
            let sentence = match text(&now, "state") {
                "drained" => format!("{} is drained", describe(&now)),
                "draining" => format!("{} is draining; {}", describe(&now), holding(&now)),
                state => format!("{} is {state} and did not get the request", describe(&now)),
            };
            print_answer(&one.target, &now, &sentence)
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

fn timed_out(last_seen: &Value) -> Failure {
    let (why, hint) = match last_seen {
        Value::Null => (
            "timed out before the server responded; the node may or may not drain".to_owned(),
            "lineclear node list",
        ),
        node => (
            format!("timed out; {} is still draining; {}", describe(node), holding(node)),
            "it continues to drain; repeat the command to wait again",
        ),
    };
    Failure::coded(TIMED_OUT, why).hint(hint)
}

/// Polls until the node holds no jobs.
async fn wait_until_drained(
    api: &ApiClient,
    id: &str,
    last_seen: &mut Json,
    quiet: bool,
) -> Result<Json, Failure> {
    let (mut most, mut progress) = (0, None);
    loop {
        let node = fetch(api, id).await?;
        last_seen.clone_from(&node);
        let left = holds(&node);
        match text(&node, "state") {
            "drained" => return Ok(node),
            state @ ("silent" | "lost") => {
                return Err(Failure::failed(format!("{} is {state}; {}", describe(&node), holding(&node))));
            }
            "alive" => {
                let why = format!("{} was resumed and takes jobs again", describe(&node));
                return Err(Failure::coded(5, why));
            }
            _ => {}
        }
        if left > most {
            // It may have taken more jobs before it got the request.
            most = left;
            if progress.is_none() && !quiet {
                print_stderr(&format!("{} is draining; {}\n", describe(&node), holding(&node)));
            }
            progress = Some(Progress::new("finished", most, quiet));
        }
        if let Some(progress) = &mut progress {
            progress.set(most - left);
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}
