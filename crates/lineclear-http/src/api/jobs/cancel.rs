//! Cancels a job.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lineclear::store::{Cancelled, JobId};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::App;
use crate::api::json_types::{PathParam, id};
use crate::audit::AuditDetails;
use crate::problem::Problem;

/// The result of a cancellation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CancelResponse {
    /// `cancelled`, or `asked`: the job is running, and its node was told to stop it.
    became: &'static str,
}

/// Cancels a job. A waiting job is over at once; a running one is told to stop.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["operate"])),
    responses((status = 200, body = CancelResponse), (status = 202, body = CancelResponse),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn cancel(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
) -> Result<Response, Problem> {
    let job = JobId(id(&path.0, "job")?);
    let answer = |status, became| {
        audit.set(json!({"became": became}));
        Ok((status, Json(CancelResponse { became })).into_response())
    };
    match state.client.store().cancel(job).await? {
        Cancelled::Over => answer(StatusCode::OK, "cancelled"),
        Cancelled::Asked(_) => answer(StatusCode::ACCEPTED, "asked"),
        Cancelled::Before(state) => {
            let detail = format!("job {job} is already {}", state.as_str());
            Err(Problem::new(StatusCode::CONFLICT, "job_over", detail))
        }
        Cancelled::Unknown => Err(Problem::not_found(format_args!("job {job}"))),
        Cancelled::Moving => {
            Err(Problem::new(StatusCode::CONFLICT, "job_moving", "a worker is claiming the job; try again"))
        }
    }
}
