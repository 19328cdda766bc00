//! Parked events, and what becomes of them.

use axum::extract::State;
use axum::response::Response;
use lineclear_model::{Micros, Scope};
use lineclear_outbox::ParkedEvent;
use maud::{Markup, html};
use serde::Deserialize;

use super::path;
use crate::App;
use crate::api::json_types::{PathParam, id};
use crate::api::outboxes::messages::masked;
use crate::api::subscriptions::{self as api};
use crate::api::triage::Triage;
use crate::audit::AuditDetails;
use crate::pages::components::{cli_hint, count, first_line, moment, shell_quote};
use crate::pages::confirm::{Confirmation, FormBody, page};
use crate::pages::jobs::detail::json;
use crate::pages::triage::{Of, TriageForm};
use crate::pages::{Page, Region, Tab, View};
use crate::problem::Problem;

fn micros(at: std::time::SystemTime) -> Micros {
    jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::MAX).into()
}

pub(super) fn table(view: &View<'_>, name: &str, found: &[ParkedEvent]) -> Markup {
    let page = path(name);
    html! {
        div.scroll { table.list {
            thead { tr {
                @for head in ["Event", "Type", "Stream", "Parked"] { th scope="col" { (head) } }
                th.number scope="col" { "Attempts" }
                th scope="col" { "Last error" }
            } }
            tbody { @for parked in found { tr data-key={ "p" (parked.id) } {
                td { a href=(view.link(&format!("{page}/parked/{}", parked.id))) { (parked.event.position) } }
                td { (first_line(&parked.event.kind)) }
                td { (first_line(&parked.event.stream)) }
                td { (moment(micros(parked.parked_at))) @if parked.replays { " " span.muted { "is replayed" } } }
                td.number { (parked.attempts) }
                td.error { (parked.last_error.as_deref().map(first_line).unwrap_or_default()) }
            } } }
        } }
    }
}

/// `GET /subscriptions/{name}/parked/{id}`.
pub(in crate::pages) async fn one(view: &View<'_>, name: &str, text: &str) -> Result<Page, Problem> {
    let found = api::parked::one(view.app, name, text).await?;
    let headers = api::parked::headers(&found);
    let card = |name: &str, text: &str| {
        html! {
            section.card {
                h2 { (name) }
                @match masked(Some(text)) { Some(text) => (json(&text)), None => p.muted { "None." } }
            }
        }
    };
    let content = html! { div.pair { (card("Payload", &found.event.payload)) (card("Headers", &headers)) } };
    let regions = vec![Region::new("head", head(view, name, &found)), Region::new("content", content)];
    Ok(Page { title: format!("Parked event {}", found.id), tab: Tab::Outbox, regions, live: true })
}

fn head(view: &View<'_>, name: &str, found: &ParkedEvent) -> Markup {
    let page = path(name);
    let fact = |name: &str, value: Markup| html! { div.fact { dt { (name) } dd { (value) } } };
    html! {
        div.bar {
            h1 { "Event " (found.event.position) }
            @if view.can(Scope::Operate) { div.buttons {
                a.button.primary href=(view.link(&format!("{page}/replay?id={}", found.id))) { "Replay" }
                a.button.danger href=(view.link(&format!("{page}/discard?id={}", found.id))) { "Discard" }
            } }
        }
        dl.facts {
            (fact("parked by", html! { a href=(view.link(&page)) { (name) } }))
            (fact("type", html! { (found.event.kind) }))
            (fact("stream", html! { code { (found.event.stream) } }))
            (fact("version", html! { (found.event.version) }))
            (fact("event id", html! { code { (found.event.id) } }))
            (fact("attempts", html! { (found.attempts) }))
            (fact("appended", moment(micros(found.event.created_at))))
            (fact("parked", moment(micros(found.parked_at))))
        }
        @if found.replays { p.muted { "Its subscription is about to handle it again." } }
        @if let Some(error) = &found.last_error { pre.wrong { (error.chars().take(2_000).collect::<String>()) } }
        (cli_hint(&format!("lineclear subscription parked {} {}", shell_quote(name), found.id)))
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    id: Option<String>,
}

/// `GET /subscriptions/{name}/replay` and `/discard`: one parked event, or all.
pub(in crate::pages) async fn confirm(view: &View<'_>, name: &str, triage: Triage) -> Result<Page, Problem> {
    let Chosen { id: chosen } = view.params()?;
    if let Some(text) = &chosen {
        id(text, "parked event")?;
    }
    let (_, shown) = api::find(view.app, name).await?;
    let (verb, button, consequence) = match triage {
        Triage::Replay => (
            "replay",
            "Replay",
            "They are handled again, each once, after events that came later. One that fails again stays parked.",
        ),
        Triage::Discard => {
            ("discard", "Discard", "The subscription never handles them. They stay in the log.")
        }
    };
    let which = match &chosen {
        None => format!("all {} parked events of {name}", count(shown.view.parked)),
        Some(one) => format!("parked event {one} of {name}"),
    };
    let arguments = chosen.as_deref().unwrap_or("--all");
    Ok(page(
        view,
        Confirmation {
            title: format!("{button} {which}?"),
            what: html! { p { (consequence) } },
            fields: html! { input type="hidden" name="ids" value=(chosen.as_deref().unwrap_or_default()); },
            button,
            danger: triage == Triage::Discard,
            cli: format!("lineclear subscription {verb} {} {arguments}", shell_quote(name)),
            back: path(name),
            tab: Tab::Outbox,
        },
    ))
}

pub(in crate::pages) async fn replay(
    State(app): State<App>,
    audit: AuditDetails,
    PathParam(name): PathParam,
    FormBody(form): FormBody<TriageForm>,
) -> Result<Response, Problem> {
    form.submit(&app, &audit, Of::Subscription(&name), Triage::Replay).await
}

pub(in crate::pages) async fn discard(
    State(app): State<App>,
    audit: AuditDetails,
    PathParam(name): PathParam,
    FormBody(form): FormBody<TriageForm>,
) -> Result<Response, Problem> {
    form.submit(&app, &audit, Of::Subscription(&name), Triage::Discard).await
}
