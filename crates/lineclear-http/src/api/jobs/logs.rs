//! What the handlers of a job logged.

use axum::Json;
use axum::extract::State;
use lineclear::store::JobId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::api::page::{Page, Paging, cursor, limit};
use crate::api::shape::{Asked, At, id, time};
use crate::problem::Problem;

/// A line of a job's log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Line {
    claim_no: u32,
    line_no: u32,
    logged_at: String,
    level: String,
    target: String,
    message: String,
}

/// What the handlers of a job logged, oldest first.
#[utoipa::path(
    get, path = "/jobs/{id}/logs", operation_id = "job_logs", tag = "jobs", params(("id" = String, Path), Paging),
    security(("token" = ["read"])),
    responses((status = 200, body = Page<Line>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn logs(
    state: State<App>,
    at: At,
    asked: Asked<Paging>,
) -> Result<Json<Page<Line>>, Problem> {
    let after = cursor(asked.0.cursor.as_deref(), |text| {
        let (claim, line) = text.split_once('.')?;
        Some((claim.parse().ok()?, line.parse().ok()?))
    })?;
    let job = JobId(id(&at.0, "job")?);
    let page = state.reading.log(job, after, limit(asked.0.limit)?).await?;
    // One that logged something is there.
    if page.items.is_empty() && state.reading.job_state(job).await?.is_none() {
        return Err(Problem::not_found(format_args!("job {job}")));
    }
    let lines = page.items.into_iter().map(|(claim_no, line)| Line {
        claim_no,
        line_no: line.line_no,
        logged_at: time(line.logged_at),
        level: line.level,
        target: line.target,
        message: line.message,
    });
    Ok(Json(Page::new(lines.collect(), page.next.map(|(claim, line)| format!("{claim}.{line}")))))
}
