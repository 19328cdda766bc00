//! The log of a job.

use axum::Json;
use axum::extract::State;
use lineclear::store::JobId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::api::json_types::{PathParam, QueryParams, id, time};
use crate::api::pagination::{Page, PageParams, cursor, limit};
use crate::problem::Problem;

/// A line of the log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobLogLine {
    claim_no: u32,
    line_no: u32,
    logged_at: String,
    level: String,
    target: String,
    message: String,
}

/// Returns the log of a job, oldest line first.
#[utoipa::path(
    get, path = "/jobs/{id}/logs", operation_id = "job_logs", tag = "jobs", params(("id" = String, Path), PageParams),
    security(("token" = ["read"])),
    responses((status = 200, body = Page<JobLogLine>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn logs(
    state: State<App>,
    path: PathParam,
    params: QueryParams<PageParams>,
) -> Result<Json<Page<JobLogLine>>, Problem> {
    let after = cursor(params.0.cursor.as_deref(), |text| {
        let (claim, line) = text.split_once('.')?;
        Some((claim.parse().ok()?, line.parse().ok()?))
    })?;
    let job = JobId(id(&path.0, "job")?);
    let page = state.reading.log(job, after, limit(params.0.limit)?).await?;
    // A job with log lines exists.
    if page.items.is_empty() && state.reading.job_state(job).await?.is_none() {
        return Err(Problem::not_found(format_args!("job {job}")));
    }
    let lines = page.items.into_iter().map(|(claim_no, line)| JobLogLine {
        claim_no,
        line_no: line.line_no,
        logged_at: time(line.logged_at),
        level: line.level,
        target: line.target,
        message: line.message,
    });
    Ok(Json(Page::new(lines.collect(), page.next.map(|(claim, line)| format!("{claim}.{line}")))))
}
