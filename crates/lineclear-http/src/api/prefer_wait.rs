//! `Prefer: wait=N` (RFC 7240): the response comes when the job is over, or after N seconds with its state.

use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::store::JobId;
use lineclear_model::JobState;
use utoipa::IntoParams;

use super::jobs::detail::JobDetails;
use crate::App;
use crate::idempotency::{StoredReply, job_location, mark_replayed};
use crate::problem::Problem;

/// Longest wait in seconds, shorter than the request timeout.
const WAIT_MAX: u64 = 25;
const PREFER: HeaderName = HeaderName::from_static("prefer");
const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The header, for the API document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its shape is used")]
pub(crate) struct PreferHeader {
    /// `wait=N`: respond when the job is over, or after N seconds (at most 25) with 202 and its state.
    #[param(rename = "Prefer")]
    prefer: Option<String>,
}

/// Extracts how long the client prefers to wait.
pub(crate) struct Prefer(Option<u64>);

impl<S: Send + Sync> FromRequestParts<S> for Prefer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Prefer, Problem> {
        let given = parts.headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
        let mut words = given.flat_map(|value| value.split([',', ';']));
        // RFC 7240: unknown preferences are ignored, and the first one of a name counts.
        let wait = words.find_map(|word| {
            let (name, value) = word.split_once('=')?;
            name.trim().eq_ignore_ascii_case("wait").then(|| value.trim().trim_matches('"').parse::<u64>())
        });
        let wait = wait.transpose().map_err(|_| {
            Problem::malformed("prefer", format!("`wait` must be a number of seconds, at most {WAIT_MAX}"))
        })?;
        Ok(Prefer(wait.map(|seconds| seconds.min(WAIT_MAX))))
    }
}

/// Whether a job has ended.
pub(super) fn is_over(state: JobState) -> bool {
    matches!(state, JobState::Completed | JobState::Cancelled | JobState::Dead)
}

/// Waits until the job is over or the time has passed.
async fn wait_for(app: &App, job: JobId, seconds: u64) -> Result<Response, Problem> {
    let waited = tokio::select! {
        waited = app.client.wait(job, Duration::from_secs(seconds)) => Some(waited?),
        () = app.ended.cancelled() => None,
    };
    let mut response = current_state(app, job).await?;
    if waited.is_some() {
        let applied = HeaderValue::from_str(&format!("wait={seconds}")).expect("digits");
        response.headers_mut().insert(APPLIED, applied);
    }
    Ok(response)
}

/// 200 if the job is over, otherwise 202.
async fn current_state(app: &App, job: JobId) -> Result<Response, Problem> {
    let found = app.reading.job(job).await?;
    let detail = found.ok_or_else(|| Problem::not_found(format_args!("job {job}")))?;
    let status = if is_over(detail.job.state) { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, [(header::LOCATION, job_location(job))], Json(JobDetails::of(detail))).into_response())
}

impl Prefer {
    /// The response to a request for a job.
    pub(super) async fn job(&self, app: &App, job: JobId) -> Result<Response, Problem> {
        let found = app.reading.job(job).await?;
        let detail = found.ok_or_else(|| Problem::not_found(format_args!("job {job}")))?;
        match self.0 {
            Some(seconds) => wait_for(app, job, seconds).await,
            None => Ok(Json(JobDetails::of(detail)).into_response()),
        }
    }

    /// The response to a request that created a job.
    pub(super) async fn reply(&self, app: &App, reply: StoredReply) -> Result<Response, Problem> {
        let (Some(seconds), Some(job)) = (self.0, reply.job()) else { return Ok(reply.into_response()) };
        let replayed = reply.is_replayed();
        match wait_for(app, job, seconds).await {
            Ok(mut response) => {
                mark_replayed(&mut response, replayed);
                Ok(response)
            }
            // The job exists: a failed wait must not look like a failed request.
            Err(_) => Ok(reply.into_response()),
        }
    }
}
