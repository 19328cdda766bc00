//! Subscriptions: how far each is, and which node runs it.

pub(super) mod action;
pub(super) mod detail;
pub(super) mod parked;

use maud::{Markup, html};

use super::components::{cli_hint, count, duration, empty_state, escape_query, first_line, glyph, moment};
use super::{Page, Region, Tab, View};
use crate::api::nodes::NODES_MAX;
use crate::api::subscriptions::{self as api, SubscriptionDetail};
use crate::problem::Problem;

/// A subscription that is further behind needs attention.
const LAG_MAX_MS: u64 = 60_000;

/// Why a subscription needs attention.
fn trouble(one: &SubscriptionDetail) -> Option<(&'static str, String)> {
    let SubscriptionDetail { name, state, runner, lag_ms, .. } = one;
    let error = || one.last_error.as_deref().map(first_line).unwrap_or_default();
    let is_late = one.lag_events > 0 && *lag_ms > LAG_MAX_MS;
    match (*state, runner) {
        ("stopped", _) => Some(("dead", format!("subscription {name} stopped: {}", error()))),
        ("paused", _) => None,
        (_, None) if one.lag_events > 0 => {
            Some(("dead", format!("subscription {name}: no node runs it, and events wait")))
        }
        (_, Some(runner)) if runner.state == "failing" => {
            let error = runner.last_error.as_deref().map(first_line).unwrap_or_default();
            Some(("dead", format!("subscription {name}: the runner on {} fails: {error}", runner.node)))
        }
        _ if is_late => Some(("retrying", format!("subscription {name} is {} behind", duration(*lag_ms)))),
        _ if one.parked > 0 => {
            Some(("retrying", format!("subscription {name}: {} parked events", count(one.parked))))
        }
        _ => None,
    }
}

/// Subscriptions that need attention, for the overview. What cannot be read is told by their own page.
pub(super) async fn attention(view: &View<'_>) -> Vec<Markup> {
    let all = match api::all(view.app, &[]).await {
        Ok(all) => all.unwrap_or_default(),
        Err(problem) => {
            tracing::warn!(why = problem.detail(), "the subscriptions cannot be read");
            return Vec::new();
        }
    };
    let rows = all.iter().filter_map(|one| {
        let (class, text) = trouble(one)?;
        let glyph = if class == "dead" { "✕" } else { "!" };
        Some(html! {
            li {
                span class={ "badge " (class) } { span.glyph aria-hidden="true" { (glyph) } " subscription" }
                span.grow { (text) }
                a.button href=(view.link(&path(&one.name))) { "Open" }
            }
        })
    });
    rows.collect()
}

/// The page of a subscription.
pub(super) fn path(name: &str) -> String {
    format!("/subscriptions/{}", escape_query(name).replace('/', "%2F"))
}

/// `GET /subscriptions`.
pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let nodes = view.app.reading.nodes(NODES_MAX).await?;
    let list = match api::all(view.app, &nodes).await? {
        None => no_tables(),
        Some(all) if all.is_empty() => empty_state(
            "No subscriptions",
            html! {
                p { "The event log is there. A subscription is listed when a program has started it." }
                (cli_hint("lineclear subscription list"))
            },
        ),
        Some(all) => table(view, &all),
    };
    let head = html! {
        div.bar { h1 { "Subscriptions" } span.muted { "programs that read the event log in order, on one node at a time" } }
        div.bar { nav.pills aria-label="Outbox" {
            a.pill href=(view.link("/outbox")) { "outboxes" }
            a.pill href=(view.link("/subscriptions")) aria-current="true" { "subscriptions" }
        } }
    };
    let regions = vec![Region::new("head", head), Region::new("list", list)];
    Ok(Page { title: "Subscriptions".to_owned(), tab: Tab::Outbox, regions, live: true })
}

/// What to do in a database without an event log.
fn no_tables() -> Markup {
    empty_state(
        "No event log in this database yet",
        html! {
            p { "Programs append events in the transactions of their own rows, and subscriptions handle all of them in order. The first program that opens the log creates its tables:" }
            pre { "let log = EventLog::open(url).await?;\nlog.subscribe(\"mailer\", handler).await?;" }
        },
    )
}

fn table(view: &View<'_>, all: &[SubscriptionDetail]) -> Markup {
    html! {
        div.scroll { table.list {
            thead { tr {
                th scope="col" { "Subscription" }
                th scope="col" { "State" }
                th scope="col" { "Node" }
                th.number scope="col" title="All events up to here are handled, parked or filtered out" { "Position" }
                th.number scope="col" title="The last event of the log" { "Head" }
                th.number scope="col" title="Events after its position" { "Behind" }
                th.number scope="col" title="The age of the first of them" { "Lag" }
                th.number scope="col" title="Events that failed too often" { "Parked" }
                th scope="col" { "Last error" }
            } }
            tbody { @for one in all { (row(view, one)) } }
        } }
        (cli_hint("lineclear subscription list"))
    }
}

fn row(view: &View<'_>, one: &SubscriptionDetail) -> Markup {
    let page = path(&one.name);
    html! {
        tr data-key={ "s" (one.name) } {
            td { a href=(view.link(&page)) { strong { (one.name) } } }
            td { (badge(one.state)) }
            td { (node(one)) }
            td.number { (one.position.as_str()) }
            td.number { (one.head.as_str()) }
            td.number { (count(one.lag_events)) }
            td.number { (lag(one)) }
            td.number { @if one.parked > 0 { a.wrong href=(view.link(&page)) { (count(one.parked)) } } @else { span.muted { "0" } } }
            td.error { (last_error(one)) }
        }
    }
}

fn badge(state: &str) -> Markup {
    let (class, means) = match state {
        "running" => ("running", "it handles events, if a node runs it"),
        "paused" => ("scheduled", "an operator paused it"),
        "stopped" => ("dead", "it stopped at an event that fails"),
        _ => ("retrying", "it handles events, and its next version reads the log from its start"),
    };
    html! { span class={ "badge " (class) } title=(means) { span.glyph aria-hidden="true" { (glyph(class)) } " " (state) } }
}

fn node(one: &SubscriptionDetail) -> Markup {
    html! {
        @match &one.runner {
            Some(runner) => { (runner.node) @if runner.state != "running" { " " (super::runners::badge(runner.state)) } }
            None => span.muted title="No node runs this subscription" { "–" },
        }
    }
}

fn lag(one: &SubscriptionDetail) -> Markup {
    html! {
        @if one.lag_events == 0 { span.muted { "–" } }
        @else { span.wrong[one.lag_ms > LAG_MAX_MS] { (duration(one.lag_ms)) } }
    }
}

/// The last error; an old one is muted.
fn last_error(one: &SubscriptionDetail) -> Markup {
    let is_failing = one.failed_position.is_some();
    html! {
        @match &one.last_error {
            Some(error) => {
                span.wrong[is_failing].muted[!is_failing] { (first_line(error)) }
                @if let Some(at) = one.failed_at() { " " span.muted { (moment(at)) } }
            }
            None => span.muted { "–" },
        }
    }
}
