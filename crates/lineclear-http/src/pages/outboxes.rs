//! Outboxes: how far each is, and which node runs it.

pub(super) mod messages;
pub(super) mod triage;

use maud::{Markup, html};

use super::components::{cli_hint, count, duration, empty_state, first_line, moment, unescape_query};
use super::{Page, Region, Tab, View, runners};
use crate::api::nodes::NODES_MAX;
use crate::api::outboxes::{self as api, OutboxState};
use crate::problem::Problem;

/// An outbox whose first message has been due for longer needs attention.
const LAG_MAX_MS: u64 = 60_000;

/// Why an outbox needs attention.
fn trouble(outbox: &OutboxState) -> Option<(&'static str, String)> {
    let OutboxState { name, lag_ms, dead, runner, .. } = outbox;
    let is_late = outbox.ready > 0 && *lag_ms > LAG_MAX_MS;
    match runner {
        None if outbox.ready > 0 => {
            Some(("dead", format!("outbox {name}: no node runs it, and messages wait")))
        }
        Some(runner) if runner.state == "failing" => {
            let error = runner.last_error.as_deref().map(first_line).unwrap_or_default();
            Some(("dead", format!("outbox {name}: the runner on {} fails: {error}", runner.node)))
        }
        _ if is_late => Some((
            "retrying",
            format!("outbox {name}: the first message has been due for {}", duration(*lag_ms)),
        )),
        _ if *dead > 0 => Some(("retrying", format!("outbox {name}: {} dead messages", count(*dead)))),
        _ => None,
    }
}

/// Outboxes that need attention, for the overview. An outbox that cannot be read is told by its own page.
pub(super) async fn attention(view: &View<'_>) -> Vec<Markup> {
    let all = match api::all(view.app, &[]).await {
        Ok(all) => all.unwrap_or_default(),
        Err(problem) => {
            tracing::warn!(why = problem.detail(), "the outboxes cannot be read");
            return Vec::new();
        }
    };
    let rows = all.iter().filter_map(|outbox| {
        let (class, text) = trouble(outbox)?;
        let glyph = if class == "dead" { "✕" } else { "!" };
        Some(html! {
            li {
                span class={ "badge " (class) } { span.glyph aria-hidden="true" { (glyph) } " outbox" }
                span.grow { (text) }
                a.button href=(view.link(&path(&outbox.name))) { "Open" }
            }
        })
    });
    rows.collect()
}

/// The page of an outbox. The name of a partition contains a slash.
pub(super) fn path(name: &str) -> String {
    format!("/outbox/{}", name.replace('/', "%2F"))
}

/// The name in a path.
fn name_of(segment: &str) -> String {
    unescape_query(&segment.replace('+', "%2B"))
}

/// `GET /outbox`.
pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let nodes = view.app.reading.nodes(NODES_MAX).await?;
    let list = match api::all(view.app, &nodes).await? {
        None => no_tables(),
        Some(all) if all.is_empty() => empty_state(
            "No messages",
            html! {
                p { "The tables are there. An outbox is listed when a program has written a message to it, or a node runs it." }
                (cli_hint("lineclear outbox list"))
            },
        ),
        Some(all) => table(view, &all),
    };
    let head = html! {
        div.bar { h1 { "Outbox" } span.muted { "messages that programs write with their own rows, delivered by one runner" } }
        div.bar { nav.pills aria-label="Outbox" {
            a.pill href=(view.link("/outbox")) aria-current="true" { "outboxes" }
            a.pill href=(view.link("/subscriptions")) { "subscriptions" }
        } }
    };
    let regions = vec![Region::new("head", head), Region::new("list", list)];
    Ok(Page { title: "Outbox".to_owned(), tab: Tab::Outbox, regions, live: true })
}

/// What to do in a database without an outbox.
fn no_tables() -> Markup {
    empty_state(
        "No outbox in this database yet",
        html! {
            p { "A program writes messages in the transaction of its own rows, and a node delivers them: as jobs, or as signed calls. The first program or server that opens an outbox creates its tables. For a server, add to " code { "lineclear.toml" } ":" }
            pre { "[outbox.main]\nsink = \"jobs\"" }
            p { "In PostgreSQL, a message is then written with:" }
            pre { "select lineclear.outbox_write('mail.send', '{\"to\": \"ada@example.com\"}');" }
        },
    )
}

fn table(view: &View<'_>, all: &[OutboxState]) -> Markup {
    html! {
        div.scroll { table.list {
            thead { tr {
                th scope="col" { "Outbox" }
                th scope="col" { "Runner" }
                th scope="col" { "Node" }
                th.number scope="col" title="Messages to deliver now" { "Ready" }
                th.number scope="col" title="How long the first of them has been due" { "Lag" }
                th.number scope="col" title="Messages to deliver later" { "Waiting" }
                th.number scope="col" title="Messages that were not delivered" { "Dead" }
                th scope="col" { "Last error" }
            } }
            tbody { @for outbox in all { (row(view, outbox)) } }
        } }
        (cli_hint("lineclear outbox list"))
    }
}

fn row(view: &View<'_>, outbox: &OutboxState) -> Markup {
    let page = path(&outbox.name);
    let number = |count: u64, state: &str, class: &str| {
        html! { td.number { @if count > 0 { a class=(class) href=(view.link(&format!("{page}?state={state}"))) { (super::components::count(count)) } } @else { span.muted { "0" } } } }
    };
    html! {
        tr data-key={ "o" (outbox.name) } {
            td { a href=(view.link(&page)) { strong { (outbox.name) } } }
            td { (runner_badge(outbox)) }
            td { @match &outbox.runner { Some(runner) => (runner.node), None => span.muted { "–" } } }
            (number(outbox.ready, "ready", ""))
            td.number { (lag(outbox)) }
            (number(outbox.waiting, "waiting", ""))
            (number(outbox.dead, "dead", "wrong"))
            td.error { (last_error(outbox)) }
        }
    }
}

fn runner_badge(outbox: &OutboxState) -> Markup {
    match &outbox.runner {
        Some(runner) => runners::badge(runner.state),
        None => {
            html! { span.badge.retrying title="No node runs this outbox" { span.glyph aria-hidden="true" { "!" } " no runner" } }
        }
    }
}

fn lag(outbox: &OutboxState) -> Markup {
    html! {
        @if outbox.ready == 0 { span.muted { "–" } }
        @else { span.wrong[outbox.lag_ms > LAG_MAX_MS] { (duration(outbox.lag_ms)) } }
    }
}

/// The last error of the runner; an old one is muted.
fn last_error(outbox: &OutboxState) -> Markup {
    let is_failing = outbox.runner.as_ref().is_some_and(|runner| runner.state == "failing");
    html! {
        @match &outbox.last_error {
            Some(error) => {
                span.wrong[is_failing].muted[!is_failing] { (first_line(error)) }
                @if let Some(at) = outbox.runner.as_ref().and_then(|runner| runner.failed_at()) { " " span.muted { (moment(at)) } }
            }
            None => span.muted { "–" },
        }
    }
}
