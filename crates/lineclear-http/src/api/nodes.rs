//! Nodes: who is there, and who has gone silent.

use axum::Json;
use axum::extract::State;
use lineclear::store::views::NodeView;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::page::Page;
use super::shape::{Id, time};
use crate::App;
use crate::problem::Problem;

/// Nodes that are shown at most.
const NODES_MAX: u32 = 1_000;

/// A node.
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
    /// The kinds it runs; null: it is of a version that does not say.
    #[schema(value_type = Option<Vec<String>>)]
    kinds: Option<Box<RawValue>>,
    slots: u32,
    /// How its runners are: passes, failures, the last error, how long ago the last pass was.
    #[schema(value_type = Object)]
    runners: Option<Box<RawValue>>,
    started_at: String,
    seen_at: String,
    /// Milliseconds since it was last heard of, on the database's clock.
    silent_ms: i64,
}

impl Node {
    fn of(view: NodeView) -> Node {
        let raw = |text: String| RawValue::from_string(text).ok();
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
            runners: raw(view.runners),
            started_at: time(view.started_at),
            seen_at: time(view.seen_at),
            silent_ms: (view.now.get() - view.seen_at.get()).max(0) / 1_000,
        }
    }
}

/// Lists nodes, last seen first.
#[utoipa::path(
    get, path = "/nodes", operation_id = "list_nodes", tag = "nodes", security(("token" = ["read"])),
    responses((status = 200, body = Page<Node>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>) -> Result<Json<Page<Node>>, Problem> {
    let nodes = state.reading.nodes(NODES_MAX).await?;
    Ok(Json(Page::new(nodes.into_iter().map(Node::of).collect(), None)))
}
