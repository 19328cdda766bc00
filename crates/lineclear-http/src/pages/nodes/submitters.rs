//! Submitters of the cluster page: where the jobs of each kind go.

use maud::{Markup, html};

use crate::api::submitters::Submitter;
use crate::pages::View;
use crate::pages::components::{cli_hint, duration, escape_query, first_line, number};

/// Submitters; nothing if the nodes run all jobs themselves.
pub(in crate::pages) fn section(view: &View<'_>, submitters: &[Submitter]) -> Markup {
    let leaves = |submitter: &&Submitter| submitter.name != "local";
    if !submitters.iter().filter(leaves).any(|submitter| submitter.name != "pull" || has_work(submitter)) {
        return html! {};
    }
    let shown = submitters.iter().filter(|submitter| submitter.name != "pull" || has_work(submitter));
    html! {
        div.bar { h2 { "Submitters" } span.muted { "where the jobs of each kind go" } }
        div.scroll { table.list {
            thead { tr {
                @for name in ["Submitter", "State", "Kinds", "Target", "Node"] { th scope="col" { (name) } }
                th.number scope="col" title="Jobs that are with it from this node, of those that may be at once" { "In flight" }
                th.number scope="col" title="Jobs from all nodes that it has accepted and that have not ended" { "Accepted" }
            } }
            tbody { @for submitter in shown { (row(view, submitter)) } }
        } }
        (cli_hint("lineclear submitter list"))
    }
}

fn has_work(submitter: &Submitter) -> bool {
    !submitter.kinds.is_empty() || submitter.capacity > 0
}

fn row(view: &View<'_>, submitter: &Submitter) -> Markup {
    let Submitter { name, node, kinds, target, state, detail, retry_in_ms, in_flight, capacity, accepted } =
        submitter;
    let (class, glyph) = match (state.as_str(), *capacity) {
        ("ready", _) => ("completed", "✓"),
        (_, 0) => ("dead", "✕"),
        _ => ("retrying", "!"),
    };
    html! {
        tr data-key={ "s" (node.as_deref().unwrap_or_default()) "/" (name) } {
            td { strong { (name) } }
            td {
                span class={ "badge " (class) } { span.glyph aria-hidden="true" { (glyph) } " " (state) }
                @if let Some(ms) = retry_in_ms { " " span.muted { "tries again in " (duration(*ms)) } }
                @if let Some(detail) = detail { div.error { (first_line(detail)) } }
            }
            td { @if kinds.is_empty() { span.muted { "–" } } @else { (kinds.join(", ")) } }
            td.whole { (target) }
            td { @match node { Some(node) => (node), None => span.muted { "–" } } }
            td.number { (number(*in_flight)) "/" (number(*capacity)) }
            td.number { @if *accepted > 0 { a href=(view.link(&format!("/jobs?q=state:running+node:{}", escape_query(name)))) { (number(*accepted)) } } @else { "–" } }
        }
    }
}
