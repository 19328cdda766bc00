//! Remote workers of the cluster page.

use lineclear::read::NodeView;
use lineclear_model::Scope;
use maud::{Markup, html};

use super::{badge, words};
use crate::pages::View;
use crate::pages::components::{escape_query, moment, number, since};

/// Rows of the table.
const SHOWN: usize = 200;

/// Remote workers; nothing if none was heard of lately.
pub(in crate::pages) fn section(view: &View<'_>, nodes: &[NodeView]) -> Markup {
    // A worker that is gone and holds nothing needs no attention: workers that come and go would fill the page.
    let is_shown = |worker: &&NodeView| worker.is_worker() && (worker.is_alive() || worker.holds > 0);
    let mut workers: Vec<&NodeView> = nodes.iter().filter(is_shown).collect();
    if workers.is_empty() {
        return html! {};
    }
    workers.sort_by_key(|worker| (!worker.is_alive(), &worker.name, worker.id));
    let alive = workers.iter().filter(|worker| worker.is_alive()).count();
    html! {
        div.bar { h2 { "Remote workers" } span.muted { (alive) " alive" } }
        div.scroll { table.list {
            thead { tr {
                @for name in ["Worker", "State", "Last heard of", "Kinds"] { th scope="col" { (name) } }
                th.number scope="col" title="Jobs that it holds, of those that it can run at once" { "Slots" }
                @for name in ["Up", "Version"] { th scope="col" { (name) } }
                @if view.can(Scope::Operate) { th { span.hidden { "Actions" } } }
            } }
            tbody { @for worker in workers.iter().take(SHOWN) { (row(view, worker)) } }
        } }
        @if workers.len() > SHOWN { p.muted { "and " (number((workers.len() - SHOWN) as u64)) " more" } }
    }
}

fn row(view: &View<'_>, worker: &NodeView) -> Markup {
    let jobs = format!("/jobs?q=state:running+node:{}", escape_query(&worker.name));
    html! {
        tr data-key={ "w" (worker.id) } {
            td { strong { (worker.name) } " " span.muted { "on " (worker.host) ", PID " (worker.pid) } }
            td { (badge(worker)) }
            td { (moment(worker.seen_at)) }
            td { (words(worker.kinds.as_deref().unwrap_or_default())) }
            td.number { a href=(view.link(&jobs)) { (number(worker.holds)) "/" (worker.slots) } }
            td { (since(worker.started_at)) }
            td { (worker.version) }
            @if view.can(Scope::Operate) { td { (super::drain_button(view, worker)) } }
        }
    }
}
