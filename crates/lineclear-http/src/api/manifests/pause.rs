//! Pauses and resumes a manifest.

use axum::extract::State;
use axum::http::StatusCode;

use super::found;
use crate::App;
use crate::api::json_types::{PathParam, name};
use crate::problem::Problem;

/// Pauses a manifest: it plans nothing, and its waiting jobs stay where they are.
#[utoipa::path(
    post, path = "/manifests/{key}/pause", operation_id = "pause_manifest", tag = "manifests", security(("token" = ["operate"])), params(("key" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn pause(state: State<App>, path: PathParam) -> Result<StatusCode, Problem> {
    let key = name(&path.0, "manifest")?;
    found(state.client.store().pause(vec![key.clone()]).await?, &key)
}

/// Resumes a manifest.
#[utoipa::path(
    post, path = "/manifests/{key}/resume", operation_id = "resume_manifest", tag = "manifests", security(("token" = ["operate"])), params(("key" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn resume(state: State<App>, path: PathParam) -> Result<StatusCode, Problem> {
    let key = name(&path.0, "manifest")?;
    found(state.client.store().resume(vec![key.clone()]).await?, &key)
}
