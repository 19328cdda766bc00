//! Nodes: list, drain, resume.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear::read::NodeView;
use lineclear::store::NodeId;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::App;
use crate::api::json_types::{Id, PathParam, id, time};
use crate::api::pagination::Page;
use crate::auth::Caller;
use crate::problem::Problem;

/// Nodes in a response.
pub(crate) const NODES_MAX: u32 = 1_000;

/// What a node reports beside the state of its loops.
pub(crate) const NOT_LOOPS: [&str; 2] = ["clock", "submitters"];

/// A node; or a remote worker, which has the role `worker`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Node {
    id: Id,
    name: String,
    host: String,
    pid: u32,
    incarnation: String,
    version: String,
    #[schema(value_type = Vec<String>)]
    roles: Option<Box<RawValue>>,
    #[schema(value_type = Vec<String>)]
    routes: Option<Box<RawValue>>,
    /// The kinds that it runs; null if its version does not report them.
    #[schema(value_type = Option<Vec<String>>)]
    kinds: Option<Box<RawValue>>,
    slots: u32,
    /// The state of its loops: passes, failures, the last error, the time since the last pass.
    #[schema(value_type = Object)]
    runners: Option<Box<RawValue>>,
    started_at: String,
    seen_at: String,
    /// How far its clock is ahead of the database's, in milliseconds, measured with each heartbeat; null if not measured yet.
    clock_skew_ms: Option<i64>,
    /// Milliseconds since its last heartbeat, on the database's clock.
    silent_ms: i64,
    /// `alive`, `draining`, `drained`, `silent` or `lost`.
    state: &'static str,
    /// The number of jobs that it holds.
    holds: u64,
    /// Since when it drains.
    drain_at: Option<String>,
    /// Who drained it.
    drain_by: Option<String>,
}

impl Node {
    pub(crate) fn of(view: NodeView) -> Node {
        let raw = |text: String| RawValue::from_string(text).ok();
        let (state, clock_skew_ms) = (view.state(), view.clock_skew_ms());
        Node {
            id: Id::of(view.id),
            name: view.name,
            host: view.host,
            pid: view.pid,
            incarnation: view.incarnation,
            version: view.version,
            roles: raw(view.roles),
            routes: raw(view.routes),
            kinds: view.kinds.and_then(raw),
            slots: view.slots,
            runners: raw(loops_only(view.runners)),
            started_at: time(view.started_at),
            seen_at: time(view.seen_at),
            clock_skew_ms,
            silent_ms: (view.now.get() - view.seen_at.get()).max(0) / 1_000,
            state,
            holds: view.holds,
            drain_at: view.drain_at.map(time),
            drain_by: view.drain_by,
        }
    }
}

/// Removes the clock and the submitters from the report: they are not loops.
fn loops_only(report: String) -> String {
    let Ok(mut runners) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&report) else {
        return report;
    };
    runners.retain(|name, _| !NOT_LOOPS.contains(&name.as_str()));
    serde_json::json!(runners).to_string()
}

/// Lists nodes, last seen first, then remote workers, last seen first.
#[utoipa::path(
    get, path = "/nodes", operation_id = "list_nodes", tag = "nodes", security(("token" = ["read"])),
    responses((status = 200, body = Page<Node>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>) -> Result<Json<Page<Node>>, Problem> {
    let nodes = state.reading.nodes(NODES_MAX).await?;
    Ok(Json(Page::new(nodes.into_iter().map(Node::of).collect(), None)))
}

/// Drains a node: it takes no new jobs, plans nothing, and finishes the jobs that it holds. The process keeps running. It learns of this
/// at its next heartbeat, or at once. A restarted process is a new node, which takes work.
#[utoipa::path(
    post, path = "/nodes/{id}/drain", operation_id = "drain_node", tag = "nodes", security(("token" = ["operate"])),
    params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn drain(state: State<App>, caller: Caller, path: PathParam) -> Result<StatusCode, Problem> {
    let node = NodeId(id(&path.0, "node")?);
    found(state.client.store().drain_node(node, &caller.0.audit_name()).await?, node)
}

/// Resumes a draining node: it takes work again.
#[utoipa::path(
    post, path = "/nodes/{id}/resume", operation_id = "resume_node", tag = "nodes", security(("token" = ["operate"])),
    params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn resume(
    state: State<App>,
    caller: Caller,
    path: PathParam,
) -> Result<StatusCode, Problem> {
    let node = NodeId(id(&path.0, "node")?);
    found(state.client.store().resume_node(node, &caller.0.audit_name()).await?, node)
}

fn found(found: bool, node: NodeId) -> Result<StatusCode, Problem> {
    if found { Ok(StatusCode::NO_CONTENT) } else { Err(Problem::not_found(format_args!("node {node}"))) }
}
