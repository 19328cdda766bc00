//! The executions, input and output of a job.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use lineclear::read::JobDetail;
use lineclear::store::JobId;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::detail::{Execution, find};
use crate::App;
use crate::api::json_types::{PathParam, QueryParams, id};
use crate::api::pagination::{Page, PageParams, cursor, limit};
use crate::problem::Problem;

/// Returns the executions of a job, oldest first.
#[utoipa::path(
    get, path = "/jobs/{id}/executions", operation_id = "job_executions", tag = "jobs", params(("id" = String, Path), PageParams),
    security(("token" = ["read"])),
    responses((status = 200, body = Page<Execution>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn executions(
    state: State<App>,
    path: PathParam,
    params: QueryParams<PageParams>,
) -> Result<Json<Page<Execution>>, Problem> {
    let after = cursor(params.0.cursor.as_deref(), |text| text.parse().ok())?;
    let secrets = find(&state, &path.0).await?.secrets;
    let page = state.reading.executions(JobId(id(&path.0, "job")?), after, limit(params.0.limit)?).await?;
    let items = page.items.into_iter().map(|view| Execution::of(view, &secrets)).collect();
    Ok(Json(Page::new(items, page.next.map(|claim| claim.to_string()))))
}

/// The output of the final execution.
fn final_output(detail: &JobDetail) -> Option<&str> {
    let last = detail.executions.iter().rev().find(|execution| execution.is_final)?;
    last.output.as_deref()
}

/// A download: browsers save it and do not render it.
fn file(detail: &JobDetail, text: Option<&str>, what: &str) -> Result<Response, Problem> {
    let id = detail.job.id;
    let missing = || Problem::not_found(format_args!("{what} of job {id}"));
    let masked = text.and_then(|text| detail.secrets.mask(text)).ok_or_else(missing)?;
    let name = HeaderValue::from_str(&format!("attachment; filename=\"job-{id}-{what}.json\""))
        .map_err(|_| missing())?;
    let content_type = HeaderValue::from_static("application/octet-stream");
    let nosniff = HeaderValue::from_static("nosniff");
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_DISPOSITION, name),
        (header::X_CONTENT_TYPE_OPTIONS, nosniff),
    ];
    Ok((headers, masked).into_response())
}

/// Returns the input of a job as a file, with masked secrets.
#[utoipa::path(
    get, path = "/jobs/{id}/input", operation_id = "job_input", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn input(state: State<App>, path: PathParam) -> Result<Response, Problem> {
    let detail = find(&state, &path.0).await?;
    file(&detail, detail.input.as_deref(), "input")
}

/// Returns the output of a job as a file, with masked secrets.
#[utoipa::path(
    get, path = "/jobs/{id}/output", operation_id = "job_output", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn output(state: State<App>, path: PathParam) -> Result<Response, Problem> {
    let detail = find(&state, &path.0).await?;
    file(&detail, final_output(&detail), "output")
}

/// The input and output of a job, with secrets.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevealedPayload {
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
}

/// Returns the input and output of a job with its secrets. A POST, because the audit records it.
#[utoipa::path(
    post, path = "/jobs/{id}/reveal", operation_id = "reveal_job", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["admin"])),
    responses((status = 200, body = RevealedPayload), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn reveal(state: State<App>, path: PathParam) -> Result<Json<RevealedPayload>, Problem> {
    let detail = find(&state, &path.0).await?;
    tracing::info!(job.id = %detail.job.id, "the secrets of a job were revealed");
    let raw = |text: Option<&str>| text.and_then(|text| RawValue::from_string(text.to_owned()).ok());
    Ok(Json(RevealedPayload { output: raw(final_output(&detail)), input: raw(detail.input.as_deref()) }))
}
