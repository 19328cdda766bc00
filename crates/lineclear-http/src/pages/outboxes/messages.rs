//! The messages of one outbox, and one message.

use lineclear_model::{Micros, Scope};
use lineclear_outbox::{MessageState, MessageView};
use maud::{Markup, html};
use serde::Deserialize;

use super::{lag, last_error, name_of, path, runner_badge};
use crate::api::json_types::id;
use crate::api::nodes::NODES_MAX;
use crate::api::outboxes::{self as api, OutboxState, failed, messages};
use crate::api::pagination::cursor;
use crate::database_outboxes::in_time;
use crate::pages::components::{
    cli_hint, count, empty_state, escape_query, first_line, glyph, moment, number,
};
use crate::pages::jobs::detail::json;
use crate::pages::{Page, Region, Tab, View};
use crate::problem::Problem;

const ROWS: u32 = 50;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    state: Option<String>,
    cursor: Option<String>,
}

fn micros(at: std::time::SystemTime) -> Micros {
    jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::MAX).into()
}

fn badge(state: MessageState) -> Markup {
    let class = match state {
        MessageState::Ready => "queued",
        MessageState::Waiting => "scheduled",
        MessageState::Dead => "dead",
        MessageState::Delivered => "completed",
    };
    html! { span class={ "badge " (class) } { span.glyph aria-hidden="true" { (glyph(class)) } " " (state.as_str()) } }
}

/// `GET /outbox/{name}`.
pub(in crate::pages) async fn page(view: &View<'_>, segment: &str) -> Result<Page, Problem> {
    let name = &name_of(segment);
    let params: ListParams = view.params()?;
    let before = cursor(params.cursor.as_deref(), |text| id(text, "").ok())?;
    let outbox = api::open(view.app, name).await?;
    let nodes = view.app.reading.nodes(NODES_MAX).await?;
    let all = api::all(view.app, &nodes).await?.unwrap_or_default();
    let missing = || Problem::not_found(format_args!("outbox {name:?} in this database"));
    let facts = all.into_iter().find(|facts| facts.name == *name).ok_or_else(missing)?;
    // Without a choice: what needs a person first.
    let state = match &params.state {
        None if facts.dead > 0 => MessageState::Dead,
        chosen => messages::state_of(chosen.as_deref())?,
    };
    let found = in_time(outbox.list(state, before, ROWS)).await.map_err(failed)?;
    let next = found.last().filter(|_| found.len() == ROWS as usize).map(|message| message.id);
    let address = |cursor: Option<i64>| {
        let cursor = cursor.map(|id| format!("&cursor={id}")).unwrap_or_default();
        view.link(&format!("{}?state={}{cursor}", path(name), state.as_str()))
    };
    let list = html! {
        @if found.is_empty() { (none(state, before.is_some())) }
        @else { (table(view, name, state, &found)) }
        nav.pager aria-label="Pages" {
            @if before.is_some() { a.button href=(address(None)) { "Newest" } }
            @if let Some(next) = next { a.button rel="next" href=(address(Some(next))) { "Older" } }
        }
        (cli_hint(&format!("lineclear outbox show {name} --state {}", state.as_str())))
    };
    let regions = vec![Region::new("head", head(view, &facts, state)), Region::new("list", list)];
    Ok(Page { title: format!("Outbox {name}"), tab: Tab::Outbox, regions, live: before.is_none() })
}

fn head(view: &View<'_>, facts: &OutboxState, state: MessageState) -> Markup {
    let page = path(&facts.name);
    let pill = |one: MessageState| {
        let much = match one {
            MessageState::Ready => Some(facts.ready),
            MessageState::Waiting => Some(facts.waiting),
            MessageState::Dead => Some(facts.dead),
            MessageState::Delivered => None,
        };
        html! {
            a.pill href=(view.link(&format!("{page}?state={}", one.as_str()))) aria-current=[(one == state).then_some("true")] {
                (one.as_str()) @if let Some(much) = much.filter(|much| *much > 0) { " " (count(much)) }
            }
        }
    };
    html! {
        div.bar {
            h1 { a href=(view.link("/outbox")) { "Outbox" } " " (facts.name) }
            @if view.can(Scope::Operate) && facts.dead > 0 { div.buttons {
                a.button.primary href=(view.link(&format!("{page}/replay"))) { "Replay all dead" }
                a.button.danger href=(view.link(&format!("{page}/discard"))) { "Discard all dead" }
            } }
        }
        dl.facts {
            div.fact { dt { "runner" } dd { (runner_badge(facts)) } }
            @if let Some(runner) = &facts.runner {
                div.fact { dt { "node" } dd { (runner.node) } }
                @if let Some(at) = runner.since() { div.fact { dt { "since" } dd { (moment(at)) } } }
            }
            div.fact { dt { "nodes with a runner" } dd { (number(facts.runners)) } }
            div.fact { dt { "lag" } dd { (lag(facts)) } }
            @if facts.last_error.is_some() { div.fact { dt { "last error" } dd { (last_error(facts)) } } }
        }
        div.bar { nav.pills aria-label="State" { @for one in MessageState::ALL { (pill(one)) } } }
    }
}

