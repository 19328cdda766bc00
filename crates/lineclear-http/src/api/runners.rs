//! Runners of all nodes: work that runs on one node at a time, and the loops of nodes.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use lineclear::read::NodeView;
use lineclear_lock::RunnerRecord;
use lineclear_model::Micros;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::App;
use crate::api::json_types::time;
use crate::api::locks::{at, registry, registry_failed};
use crate::api::nodes::{NODES_MAX, NOT_LOOPS};
use crate::api::pagination::Page;
use crate::problem::Problem;

/// Runners in a response, besides loops.
pub(crate) const RUNNERS_MAX: u32 = 1_000;

/// A runner of a node.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Runner {
    /// Unique in a list, for pages.
    #[serde(skip)]
    pub(crate) key: String,
    /// The name of its lock, or of the loop.
    pub(crate) name: String,
    /// The kind of its work, such as `outbox`; `loop` for a loop of a node, which runs on every node.
    pub(crate) kind: Option<String>,
    pub(crate) node: String,
    pub(crate) machine: String,
    pub(crate) pid: u32,
    /// `waiting` (another node runs it), `running`, `failing`, `stopped`, or `stale`: its node has not reported it lately.
    pub(crate) state: &'static str,
    /// Since when; of a stale one, since when it was in the state that its node reported last.
    pub(crate) since: Option<String>,
    /// The number of its lock's holder, if its node is that.
    pub(crate) epoch: Option<String>,
    /// Failures in a row.
    pub(crate) failures: u64,
    pub(crate) last_error: Option<String>,
    pub(crate) failed_at: Option<String>,
    /// When its node reported it last.
    pub(crate) seen_at: Option<String>,
}

/// The state of a loop, as its node reports it.
#[derive(Default, Deserialize)]
struct LoopReport {
    error: Option<String>,
    state_ms: Option<i64>,
}

impl Runner {
    /// A runner of the registry. A node of the scheduler is known by its name.
    pub(crate) fn of(record: RunnerRecord, nodes: &[NodeView]) -> Runner {
        let is_it = |node: &&NodeView| node.host == record.machine && node.pid == record.pid;
        let node = nodes.iter().find(is_it).map(|node| node.name.clone());
        Runner {
            key: record.id.clone(),
            state: if record.is_stale() { "stale" } else { record.state.as_str() },
            since: at(record.since),
            epoch: record.epoch.map(|epoch| epoch.to_string()),
            failures: record.failures.into(),
            failed_at: record.failed_at.and_then(at),
            seen_at: at(record.renewed_at),
            node: node.unwrap_or(record.node),
            name: record.name,
            kind: record.kind,
            machine: record.machine,
            pid: record.pid,
            last_error: record.last_error,
        }
    }

    /// The loops of a node.
    fn loops(node: &NodeView) -> Vec<Runner> {
        let reports: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(&node.runners).unwrap_or_default();
        let loops = reports.into_iter().filter(|(name, _)| !NOT_LOOPS.contains(&name.as_str()));
        loops
            .map(|(name, report)| {
                let report: LoopReport = serde_json::from_value(report).unwrap_or_default();
                let since = |ms: i64| node.seen_at.offset(ms.saturating_mul(-1_000));
                Runner {
                    key: format!("{}/{name}", node.id),
                    name,
                    kind: Some("loop".to_owned()),
                    node: node.name.clone(),
                    machine: node.host.clone(),
                    pid: node.pid,
                    state: match (node.is_alive(), &report.error) {
                        (false, _) => "stale",
                        (true, Some(_)) => "failing",
                        (true, None) => "running",
                    },
                    since: report.state_ms.map(since).map(time),
                    epoch: None,
                    failures: u64::from(report.error.is_some()),
                    failed_at: None,
                    seen_at: Some(time(node.seen_at)),
                    last_error: report.error,
                }
            })
            .collect()
    }

    /// Since when, for pages.
    pub(crate) fn since(&self) -> Option<Micros> {
        moment(self.since.as_deref())
    }

    /// When it failed, for pages.
    pub(crate) fn failed_at(&self) -> Option<Micros> {
        moment(self.failed_at.as_deref())
    }
}

pub(crate) fn moment(text: Option<&str>) -> Option<Micros> {
    text?.parse::<jiff::Timestamp>().ok().map(Micros::from)
}

/// The JSON of a runner, for programs that read a registry themselves.
pub fn runner_json(record: RunnerRecord) -> serde_json::Value {
    serde_json::json!(Runner::of(record, &[]))
}

/// The runners of the registry, and the loops of nodes.
pub(crate) async fn all(app: &App, nodes: &[NodeView]) -> Result<Vec<Runner>, Problem> {
    let mut runners = Vec::new();
    if app.locks.is_some() {
        let records = registry(app)?.runners(RUNNERS_MAX).await.map_err(registry_failed)?;
        runners.extend(records.into_iter().map(|record| Runner::of(record, nodes)));
    }
    let loops = nodes.iter().filter(|node| !node.is_worker());
    runners.extend(loops.flat_map(Runner::loops));
    Ok(runners)
}

/// Lists the runners of all nodes by name: first work that runs on one node at a time, such as an outbox, then the loops of nodes. A
/// runner is listed for a minute after its node has stopped or vanished.
#[utoipa::path(
    get, path = "/runners", operation_id = "list_runners", tag = "nodes", security(("token" = ["read"])),
    responses((status = 200, body = Page<Runner>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>) -> Result<Json<Page<Runner>>, Problem> {
    let nodes = state.reading.nodes(NODES_MAX).await?;
    Ok(Json(Page::new(all(&state, &nodes).await?, None)))
}
