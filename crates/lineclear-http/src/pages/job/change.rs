//! What can be done to a job.

use axum::extract::State;
use axum::response::Response;
use lineclear_model::JobState;
use maud::html;
use serde::Deserialize;

use super::find;
use crate::App;
use crate::access::Who;
use crate::api::jobs::change::{self, RetryBody};
use crate::api::shape::At;
use crate::audit::Note;
use crate::once::Keyed;
use crate::pages::action::{Ask, Filled, done, page};
use crate::pages::{Page, Tab, View};
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

/// `GET /jobs/{id}/retry`.
pub(in crate::pages) async fn ask_retry(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let job = find(view, text).await?.job;
    let (word, what) = match job.state {
        JobState::Retrying => ("Try now", "It becomes due now. Its failures still count."),
        JobState::Dead => {
            ("Revive", "Its dead letter is resolved, and it runs again with no failures counted.")
        }
        _ => ("Run again", "A new job is made with the same input; this one stays as it is."),
    };
    Ok(page(
        view,
        Ask {
            title: format!("{word} job {}?", job.id),
            what: html! { p { (what) } },
            fields: html! { div.field { label for="note" { "Note" } input #note name="note" maxlength="500" placeholder="why; kept with it"; } },
            button: word,
            danger: false,
            cli: format!("lineclear job retry {}", job.id),
            back: format!("/jobs/{}", job.id),
            tab: Tab::Jobs,
        },
    ))
}

#[derive(Default, Deserialize)]
pub(in crate::pages) struct Given {
    #[serde(default)]
    note: String,
}

pub(in crate::pages) async fn retry(
    state: State<App>,
    who: Who,
    note: Note,
    at: At,
    Filled(given): Filled<Given>,
) -> Result<Response, Problem> {
    let (app, same) = (state.0.clone(), format!("/jobs/{}", at.0));
    let said = Some(given.note).filter(|note| !note.trim().is_empty());
    let asked = Keyed { once: None, body: Some(RetryBody { note: said, route: None }) };
    let reply = change::retry(state, who, note, at, asked).await?;
    Ok(done(&app, &reply.job().map_or(same, |job| format!("/jobs/{job}"))))
}
