//! Cancels a job.

use axum::extract::State;
use axum::response::Response;
use lineclear_model::JobState;
use maud::html;

use super::detail::find;
use crate::App;
use crate::api::jobs::cancel as api;
use crate::api::json_types::PathParam;
use crate::audit::AuditDetails;
use crate::pages::confirm::{Confirmation, page, redirect};
use crate::pages::{Page, Tab, View};
use crate::problem::Problem;

/// `GET /jobs/{id}/cancel`.
pub(in crate::pages) async fn confirm(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let job = find(view, text).await?.job;
    let what = if job.state == JobState::Running {
        html! { p { "The job is running on " strong { (job.node_name.as_deref().unwrap_or("a node")) } ". Its handler is told to stop, and has a few seconds to do so; its effects so far remain." } }
    } else {
        html! { p { "The job is " (job.state.as_str()) " and will not run. This cannot be undone; you can only run it again as a new job." } }
    };
    Ok(page(
        view,
        Confirmation {
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

pub(in crate::pages) async fn cancel(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
) -> Result<Response, Problem> {
    let (app, to) = (state.0.clone(), format!("/jobs/{}", path.0));
    api::cancel(state, audit, path).await?;
    Ok(redirect(&app, &to))
}