fn table(view: &View<'_>, name: &str, state: MessageState, found: &[MessageView]) -> Markup {
    let can_select = state == MessageState::Dead && view.can(Scope::Operate);
    let when = match state {
        MessageState::Ready | MessageState::Waiting => "Due",
        MessageState::Dead => "Died",
        MessageState::Delivered => "Delivered",
    };
    let page = path(name);
    html! {
        form #triage method="get" action=(view.link(&format!("{page}/replay"))) {
            @if can_select { div.bar.selection {
                button type="submit" { "Replay selected" }
                button type="submit" formaction=(view.link(&format!("{page}/discard"))) { "Discard selected" }
            } }
            div.scroll { table.list {
                thead { tr {
                    @if can_select { th.check scope="col" { span.hidden { "Select" } } }
                    @for head in ["Message", "Topic", "Key", "Written", when] { th scope="col" { (head) } }
                    th.number scope="col" { "Attempts" }
                    @if state != MessageState::Delivered { th scope="col" { "Last error" } }
                } }
                tbody { @for message in found { tr data-key={ "m" (message.id) } {
                    @if can_select { td.check { input type="checkbox" name="id" value=(message.id) aria-label={ "Message " (message.id) }; } }
                    td { a href=(view.link(&format!("{page}/messages/{}", message.id))) { (message.id) } }
                    td { (message.topic) }
                    td { @match &message.key { Some(key) => (first_line(key)), None => span.muted { "–" } } }
                    td { (moment(micros(message.created_at))) }
                    td { (moment(micros(message.at))) }
                    td.number { (number(message.attempts.into())) }
                    @if state != MessageState::Delivered { td.error { (message.last_error.as_deref().map(first_line).unwrap_or_default()) } }
                } } }
            } }
        }
    }
}

fn none(state: MessageState, is_later: bool) -> Markup {
    let what = match (is_later, state) {
        (true, _) => "No more messages",
        (_, MessageState::Ready) => "No message waits to be delivered now",
        (_, MessageState::Waiting) => "No message waits for a later time",
        (_, MessageState::Dead) => "No dead messages",
        (_, MessageState::Delivered) => "No delivered messages are kept",
    };
    empty_state(what, html! {})
}

/// `GET /outbox/{name}/messages/{id}`.
pub(in crate::pages) async fn message(view: &View<'_>, segment: &str, text: &str) -> Result<Page, Problem> {
    let found = messages::find(view.app, &name_of(segment), text).await?;
    let regions =
        vec![Region::new("head", message_head(view, &found)), Region::new("content", content(&found))];
    Ok(Page { title: format!("Message {}", found.id), tab: Tab::Outbox, regions, live: true })
}

fn message_head(view: &View<'_>, found: &MessageView) -> Markup {
    let page = path(&found.outbox);
    let fact = |name: &str, value: Markup| html! { div.fact { dt { (name) } dd { (value) } } };
    let when = match found.state {
        MessageState::Ready | MessageState::Waiting => "due",
        MessageState::Dead => "died",
        MessageState::Delivered => "delivered",
    };
    html! {
        div.bar {
            h1 { "Message " (found.id) " " (badge(found.state)) }
            @if view.can(Scope::Operate) && found.state == MessageState::Dead { div.buttons {
                a.button.primary href=(view.link(&format!("{page}/replay?id={}", found.id))) { "Replay" }
                a.button.danger href=(view.link(&format!("{page}/discard?id={}", found.id))) { "Discard" }
            } }
        }
        dl.facts {
            (fact("outbox", html! { a href=(view.link(&page)) { (found.outbox) } }))
            (fact("topic", html! { (found.topic) }))
            @if let Some(key) = &found.key { (fact("key", html! { code { (key) } })) }
            (fact("delivery id", html! { code { (found.delivery_id) } }))
            (fact("attempts", html! { (found.attempts) }))
            (fact("written", moment(micros(found.created_at))))
            (fact(when, moment(micros(found.at))))
        }
        @if let Some(error) = &found.last_error { pre.wrong { (error.chars().take(2_000).collect::<String>()) } }
        @if found.state == MessageState::Delivered {
            p.muted { "Delivered to the sink of its outbox. If that makes jobs: " a href=(view.link(&format!("/jobs?q={}", escape_query(&format!("kind:{}", found.topic))))) { "jobs of the kind " (found.topic) } "." }
        }
        (cli_hint(&format!("lineclear outbox show {} {}", found.outbox, found.id)))
    }
}

fn content(found: &MessageView) -> Markup {
    let card = |name: &str, text: Option<&str>| {
        html! {
            section.card {
                h2 { (name) }
                @match messages::masked(text) { Some(text) => (json(&text)), None => p.muted { "None." } }
            }
        }
    };
    html! { div.pair { (card("Payload", found.payload.as_deref())) (card("Headers", found.headers.as_deref())) } }
}
