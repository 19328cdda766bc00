//! What is done to a job.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lineclear::store::{Cancelled, JobId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::api::shape::{At, id};
use crate::problem::Problem;

/// What became of a request to cancel.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CancelAnswer {
    /// `cancelled`, or `asked`: it runs, and its node was told to stop it.
    became: &'static str,
}

/// Cancels a job: one that waits is over at once, one that runs is told to stop.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["operate"])),
    responses((status = 200, body = CancelAnswer), (status = 202, body = CancelAnswer),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn cancel(state: State<App>, at: At) -> Result<Response, Problem> {
    let job = JobId(id(&at.0, "job")?);
    let answer = |status, became| Ok((status, Json(CancelAnswer { became })).into_response());
    match state.client.store().cancel(job).await? {
        Cancelled::Over => answer(StatusCode::OK, "cancelled"),
        Cancelled::Asked(_) => answer(StatusCode::ACCEPTED, "asked"),
        Cancelled::Before(state) => {
            let detail = format!("job {job} is over: {}", state.as_str());
            Err(Problem::new(StatusCode::CONFLICT, "job_over", detail))
        }
        Cancelled::Unknown => Err(Problem::not_found(format_args!("job {job}"))),
        Cancelled::Moving => {
            Err(Problem::new(StatusCode::CONFLICT, "job_moving", "it is just being taken; ask again"))
        }
    }
}
