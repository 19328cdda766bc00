//! What can be done to a job.

use axum::extract::{FromRequest, Request, State};
use axum::response::Response;
use lineclear::store::views::JobDetail;
use lineclear_model::JobState;
use lineclear_model::secret::DOTS;
use maud::html;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::find;
use crate::App;
use crate::access::Who;
use crate::api::jobs::change::{self, RetryBody};
use crate::api::shape::At;
use crate::audit::Note;
use crate::once::Keyed;
use crate::pages::action::{Ask, Filled, done, page};
use crate::pages::frame::Frame;
use crate::pages::part::quoted;
use crate::pages::{Page, Tab, View, answer};
use crate::problem::Problem;

/// `GET /jobs/{id}/cancel`.
pub(in crate::pages) async fn ask_cancel(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let job = find(view, text).await?.job;
    let what = if job.state == JobState::Running {
        html! { p { "It runs on " strong { (job.node_name.as_deref().unwrap_or("a node")) } ". Its handler is asked to end, and has some seconds for it; what it has already done stays done." } }
    } else {
        html! { p { "It is " (job.state.as_str()) ", and will not run. This cannot be taken back: it can only be run again, as a new job." } }
    };
    Ok(page(
        view,
        Ask {
            title: format!("Cancel job {}?", job.id),
            what,
            fields: html! {},
            button: "Cancel the job",
            danger: true,
            cli: format!("lineclear job cancel {}", job.id),
            back: format!("/jobs/{}", job.id),
            tab: Tab::Jobs,
        },
    ))
}

pub(in crate::pages) async fn cancel(state: State<App>, note: Note, at: At) -> Result<Response, Problem> {
    let (app, to) = (state.0.clone(), format!("/jobs/{}", at.0));
    change::cancel(state, note, at).await?;
    Ok(done(&app, &to))
}

/// How it is asked for.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct How {
    /// With another input.
    #[serde(default)]
    edit: bool,
}

/// `GET /jobs/{id}/retry`, and `?edit=true` with another input.
pub(in crate::pages) async fn ask_retry(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let How { edit } = view.asked()?;
    let detail = find(view, text).await?;
    let typed = Given { input: edit.then(|| shown(&detail)), ..Given::default() };
    Ok(retry_form(view, &detail, &typed, None))
}

/// Its input as people may see it.
fn shown(detail: &JobDetail) -> String {
    detail.input.as_deref().and_then(|input| detail.secrets.mask(input)).unwrap_or_default()
}

fn retry_form(view: &View<'_>, detail: &JobDetail, typed: &Given, wrong: Option<&Problem>) -> Page {
    let job = &detail.job;
    let (plain, what) = match job.state {
        JobState::Retrying => ("Try now", "It becomes due now. Its failures still count."),
        JobState::Dead => {
            ("Revive", "Its dead letter is resolved, and it runs again with no failures counted.")
        }
        _ => ("Run again", "A new job is made with the same input; this one stays as it is."),
    };
    let (word, what) = match (&typed.input, job.state) {
        (None, _) => (plain.to_owned(), what),
        (Some(_), JobState::Dead) => (
            format!("{plain} with edits"),
            "Its dead letter is resolved, and it runs again with this input and no failures counted. Steps that were done with the old one are done again.",
        ),
        (Some(_), _) => {
            (format!("{plain} with edits"), "A new job is made with this input; this one stays as it is.")
        }
    };
    let hides = typed.input.as_deref().is_some_and(|input| input.contains(DOTS));
    let edit = typed.input.as_deref().map(|input| format!(" --input {}", quoted(input.trim())));
    page(
        view,
        Ask {
            title: format!(
                "{plain} job {}{}?",
                job.id,
                if typed.input.is_some() { " with edits" } else { "" }
            ),
            what: html! {
                p { (what) }
                @if let Some(problem) = wrong { p.wrong role="alert" { (problem.said().1) } }
                @if hides { p.wrong { "Secret values of its input are dots here: write them again." } }
            },
            fields: html! {
                @if let Some(input) = &typed.input { div.field { label for="input" { "Input" } textarea #input name="input" spellcheck="false" { (input) } span.muted { "Any JSON, 256 KiB at most." } } }
                div.field { label for="note" { "Note" } input #note name="note" value=(typed.note) maxlength="500" placeholder="why; kept with it"; }
            },
            button: &word,
            danger: false,
            cli: format!("lineclear job retry {}{} --note WHY", job.id, edit.unwrap_or_default()),
            back: format!("/jobs/{}", job.id),
            tab: Tab::Jobs,
        },
    )
}

#[derive(Clone, Default, Deserialize)]
pub(in crate::pages) struct Given {
    #[serde(default)]
    note: String,
    /// Another input; `None`: as it was.
    input: Option<String>,
}

/// What is refused is said above the fields, and nothing that was typed is lost.
pub(in crate::pages) async fn retry(
    state: State<App>,
    who: Who,
    note: Note,
    at: At,
    request: Request,
) -> Result<Response, Problem> {
    let (app, same) = (state.0.clone(), format!("/jobs/{}", at.0));
    let (headers, uri, text) = (request.headers().clone(), request.uri().clone(), at.0.clone());
    let Filled(given) = Filled::<Given>::from_request(request, &()).await?;
    let made = async {
        let input = given.input.as_deref().map(|input| RawValue::from_string(input.trim().to_owned()));
        let input = input
            .transpose()
            .map_err(|bad| Problem::malformed("input", format!("this is no JSON: {bad}")))?;
        let said = Some(given.note.clone()).filter(|note| !note.trim().is_empty());
        let body = RetryBody { note: said, route: None, input };
        change::retry(state, Who(who.0.clone()), note, at, Keyed { once: None, body: Some(body) }).await
    };
    match made.await {
        Ok(reply) => Ok(done(&app, &reply.job().map_or(same, |job| format!("/jobs/{job}")))),
        Err(problem) if problem.status().is_client_error() && given.input.is_some() => {
            let view = View { app: &app, scopes: &who.0.scopes, uri: &uri };
            let page = retry_form(&view, &find(&view, &text).await?, &given, Some(&problem));
            Ok(answer(problem.status(), Frame::of(&app, Some(&who.0), &headers, &uri).around(page)))
        }
        Err(problem) => Err(problem),
    }
}
