//! Runners of the cluster page: work that runs on one node at a time, and the loops of all nodes.

use maud::{Markup, html};

use super::components::{cli_hint, first_line, moment, number};
use crate::api::runners::Runner;

/// Rows of each table.
const SHOWN: usize = 200;

/// The badge of a state.
pub(super) fn badge(state: &str) -> Markup {
    let (glyph, class, means) = match state {
        "running" => ("●", "running", "it runs on this node"),
        "waiting" => ("○", "scheduled", "another node runs it; this one would take over"),
        "failing" => ("!", "dead", "it runs on this node, fails, and is tried again"),
        "stopped" => ("⊘", "cancelled", "its program stopped it"),
        _ => ("◌", "retrying", "its node has not reported it lately"),
    };
    html! { span class={ "badge " (class) } title=(means) { span.glyph aria-hidden="true" { (glyph) } " " (state) } }
}

/// The tables.
pub(super) fn section(runners: &[Runner]) -> Markup {
    let is_loop = |runner: &&Runner| runner.kind.as_deref() == Some("loop");
    let (loops, singletons): (Vec<&Runner>, Vec<&Runner>) = runners.iter().partition(is_loop);
    let failing = loops.iter().filter(|runner| runner.state == "failing").count();
    html! {
        div.bar { h2 { "Runners" } span.muted { "work that runs on one node at a time" } }
        @if singletons.is_empty() {
            p.muted { "None. An outbox is one: its runner is listed here on each node that could run it." }
        } @else { (table(&singletons)) }
        @if !loops.is_empty() {
            details data-key="loops" open[failing > 0] {
                summary { (number(loops.len() as u64)) " loops of all nodes" @if failing > 0 { span.wrong { ", " (failing) " failing" } } }
                (table(&loops))
            }
        }
        (cli_hint("lineclear node runners"))
    }
}

fn table(runners: &[&Runner]) -> Markup {
    html! {
        div.scroll { table.list {
            thead { tr { @for name in ["Runner", "State", "Node", "Since", "Last error"] { th scope="col" { (name) } } } }
            tbody { @for runner in runners.iter().take(SHOWN) { (row(runner)) } }
        } }
        @if runners.len() > SHOWN { p.muted { "and " (number((runners.len() - SHOWN) as u64)) " more" } }
    }
}

fn row(runner: &Runner) -> Markup {
    html! {
        tr data-key={ "u" (runner.key) } {
            td {
                strong { (runner.name) }
                @if let Some(kind) = runner.kind.as_deref().filter(|kind| *kind != "loop") { " " span.muted { (kind) } }
            }
            td { (badge(runner.state)) }
            td { (runner.node) }
            td { @match runner.since() { Some(at) => (moment(at)), None => span.muted { "–" } } }
            td.error {
                @if let Some(error) = &runner.last_error {
                    span.wrong[runner.state == "failing"] { (first_line(error)) }
                    @if let Some(at) = runner.failed_at() { " " span.muted { (moment(at)) } }
                } @else { span.muted { "–" } }
            }
        }
    }
}
