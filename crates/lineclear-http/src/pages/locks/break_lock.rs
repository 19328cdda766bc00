//! Breaks a lock. The form requires its name and a reason, because the holder may be at work.

use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use lineclear_lock::Inspection;
use maud::{Markup, html};
use serde::Deserialize;

use crate::App;
use crate::api::json_types::{PathParam, unprocessable};
use crate::api::locks::break_lock::{self as api, BreakBody, REASON_BYTES_MAX};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::pages::components::{duration, escape_query, shell_quote, unescape_query};
use crate::pages::confirm::{Confirmation, FormBody, page, redirect};
use crate::pages::layout::Layout;
use crate::pages::{Page, Tab, View, html_response};
use crate::problem::Problem;

const BACK: &str = "/cluster";

/// The path of the page. The name of a lock may contain a slash.
pub(super) fn path(name: &str) -> String {
    format!("/locks/{}/break", escape_query(name).replace('/', "%2F"))
}

/// Whether the holder is alive, as far as the database knows.
fn holder_state(seen: &Inspection) -> Markup {
    let left = seen.holding.ends_in.and_then(|left| u64::try_from(left.as_millis()).ok());
    match (seen.alive, left) {
        (Some(true), _) => html! { "Its connection is open: it may be at work." },
        (Some(false), _) => {
            html! { "Its connection is closed: the lock becomes free by itself in a moment." }
        }
        (None, Some(left)) => html! { "Unless it is renewed, it expires in " (duration(left)) "." },
        (None, None) => html! { "It does not expire." },
    }
}

/// The form.
#[derive(Clone, Default, Deserialize)]
pub(in crate::pages) struct BreakForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    epoch: String,
}

/// `GET /locks/{name}/break`.
pub(in crate::pages) async fn confirm(view: &View<'_>, segment: &str) -> Result<Page, Problem> {
    // In a path, a plus is not a space.
    let name = unescape_query(&segment.replace('+', "%2B"));
    form(view, &name, &BreakForm::default(), None).await
}

async fn form(
    view: &View<'_>,
    name: &str,
    typed: &BreakForm,
    wrong: Option<&Problem>,
) -> Result<Page, Problem> {
    let found = api::find_held(view.app, name).await?;
    let holding = &found.seen.holding;
    Ok(page(
        view,
        Confirmation {
            title: format!("Break the lock {name}?"),
            what: html! {
                p { strong { (holding.holder) } " holds it under epoch " strong { (holding.epoch) } ". " (holder_state(&found.seen)) }
                p.wrong { "The holder learns of it at its next renewal and may continue to work until then, at the same time as the next holder. Its fenced transactions are refused at once." }
                p { "Use this for a holder that hangs or cannot be reached. The history of the lock and the audit record it." }
                @if let Some(problem) = wrong { p.wrong role="alert" { (problem.detail()) } }
            },
            fields: html! {
                input type="hidden" name="epoch" value=(holding.epoch);
                div.field { label for="name" { "Type the name of the lock to confirm" } input #name name="name" value=(typed.name) required autocomplete="off" spellcheck="false" placeholder=(name); }
                div.field { label for="reason" { "Reason" } input #reason name="reason" value=(typed.reason) required maxlength=(REASON_BYTES_MAX) placeholder="kept in the history of the lock"; }
            },
            button: "Break the lock",
            danger: true,
            cli: format!("lineclear lock break {} --note WHY", shell_quote(name)),
            back: BACK.to_owned(),
            tab: Tab::Cluster,
        },
    ))
}

/// A refusal shows the form again, with what was typed.
pub(in crate::pages) async fn break_lock(
    State(app): State<App>,
    caller: Caller,
    audit: AuditDetails,
    path: PathParam,
    request: Request,
) -> Result<Response, Problem> {
    let (headers, uri) = (request.headers().clone(), request.uri().clone());
    let FormBody(typed) = FormBody::<BreakForm>::from_request(request, &()).await?;
    let broken = async {
        if typed.name.trim() != path.0.trim() {
            return Err(unprocessable("name", format!("type the name of the lock: {}", path.0)));
        }
        let body = BreakBody { reason: typed.reason.clone(), epoch: Some(typed.epoch.clone()) };
        api::end_hold(&app, &caller, &audit, &path.0, body).await
    };
    match broken.await {
        Ok(_) => Ok(redirect(&app, BACK)),
        Err(problem) if problem.status().is_client_error() => {
            let view = View { app: &app, scopes: &caller.0.scopes, uri: &uri };
            // The lock may be free by now, which ends the form. With another holder, the name must be typed again.
            let name = if problem.status() == StatusCode::CONFLICT { String::new() } else { typed.name };
            let page = form(&view, &path.0, &BreakForm { name, ..typed }, Some(&problem)).await?;
            Ok(html_response(problem.status(), Layout::of(&app, Some(&caller.0), &headers, &uri).wrap(page)))
        }
        Err(problem) => Err(problem),
    }
}
