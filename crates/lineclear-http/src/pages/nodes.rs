//! Nodes of the cluster page.

pub(super) mod drain;
pub(super) mod submitters;
pub(super) mod workers;

use std::collections::BTreeMap;

use lineclear::read::NodeView;
use lineclear_model::Scope;
use maud::{Markup, html};
use serde::Deserialize;

use crate::api::nodes::NOT_LOOPS;
use crate::pages::components::{cli_hint, empty_state, first_line, glyph, moment, number, since};
use crate::pages::{View, export};

/// A larger clock skew is a warning.
const SKEW_MAX_MS: i64 = 500;

/// The state of a loop, as its node reports it.
#[derive(Default, Deserialize)]
struct LoopState {
    #[serde(default)]
    passes: u64,
    #[serde(default)]
    failed: u64,
    idle_ms: Option<u64>,
    error: Option<String>,
}

fn badge(node: &NodeView) -> Markup {
    let state = node.state();
    html! { span class={ "badge " (state) } { span.glyph aria-hidden="true" { (glyph(state)) } " " (state) } }
}

/// A JSON list as text.
fn words(json: &str) -> String {
    serde_json::from_str::<Vec<String>>(json).unwrap_or_default().join(", ")
}

/// The clock skew, with a warning if it is large.
fn skew(node: &NodeView) -> Markup {
    match node.clock_skew_ms() {
        None => html! { span.muted { "–" } },
        Some(ms) if ms.abs() > SKEW_MAX_MS => {
            html! { span.wrong title="Schedules use the database's clock; logs and timeouts of this node use its own" { "! " (format!("{ms:+}")) " ms" } }
        }
        Some(ms) => html! { "±" (number(ms.unsigned_abs())) " ms" },
    }
}

/// The node of this server.
pub(super) fn this_node(nodes: &[NodeView], this: &str) -> Markup {
    html! {
        h1 { "Cluster" }
        @match nodes.iter().find(|node| node.incarnation == this) {
            Some(node) => section.card {
                h2 { "This node" }
                dl.facts {
                    div.fact { dt { "Name" } dd { strong { (node.name) } " " (badge(node)) } }
                    div.fact { dt { "Host" } dd { (node.host) } }
                    div.fact { dt { "PID" } dd { (node.pid) } }
                    div.fact { dt { "Up" } dd { (since(node.started_at)) } }
                    div.fact { dt { "Version" } dd { (node.version) } }
                    div.fact { dt { "Roles" } dd { (words(&node.roles)) } }
                }
            },
            None => p.muted { "This server runs no node." },
        }
    }
}

pub(super) fn section(view: &View<'_>, nodes: &[NodeView], this: &str) -> Markup {
    let mut all: Vec<&NodeView> = nodes.iter().filter(|node| !node.is_worker()).collect();
    if all.is_empty() {
        return html! { h2 { "Nodes" } (empty_state("No nodes yet", html! { p { "Start a process that runs jobs:" } (cli_hint("lineclear serve")) })) };
    }
    let is_gone = |node: &NodeView| !node.is_alive();
    all.sort_by(|one, other| (is_gone(one), &one.name, one.id).cmp(&(is_gone(other), &other.name, other.id)));
    let alive = all.iter().filter(|node| !is_gone(node)).count();
    html! {
        div.bar { h2 { "Nodes" } span.muted { (alive) " of " (all.len()) " alive" } (export::links(view, "/nodes")) }
        div.scroll { table.list {
            thead { tr {
                @for name in ["Node", "State", "Last heartbeat"] { th scope="col" { (name) } }
                th.number scope="col" { "Slots" }
                th.number scope="col" title="How far its clock is ahead of the database's, measured with each heartbeat" { "Clock" }
                @for name in ["Version", "Roles", "Drain"] { th scope="col" { (name) } }
                @if view.can(Scope::Operate) { th { span.hidden { "Actions" } } }
            } }
            tbody { @for node in all { (row(view, node, node.incarnation == this)) } }
        } }
    }
}

fn row(view: &View<'_>, node: &NodeView, is_this: bool) -> Markup {
    let mut runners: BTreeMap<String, LoopState> = BTreeMap::new();
    if let Ok(serde_json::Value::Object(all)) = serde_json::from_str(&node.runners) {
        for (name, runner) in all.into_iter().filter(|(name, _)| !NOT_LOOPS.contains(&name.as_str())) {
            runners.insert(name, serde_json::from_value(runner).unwrap_or_default());
        }
    }
    let failing = runners.values().filter(|runner| runner.error.is_some()).count();
    html! {
        tr data-key={ "n" (node.id) } {
            td {
                strong { (node.name) } @if is_this { " " span.badge.this { "this node" } }
                details data-key={ "r" (node.id) } {
                    summary { (runners.len()) @if runners.len() == 1 { " loop" } @else { " loops" } @if failing > 0 { span.wrong { ", " (failing) " failing" } } }
                    table { tbody { @for (name, runner) in &runners { tr {
                        td { (name) }
                        td { @if let Some(ms) = runner.idle_ms { "last pass " (moment(node.seen_at.offset(-i64::try_from(ms.saturating_mul(1_000)).unwrap_or(0)))) } @else { "no pass yet" } }
                        td.number { (number(runner.passes)) " passes" }
                        td.number { (number(runner.failed)) " failed" }
                        td.error { @if let Some(error) = &runner.error { span.wrong { (first_line(error)) } } }
                    } } } }
                    p.muted { "on " (node.host) ", PID " (node.pid) ", since " (moment(node.started_at)) " · routes " (words(&node.routes)) }
                }
            }
            td { (badge(node)) }
            td { (moment(node.seen_at)) }
            td.number { a href=(view.link(&format!("/jobs?q=state:running+node:{}", crate::pages::components::escape_query(&node.name)))) { (number(node.holds)) "/" (node.slots) } }
            td.number { (skew(node)) }
            td { (node.version) }
            td { (words(&node.roles)) }
            td { @if let Some(at) = node.drain_at { "since " (moment(at)) @if let Some(by) = &node.drain_by { " by " (by) } } @else { "–" } }
            @if view.can(Scope::Operate) { td { (drain_button(view, node)) } }
        }
    }
}

/// Drains a node or a remote worker, or lets it take work again.
fn drain_button(view: &View<'_>, node: &NodeView) -> Markup {
    html! {
        @if node.drain_at.is_some() { a.button href=(view.link(&format!("/nodes/{}/resume", node.id))) { "Resume" } }
        @else if node.is_alive() { a.button href=(view.link(&format!("/nodes/{}/drain", node.id))) { "Drain" } }
    }
}
