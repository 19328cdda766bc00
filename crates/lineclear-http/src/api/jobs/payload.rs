//! What a job was given and what it returned: as files, and without dots for those who may see secrets.

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
use crate::api::page::{Page, Paging, cursor, limit};
use crate::api::shape::{Asked, At, id};
use crate::problem::Problem;

/// The ended claims of a job, oldest first.
#[utoipa::path(
    get, path = "/jobs/{id}/executions", operation_id = "job_executions", tag = "jobs", params(("id" = String, Path), Paging),
    security(("token" = ["read"])),
    responses((status = 200, body = Page<Execution>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn executions(
    state: State<App>,
    at: At,
    asked: Asked<Paging>,
) -> Result<Json<Page<Execution>>, Problem> {
    let after = cursor(asked.0.cursor.as_deref(), |text| text.parse().ok())?;
    let secrets = find(&state, &at.0).await?.secrets;
    let page = state.reading.executions(JobId(id(&at.0, "job")?), after, limit(asked.0.limit)?).await?;
    let items = page.items.into_iter().map(|view| Execution::of(view, &secrets)).collect();
    Ok(Json(Page::new(items, page.next.map(|claim| claim.to_string()))))
}

/// What the last claim that ended the job returned.
fn output(detail: &JobDetail) -> Option<&str> {
    let last = detail.executions.iter().rev().find(|execution| execution.is_final)?;
    last.output.as_deref()
}

/// A file to keep, whatever is in it: no browser looks into it by itself.
fn file(detail: &JobDetail, text: Option<&str>, what: &str) -> Result<Response, Problem> {
    let id = detail.job.id;
    let none = || Problem::not_found(format_args!("{what} of job {id}"));
    let shown = text.and_then(|text| detail.secrets.mask(text)).ok_or_else(none)?;
    let name = HeaderValue::from_str(&format!("attachment; filename=\"job-{id}-{what}.json\""))
        .map_err(|_| none())?;
    let kind = HeaderValue::from_static("application/octet-stream");
    let safe = HeaderValue::from_static("nosniff");
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_DISPOSITION, name),
        (header::X_CONTENT_TYPE_OPTIONS, safe),
    ];
    Ok((headers, shown).into_response())
}

/// What a job was given, as a file, with dots in place of secrets.
#[utoipa::path(
    get, path = "/jobs/{id}/input", operation_id = "job_input", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn input(state: State<App>, at: At) -> Result<Response, Problem> {
    let detail = find(&state, &at.0).await?;
    file(&detail, detail.input.as_deref(), "input")
}

/// What a job returned, as a file, with dots in place of secrets.
#[utoipa::path(
    get, path = "/jobs/{id}/output", operation_id = "job_output", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn job_output(state: State<App>, at: At) -> Result<Response, Problem> {
    let detail = find(&state, &at.0).await?;
    file(&detail, output(&detail), "output")
}

/// What a job was given and what it returned, secrets included.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Revealed {
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
}

/// Shows the secrets of a job. A POST, because it leaves a trace: who looked, and when.
#[utoipa::path(
    post, path = "/jobs/{id}/reveal", operation_id = "reveal_job", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["admin"])),
    responses((status = 200, body = Revealed), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn reveal(state: State<App>, at: At) -> Result<Json<Revealed>, Problem> {
    let detail = find(&state, &at.0).await?;
    tracing::info!(job.id = %detail.job.id, "its secrets were shown to somebody who may see them");
    let raw = |text: Option<&str>| text.and_then(|text| RawValue::from_string(text.to_owned()).ok());
    Ok(Json(Revealed { output: raw(output(&detail)), input: raw(detail.input.as_deref()) }))
}
