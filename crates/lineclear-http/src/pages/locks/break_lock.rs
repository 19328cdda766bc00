//! A lock is taken away from its holder: asked with the lock's name and a reason, because its holder may be at work.

use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use lineclear_lock::Inspection;
use maud::{Markup, html};
use serde::Deserialize;

use crate::App;
use crate::access::Who;
use crate::api::lock_break::{self, BreakBody, REASON_BYTES_MAX};
use crate::api::shape::{At, unprocessable};
use crate::audit::Note;
use crate::pages::action::{Ask, Filled, done, page};
use crate::pages::frame::Frame;
use crate::pages::part::{escaped, length, plain, quoted};
use crate::pages::{Page, Tab, View, answer};
use crate::problem::Problem;

const BACK: &str = "/cluster";

/// Where it is asked. A lock may have any name, also one with a slash.
pub(super) fn address(name: &str) -> String {
    format!("/locks/{}/break", escaped(name).replace('/', "%2F"))
}

/// Whether its holder is there, as far as the database can tell.
fn alive(seen: &Inspection) -> Markup {
    let left = seen.holding.ends_in.and_then(|left| u64::try_from(left.as_millis()).ok());
    match (seen.alive, left) {
        (Some(true), _) => html! { "The database sees its connection: it may be at work." },
        (Some(false), _) => html! { "Its connection is gone: the lock becomes free by itself in a moment." },
        (None, Some(left)) => html! { "Unless it is renewed, it ends in " (length(left)) "." },
        (None, None) => html! { "It does not end by itself." },
    }
}

/// What was typed.
#[derive(Clone, Default, Deserialize)]
pub(in crate::pages) struct Typed {
    #[serde(default)]
    name: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    epoch: String,
}

/// `GET /locks/{name}/break`.
pub(in crate::pages) async fn ask(view: &View<'_>, segment: &str) -> Result<Page, Problem> {
    // In a path, a plus is a plus.
    let name = plain(&segment.replace('+', "%2B"));
    form(view, &name, &Typed::default(), None).await
}

async fn form(view: &View<'_>, name: &str, typed: &Typed, wrong: Option<&Problem>) -> Result<Page, Problem> {
    let found = lock_break::find(view.app, name).await?;
    let holding = &found.seen.holding;
    Ok(page(
        view,
        Ask {
            title: format!("Take the lock {name} away?"),
            what: html! {
                p { strong { (holding.holder) } " holds it under epoch " strong { (holding.epoch) } ". " (alive(&found.seen)) }
                p.wrong { "Its holder is not asked. It hears of it when it next renews, and may go on working until then; whoever takes the lock next may work at the same time. Its fenced transactions are refused at once." }
                p { "This is meant for a holder that is frozen or cannot be reached. It is kept in the lock's history, and in the audit." }
                @if let Some(problem) = wrong { p.wrong role="alert" { (problem.said().1) } }
            },
            fields: html! {
                input type="hidden" name="epoch" value=(holding.epoch);
                div.field { label for="name" { "The lock's name, to be sure" } input #name name="name" value=(typed.name) required autocomplete="off" spellcheck="false" placeholder=(name); }
                div.field { label for="reason" { "Why" } input #reason name="reason" value=(typed.reason) required maxlength=(REASON_BYTES_MAX) placeholder="kept in its history"; }
            },
            button: "Take it away",
            danger: true,
            cli: format!("lineclear lock break {} --note WHY", quoted(name)),
            back: BACK.to_owned(),
            tab: Tab::Cluster,
        },
    ))
}

/// What is refused is said above the fields, and nothing that was typed is lost.
pub(in crate::pages) async fn take(
    State(app): State<App>,
    who: Who,
    note: Note,
    at: At,
    request: Request,
) -> Result<Response, Problem> {
    let (headers, uri) = (request.headers().clone(), request.uri().clone());
    let Filled(typed) = Filled::<Typed>::from_request(request, &()).await?;
    let taken = async {
        if typed.name.trim() != at.0.trim() {
            return Err(unprocessable("name", format!("type the lock's name: {}", at.0)));
        }
        let body = BreakBody { reason: typed.reason.clone(), epoch: Some(typed.epoch.clone()) };
        lock_break::take_away(&app, &who, &note, &at.0, body).await
    };
    match taken.await {
        Ok(_) => Ok(done(&app, BACK)),
        Err(problem) if problem.status().is_client_error() => {
            let view = View { app: &app, scopes: &who.0.scopes, uri: &uri };
            // It may be free by now: then that is what there is to say. If another has it, its name is to be typed anew.
            let name = if problem.status() == StatusCode::CONFLICT { String::new() } else { typed.name };
            let page = form(&view, &at.0, &Typed { name, ..typed }, Some(&problem)).await?;
            Ok(answer(problem.status(), Frame::of(&app, Some(&who.0), &headers, &uri).around(page)))
        }
        Err(problem) => Err(problem),
    }
}
