//! Drains and resumes a node.

use axum::extract::State;
use axum::response::Response;
use lineclear::read::NodeView;
use lineclear::store::NodeId;
use maud::html;

use crate::App;
use crate::api::json_types::{PathParam, id};
use crate::api::nodes::{self as api, NODES_MAX};
use crate::auth::Caller;
use crate::pages::confirm::{Confirmation, page, redirect};
use crate::pages::{Page, Tab, View};
use crate::problem::Problem;

const BACK: &str = "/cluster";

async fn find(view: &View<'_>, text: &str) -> Result<NodeView, Problem> {
    let wanted = NodeId(id(text, "node")?);
    let nodes = view.app.reading.nodes(NODES_MAX).await?;
    let missing = || Problem::not_found(format_args!("node {wanted}"));
    nodes.into_iter().find(|node| node.id == wanted).ok_or_else(missing)
}

/// Several workers may have one name.
fn cli_name(node: &NodeView) -> String {
    if node.is_worker() { node.id.to_string() } else { node.name.clone() }
}

/// `GET /nodes/{id}/drain`.
pub(in crate::pages) async fn confirm_drain(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let node = find(view, text).await?;
    Ok(page(
        view,
        Confirmation {
            title: format!("Drain node {}?", node.name),
            what: html! { @if node.is_worker() {
                p { "The remote worker gets no new jobs from the next heartbeat on. The " strong { (node.holds) } " jobs that it holds finish." }
                p.muted { "You can resume it. A restarted worker is a new one, which gets jobs." }
            } @else {
                p { "The node takes no new jobs and plans nothing. The " strong { (node.holds) } " jobs that it holds finish, and its API keeps answering." }
                p.muted { "You can resume it. A restarted process is a new node, which takes work." }
            } },
            fields: html! {},
            button: "Drain the node",
            danger: false,
            cli: format!("lineclear node drain {} --wait", cli_name(&node)),
            back: BACK.to_owned(),
            tab: Tab::Cluster,
        },
    ))
}

pub(in crate::pages) async fn drain(
    state: State<App>,
    caller: Caller,
    path: PathParam,
) -> Result<Response, Problem> {
    let app = state.0.clone();
    api::drain(state, caller, path).await?;
    Ok(redirect(&app, BACK))
}

/// `GET /nodes/{id}/resume`.
pub(in crate::pages) async fn confirm_resume(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let node = find(view, text).await?;
    Ok(page(
        view,
        Confirmation {
            title: format!("Resume node {}?", node.name),
            what: html! { p { "The node takes jobs and plans again." } },
            fields: html! {},
            button: "Resume the node",
            danger: false,
            cli: format!("lineclear node resume {}", cli_name(&node)),
            back: BACK.to_owned(),
            tab: Tab::Cluster,
        },
    ))
}

pub(in crate::pages) async fn resume(
    state: State<App>,
    caller: Caller,
    path: PathParam,
) -> Result<Response, Problem> {
    let app = state.0.clone();
    api::resume(state, caller, path).await?;
    Ok(redirect(&app, BACK))
}
