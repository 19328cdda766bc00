//! Retries a job.

use axum::extract::{FromRequest, Request, State};
use axum::response::Response;
use lineclear::read::JobDetail;
use lineclear_model::JobState;
use lineclear_model::secret::MASK;
use maud::html;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::detail::find;
use crate::App;
use crate::api::jobs::retry::{self as api, RetryBody};
use crate::api::json_types::PathParam;
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::idempotency::KeyedBody;
use crate::pages::components::shell_quote;
use crate::pages::confirm::{Confirmation, FormBody, page, redirect};
use crate::pages::layout::Layout;
use crate::pages::{Page, Tab, View, html_response};
use crate::problem::Problem;

/// The query parameters.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryParams {
    /// With an editable input.
    #[serde(default)]
    edit: bool,
}

/// `GET /jobs/{id}/retry`; `?edit=true` with an editable input.
pub(in crate::pages) async fn confirm(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let RetryParams { edit } = view.params()?;
    let detail = find(view, text).await?;
    let typed = RetryForm { input: edit.then(|| masked_input(&detail)), ..RetryForm::default() };
    Ok(retry_form(view, &detail, &typed, None))
}

/// The input with masked secrets.
fn masked_input(detail: &JobDetail) -> String {
    detail.input.as_deref().and_then(|input| detail.secrets.mask(input)).unwrap_or_default()
}

fn retry_form(view: &View<'_>, detail: &JobDetail, typed: &RetryForm, wrong: Option<&Problem>) -> Page {
    let job = &detail.job;
    let (plain, what) = match job.state {
        JobState::Retrying => ("Retry now", "The job becomes due now. Its failures still count."),
        JobState::Dead => {
            ("Revive", "The dead letter is resolved, and the job runs again. Its failure count is reset.")
        }
        _ => ("Run again", "A new job runs with the same input. This job stays as it is."),
    };
    let (button, what) = match (&typed.input, job.state) {
        (None, _) => (plain.to_owned(), what),
        (Some(_), JobState::Dead) => (
            format!("{plain} with edits"),
            "The dead letter is resolved, and the job runs again with this input. Its failure count is reset, and all steps run again.",
        ),
        (Some(_), _) => {
            (format!("{plain} with edits"), "A new job runs with this input. This job stays as it is.")
        }
    };
    let hides = typed.input.as_deref().is_some_and(|input| input.contains(MASK));
    let edit = typed.input.as_deref().map(|input| format!(" --input {}", shell_quote(input.trim())));
    page(
        view,
        Confirmation {
            title: format!(
                "{plain} job {}{}?",
                job.id,
                if typed.input.is_some() { " with edits" } else { "" }
            ),
            what: html! {
                p { (what) }
                @if let Some(problem) = wrong { p.wrong role="alert" { (problem.detail()) } }
                @if hides { p.wrong { "Secret values of the input are masked: enter them again." } }
            },
            fields: html! {
                @if let Some(input) = &typed.input { div.field { label for="input" { "Input" } textarea #input name="input" spellcheck="false" { (input) } span.muted { "Any JSON, up to 256 KiB." } } }
                div.field { label for="note" { "Note" } input #note name="note" value=(typed.note) maxlength="500" placeholder="optional reason"; }
            },
            button: &button,
            danger: false,
            cli: format!("lineclear job retry {}{} --note WHY", job.id, edit.unwrap_or_default()),
            back: format!("/jobs/{}", job.id),
            tab: Tab::Jobs,
        },
    )
}

#[derive(Clone, Default, Deserialize)]
pub(in crate::pages) struct RetryForm {
    #[serde(default)]
    note: String,
    /// A new input; `None` keeps the old one.
    input: Option<String>,
}

/// A refusal shows the form again, with what was typed.
pub(in crate::pages) async fn retry(
    state: State<App>,
    caller: Caller,
    audit: AuditDetails,
    path: PathParam,
    request: Request,
) -> Result<Response, Problem> {
    let (app, same) = (state.0.clone(), format!("/jobs/{}", path.0));
    let (headers, uri, text) = (request.headers().clone(), request.uri().clone(), path.0.clone());
    let FormBody(form) = FormBody::<RetryForm>::from_request(request, &()).await?;
    let retried = async {
        let input = form.input.as_deref().map(|input| RawValue::from_string(input.trim().to_owned()));
        let input = input
            .transpose()
            .map_err(|bad| Problem::malformed("input", format!("`input` must be JSON: {bad}")))?;
        let note = Some(form.note.clone()).filter(|note| !note.trim().is_empty());
        let body = RetryBody { note, route: None, input };
        api::retry(state, Caller(caller.0.clone()), audit, path, KeyedBody { key: None, body: Some(body) })
            .await
    };
    match retried.await {
        Ok(reply) => Ok(redirect(&app, &reply.job().map_or(same, |job| format!("/jobs/{job}")))),
        Err(problem) if problem.status().is_client_error() && form.input.is_some() => {
            let view = View { app: &app, scopes: &caller.0.scopes, uri: &uri };
            let page = retry_form(&view, &find(&view, &text).await?, &form, Some(&problem));
            Ok(html_response(problem.status(), Layout::of(&app, Some(&caller.0), &headers, &uri).wrap(page)))
        }
        Err(problem) => Err(problem),
    }
}
