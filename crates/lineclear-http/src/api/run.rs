//! Run and wait: enqueues a job, and answers with its output.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::read::{ExecutionView, JobDetail};
use lineclear::store::{Created, Creation, JobId, NewJob};
use lineclear_model::Payload;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::json_types::{Id, PathParam, QueryParams, name, payload};
use super::prefer_wait::is_over;
use crate::App;
use crate::audit::AuditDetails;
use crate::idempotency::{
    IdempotencyKeyHeader, KeyedInput, StoredReply, create_idempotently, job_location, mark_replayed,
};
use crate::long_poll::LongPoll;
use crate::middleware::trace::TraceParent;
use crate::problem::Problem;

/// Longest wait, in milliseconds.
const WAIT_MS_MAX: u64 = 5 * 60_000;
/// The wait of a request that does not say.
pub(crate) const WAIT_MS: u64 = 30_000;

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunParams {
    /// How long to wait for the end of the job, in milliseconds: at most 300,000, by default 30,000.
    #[param(maximum = 300000)]
    wait_ms: Option<u64>,
}

/// A job that has run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RanJob {
    /// The id of the job.
    job: Id,
    state: &'static str,
    /// The outcome of its last execution, such as `completed` or `failed`; null if there is none.
    outcome: Option<String>,
    /// What it returned, with masked secrets.
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
    /// What went wrong in its last execution.
    error: Option<RunError>,
}

/// An error of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunError {
    #[serde(rename = "type")]
    error_type: Option<String>,
    message: Option<String>,
}

impl RanJob {
    fn of(detail: JobDetail) -> RanJob {
        let last = detail.executions.last();
        let output =
            last.and_then(|last| last.output.as_deref()).and_then(|output| detail.secrets.mask(output));
        let is_error = |last: &&ExecutionView| last.error_type.is_some() || last.error_message.is_some();
        RanJob {
            job: Id::of(detail.job.id),
            state: detail.job.state.as_str(),
            outcome: last.map(|last| last.outcome.as_str().to_owned()),
            output: output.and_then(|output| RawValue::from_string(output).ok()),
            error: last.filter(is_error).map(|last| RunError {
                error_type: last.error_type.clone(),
                message: last.error_message.clone(),
            }),
        }
    }
}

/// Waits for the end of a job, and at most this long. The job exists: whatever fails here must not look like a failed request.
pub(crate) async fn wait_for_end(app: &App, poll: &LongPoll, job: JobId, wait: Duration) {
    if let Ok(_waiting) = poll.begin(wait) {
        tokio::select! {
            _ = app.client.wait(job, wait) => {}
            () = app.ended.cancelled() => {}
        }
    }
}

/// Runs a job of a kind, on a node or on a remote worker, and waits for its end. The body is its input. The job is like any other: it is
/// retried, and stays in history. 202: it has not ended in time; `Location` leads to it.
#[utoipa::path(
    post, path = "/run/{kind}", operation_id = "run_kind", tag = "jobs", request_body(content = Option<Object>, description = "The input; `{}` if there is none."),
    params(("kind" = String, Path), RunParams, IdempotencyKeyHeader), security(("token" = ["operate"])),
    responses((status = 200, body = RanJob, description = "the job is over"), (status = 202, body = RanJob, description = "the job is not over yet"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn run(
    state: State<App>,
    audit: AuditDetails,
    trace: TraceParent,
    path: PathParam,
    params: QueryParams<RunParams>,
    poll: LongPoll,
    request: KeyedInput,
) -> Result<Response, Problem> {
    let wait_ms = params.0.wait_ms.unwrap_or(WAIT_MS);
    if wait_ms > WAIT_MS_MAX {
        return Err(Problem::malformed("wait_ms", format!("`wait_ms` must be at most {WAIT_MS_MAX}")));
    }
    let input = match &request.text {
        Some(text) => payload(text.parse::<&RawValue>()?, "")?,
        None => Payload::empty(),
    };
    let job = NewJob { trace: trace.0, ..NewJob::new(name(&path.0, "kind")?, input) };
    let creation = Creation::Jobs(vec![job]);
    let reply = create_idempotently(&state.client, request.key, creation, &audit, |created| {
        let Created::Jobs(jobs) = created else { return None };
        let job = jobs.first()?.id;
        StoredReply::new(StatusCode::ACCEPTED, Some(job), &json!({"job": job.to_string()}))
    });
    let at_input =
        |problem: Problem| problem.locate(|location| (location.field == "input").then(String::new));
    let reply = reply.await.map_err(at_input)?;
    let Some(job) = reply.job() else { return Ok(reply.into_response()) };
    let replayed = reply.is_replayed();
    let wait = Duration::from_millis(wait_ms);
    wait_for_end(&state, &poll, job, wait).await;
    let Ok(Some(detail)) = state.reading.job(job).await else { return Ok(reply.into_response()) };
    let status = if is_over(detail.job.state) { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response =
        (status, [(header::LOCATION, job_location(job))], Json(RanJob::of(detail))).into_response();
    mark_replayed(&mut response, replayed);
    Ok(response)
}
