//! One subscription: its position, its actions and its parked events.

use lineclear_model::Scope;
use maud::{Markup, html};
use serde::Deserialize;

use super::{badge, lag, last_error, node, parked, path};
use crate::api::json_types::id;
use crate::api::nodes::NODES_MAX;
use crate::api::pagination::cursor;
use crate::api::subscriptions::{self as api, SubscriptionDetail, failed};
use crate::database_outboxes::in_time;
use crate::pages::components::{cli_hint, count, empty_state, first_line, number, shell_quote};
use crate::pages::{Page, Region, Tab, View};
use crate::problem::Problem;

const ROWS: u32 = 50;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    cursor: Option<String>,
}

/// `GET /subscriptions/{name}`.
pub(in crate::pages) async fn page(view: &View<'_>, name: &str) -> Result<Page, Problem> {
    let params: ListParams = view.params()?;
    let before = cursor(params.cursor.as_deref(), |text| id(text, "").ok())?;
    let (log, shown) = api::find(view.app, name).await?;
    let nodes = view.app.reading.nodes(NODES_MAX).await?;
    let one = SubscriptionDetail::of(&shown, &nodes);
    let found = in_time(log.parked_without_payloads(name, before, ROWS)).await.map_err(failed)?;
    let next = found.last().filter(|_| found.len() == ROWS as usize).map(|parked| parked.id);
    let address = |cursor: Option<i64>| {
        let cursor = cursor.map(|id| format!("?cursor={id}")).unwrap_or_default();
        view.link(&format!("{}{cursor}", path(name)))
    };
    let list = html! {
        h2 { "Parked events" }
        @if found.is_empty() { (empty_state(if before.is_some() { "No more parked events" } else { "No parked events" }, html! {})) }
        @else { (parked::table(view, name, &found)) }
        nav.pager aria-label="Pages" {
            @if before.is_some() { a.button href=(address(None)) { "Newest" } }
            @if let Some(next) = next { a.button rel="next" href=(address(Some(next))) { "Older" } }
        }
        (cli_hint(&format!("lineclear subscription parked {}", shell_quote(name))))
    };
    let regions = vec![Region::new("head", head(view, &one)), Region::new("list", list)];
    Ok(Page { title: format!("Subscription {name}"), tab: Tab::Outbox, regions, live: before.is_none() })
}

fn head(view: &View<'_>, one: &SubscriptionDetail) -> Markup {
    let fact = |name: &str, value: Markup| html! { div.fact { dt { (name) } dd { (value) } } };
    html! {
        div.bar {
            h1 { a href=(view.link("/subscriptions")) { "Subscription" } " " (one.name) " " (badge(one.state)) }
            @if view.can(Scope::Operate) { (buttons(view, one)) }
        }
        dl.facts {
            (fact("node", node(one)))
            (fact("nodes with a runner", html! { (number(one.runners)) }))
            (fact("effects", html! { @if one.kind == "transaction" { "in this database" } @else { "elsewhere" } }))
            (fact("version", html! { (one.version) }))
            (fact("position", html! { (one.position.as_str()) }))
            (fact("head", html! { (one.head.as_str()) }))
            (fact("behind", html! { (count(one.lag_events)) }))
            (fact("lag", lag(one)))
            (fact("handled", html! { (number(one.handled)) }))
            @if let Some(position) = &one.failed_position { (fact("fails at", html! { (position.as_str()) })) (fact("failures", html! { (one.failures) })) }
            @if one.last_error.is_some() { (fact("last error", last_error(one))) }
        }
        @if let Some(reason) = &one.reason { p.muted { (first_line(reason)) } }
        @if let Some(rebuild) = &one.rebuild {
            p {
                "Rebuild: version " (rebuild.version) " is " (rebuild.state) " at " (rebuild.position.as_str()) ", " (count(rebuild.lag_events)) " behind. "
                @if rebuild.swaps { "It takes the place of the active version as soon as it has caught up." } @else { "It waits for a swap." }
            }
            @if let Some(error) = &rebuild.last_error { p.wrong { (first_line(error)) } }
        }
        @if !one.waits_for.is_empty() {
            p { "It waits for open transactions that have appended events:" }
            ul { @for holder in &one.waits_for { li { (holder) } } }
        }
        (cli_hint(&format!("lineclear subscription show {}", shell_quote(&one.name))))
    }
}

/// The actions that make sense now.
fn buttons(view: &View<'_>, one: &SubscriptionDetail) -> Markup {
    let page = path(&one.name);
    let link = |verb: &str| view.link(&format!("{page}/{verb}"));
    html! {
        div.buttons {
            @if one.failed_position.is_some() { a.button.danger href=(link("skip")) { "Skip the event" } }
            @if matches!(one.state, "paused" | "stopped") { a.button.primary href=(link("resume")) { "Resume" } }
            @if one.state != "paused" { a.button href=(link("pause")) { "Pause" } }
            @match &one.rebuild {
                Some(rebuild) => {
                    @if !rebuild.swaps { a.button.primary href=(link("swap")) { "Swap" } }
                    a.button.danger href=(link("cancel-rebuild")) { "Cancel the rebuild" }
                }
                None => @if one.kind == "transaction" { a.button href=(link("rebuild")) { "Rebuild" } },
            }
            a.button.danger href=(link("reset")) { "Reset" }
            @if one.parked > 0 {
                a.button.primary href=(link("replay")) { "Replay all parked" }
                a.button.danger href=(link("discard")) { "Discard all parked" }
            }
        }
    }
}
