//! Remote workers leave.

use axum::extract::State;
use axum::http::StatusCode;

use super::claims::{worker_id, worker_uuid};
use super::json_types::PathParam;
use crate::App;
use crate::auth::Caller;
use crate::problem::Problem;

/// Removes a worker that ends. Jobs that it still holds go back to the queue.
#[utoipa::path(
    delete, path = "/workers/{id}", operation_id = "remove_worker", tag = "claims", params(("id" = String, Path)), security(("token" = ["worker"])),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn remove(
    state: State<App>,
    caller: Caller,
    path: PathParam,
) -> Result<StatusCode, Problem> {
    let uuid =
        worker_uuid(&path.0, "").map_err(|_| Problem::not_found(format_args!("worker {:?}", path.0)))?;
    let worker = worker_id(&caller.0, uuid);
    // One that is not known has left before: the response to that request was lost.
    if let Some(node) = state.workers.find(&state.client, &worker).await? {
        state.client.remove_worker(node).await?;
        state.workers.forget(&worker);
    }
    Ok(StatusCode::NO_CONTENT)
}
