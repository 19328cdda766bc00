//! What can be done to a node.

use axum::extract::State;
use axum::response::Response;
use lineclear::store::NodeId;
use lineclear::store::views::NodeView;
use maud::html;

use crate::App;
use crate::access::Who;
use crate::api::nodes::{self, NODES_MAX};
use crate::api::shape::{At, id};
use crate::pages::action::{Ask, done, page};
use crate::pages::{Page, Tab, View};
use crate::problem::Problem;

const BACK: &str = "/cluster";

async fn find(view: &View<'_>, text: &str) -> Result<NodeView, Problem> {
    let wanted = NodeId(id(text, "node")?);
    let nodes = view.app.reading.nodes(NODES_MAX).await?;
    let missing = || Problem::not_found(format_args!("node {wanted}"));
    nodes.into_iter().find(|node| node.id == wanted).ok_or_else(missing)
}

/// `GET /nodes/{id}/drain`.
pub(in crate::pages) async fn ask_drain(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let node = find(view, text).await?;
    Ok(page(
        view,
        Ask {
            title: format!("Drain node {}?", node.name),
            what: html! {
                p { "It takes no new jobs and plans no more. The " strong { (node.holds) } " that it holds go on to their end, and its API answers." }
                p.muted { "It can be told to take work again. A process that is started again is another node, which takes work." }
            },
            fields: html! {},
            button: "Drain it",
            danger: false,
            cli: format!("lineclear node drain {} --wait", node.name),
            back: BACK.to_owned(),
            tab: Tab::Cluster,
        },
    ))
}

pub(in crate::pages) async fn drain(state: State<App>, who: Who, at: At) -> Result<Response, Problem> {
    let app = state.0.clone();
    nodes::drain(state, who, at).await?;
    Ok(done(&app, BACK))
}

/// `GET /nodes/{id}/resume`.
pub(in crate::pages) async fn ask_resume(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let node = find(view, text).await?;
    Ok(page(
        view,
        Ask {
            title: format!("Let node {} take work again?", node.name),
            what: html! { p { "It takes jobs and plans, as it did before it was told to drain." } },
            fields: html! {},
            button: "Resume it",
            danger: false,
            cli: format!("lineclear node resume {}", node.name),
            back: BACK.to_owned(),
            tab: Tab::Cluster,
        },
    ))
}

pub(in crate::pages) async fn resume(state: State<App>, who: Who, at: At) -> Result<Response, Problem> {
    let app = state.0.clone();
    nodes::resume(state, who, at).await?;
    Ok(done(&app, BACK))
}
