//! Submitters: where the jobs of each kind go.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use lineclear::read::{NodeView, SubmitterView};
use lineclear::submitters::{ReportedSubmitter, SubmitterInfo};
use lineclear_model::Name;
use lineclear_model::job::PULL_PREFIX;
use serde::Serialize;
use utoipa::ToSchema;

use super::nodes::NODES_MAX;
use super::pagination::Page;
use crate::App;
use crate::problem::Problem;

/// Submitters in a response.
const SUBMITTERS_MAX: u32 = 1_000;
const PULL: &str = "pull";
/// The kind whose jobs wait for a host.
const HTTP: &str = "http";

/// A submitter: where jobs of some kinds go.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Submitter {
    /// Its name; `local` for the handlers of a node, `inline` for those that run inside the call that enqueues, `pull` for remote workers,
    /// `host api.example.com` for a host that jobs of the kind `http` do not call for now, because its last calls failed.
    pub(crate) name: String,
    /// The node whose submitter this is; null for remote workers, and for a submitter that no live node has.
    pub(crate) node: Option<String>,
    /// Kinds whose jobs go to it.
    pub(crate) kinds: Vec<String>,
    /// Where it sends jobs.
    pub(crate) target: String,
    /// `ready`, or why it takes no jobs, such as `breaker open`, `no node` or `no worker`.
    pub(crate) state: String,
    /// More about the state, such as the last error.
    pub(crate) detail: Option<String>,
    /// When it tries again.
    pub(crate) retry_in_ms: Option<u64>,
    /// Jobs that are with it now, from this node.
    pub(crate) in_flight: u64,
    /// Jobs that may be with it at once, from this node. 0: it takes none.
    pub(crate) capacity: u64,
    /// Jobs from all nodes that it has accepted and that have not ended.
    pub(crate) accepted: u64,
}

fn words(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_default()
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

impl Submitter {
    /// A submitter of the node that answers, as it is now.
    fn here(info: SubmitterInfo, node: &NodeView, accepted: u64) -> Submitter {
        Submitter {
            name: info.name,
            node: Some(node.name.clone()),
            kinds: info.kinds.iter().map(ToString::to_string).collect(),
            target: info.status.target,
            state: info.status.state,
            detail: info.status.detail,
            retry_in_ms: info.status.retry_in.map(millis),
            in_flight: info.in_flight.into(),
            capacity: info.capacity.into(),
            accepted,
        }
    }

    /// A submitter of another node, as of its last heartbeat.
    fn elsewhere(report: ReportedSubmitter, node: &NodeView, kinds: Vec<String>, accepted: u64) -> Submitter {
        let age = u64::try_from((node.now.get() - node.seen_at.get()) / 1_000).unwrap_or(0);
        Submitter {
            name: report.name,
            node: Some(node.name.clone()),
            kinds,
            target: report.target,
            state: report.state,
            detail: report.detail,
            retry_in_ms: report.retry_in_ms.map(|ms| ms.saturating_sub(age)),
            in_flight: report.in_flight.into(),
            capacity: report.capacity.into(),
            accepted,
        }
    }

    /// A submitter that no live node has.
    fn nowhere(view: SubmitterView, kinds: Vec<String>) -> Submitter {
        Submitter {
            name: view.name,
            node: None,
            kinds,
            target: view.target,
            state: "no node".to_owned(),
            detail: Some("no live node has it: start a node with this submitter".to_owned()),
            retry_in_ms: None,
            in_flight: 0,
            capacity: 0,
            accepted: view.holds,
        }
    }

    /// Remote workers, of all nodes.
    fn pulled(kinds: BTreeSet<String>, workers: &[&NodeView]) -> Submitter {
        let live: Vec<&&NodeView> = workers.iter().filter(|worker| worker.is_alive()).collect();
        let served: BTreeSet<String> =
            live.iter().flat_map(|worker| words(worker.kinds.as_deref().unwrap_or_default())).collect();
        let missing: Vec<&str> = kinds.difference(&served).map(String::as_str).collect();
        let state = if live.is_empty() && !kinds.is_empty() { "no worker" } else { "ready" };
        Submitter {
            name: PULL.to_owned(),
            node: None,
            target: match live.len() {
                1 => "1 remote worker".to_owned(),
                count => format!("{count} remote workers"),
            },
            state: state.to_owned(),
            detail: (!missing.is_empty()).then(|| format!("no live worker pulls {}", missing.join(", "))),
            retry_in_ms: None,
            in_flight: workers.iter().map(|worker| worker.holds).sum(),
            capacity: live.iter().map(|worker| u64::from(worker.slots)).sum(),
            accepted: 0,
            kinds: kinds.into_iter().collect(),
        }
    }
}

/// All submitters: of the node that answers, of other live nodes, and remote workers.
pub(crate) async fn all(app: &App, nodes: &[NodeView]) -> Result<Vec<Submitter>, Problem> {
    let (routes, known) =
        tokio::try_join!(app.reading.kind_routes(), app.reading.submitters(SUBMITTERS_MAX))?;
    let kinds_of = |route: &str| -> Vec<String> {
        let on = |(_, own): &&(Name, Name)| own.as_str() == route;
        routes.iter().filter(on).map(|(kind, _)| kind.to_string()).collect()
    };
    let accepted =
        |name: &str| known.iter().find(|submitter| submitter.name == name).map_or(0, |found| found.holds);
    let this = app.client.incarnation();
    let mut all = Vec::new();
    if let Some(node) = nodes.iter().find(|node| node.incarnation == this) {
        let own = app.client.submitters().into_iter().filter(|info| info.name != PULL);
        all.extend(own.map(|info| {
            let accepted = accepted(&info.name);
            Submitter::here(info, node, accepted)
        }));
    }
    for node in nodes.iter().filter(|node| node.incarnation != this && node.is_alive()) {
        all.extend(node.submitters().into_iter().map(|report| {
            let kinds = match report.is_host {
                true => vec![HTTP.to_owned()],
                false => kinds_of(&report.name),
            };
            let accepted = accepted(&report.name);
            Submitter::elsewhere(report, node, kinds, accepted)
        }));
    }
    for submitter in known {
        if !all.iter().any(|own: &Submitter| own.name == submitter.name) {
            let kinds = kinds_of(&submitter.name);
            all.push(Submitter::nowhere(submitter, kinds));
        }
    }
    let pulled = routes.iter().filter(|(_, route)| route.as_str().starts_with(PULL_PREFIX));
    let pulled: BTreeSet<String> = pulled.map(|(kind, _)| kind.to_string()).collect();
    let workers: Vec<&NodeView> = nodes.iter().filter(|node| node.is_worker()).collect();
    all.push(Submitter::pulled(pulled, &workers));
    Ok(all)
}

/// Lists where the jobs of each kind go: first the submitters of the node that answers, then those of other live nodes as of their last
/// heartbeat, then remote workers.
#[utoipa::path(
    get, path = "/submitters", operation_id = "list_submitters", tag = "nodes", security(("token" = ["read"])),
    responses((status = 200, body = Page<Submitter>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>) -> Result<Json<Page<Submitter>>, Problem> {
    let nodes = state.reading.nodes(NODES_MAX).await?;
    Ok(Json(Page::new(all(&state, &nodes).await?, None)))
}
