//! `Prefer: wait=N` (RFC 7240): the answer comes when the job is over, or after N seconds with how far it is.

use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::store::JobId;
use lineclear_model::JobState;
use utoipa::IntoParams;

use super::jobs::detail::Detail;
use crate::App;
use crate::once::{Reply, location, mark};
use crate::problem::Problem;

/// Longest wait, shorter than the longest request.
const WAIT_MAX: u64 = 25;
const PREFER: HeaderName = HeaderName::from_static("prefer");
const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The header, for the document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its shape is used")]
pub(crate) struct PreferHeader {
    /// `wait=N`: answer when the job is over, or after N seconds (25 at most) with 202 and how far it is.
    #[param(rename = "Prefer")]
    prefer: Option<String>,
}

/// What the client prefers.
pub(crate) struct Prefer(Option<u64>);

impl<S: Send + Sync> FromRequestParts<S> for Prefer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Prefer, Problem> {
        let given = parts.headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
        let mut words = given.flat_map(|value| value.split([',', ';']));
        // Preferences that a server does not know are none of its business; the first of a name counts.
        let wait = words.find_map(|word| {
            let (name, value) = word.split_once('=')?;
            name.trim().eq_ignore_ascii_case("wait").then(|| value.trim().trim_matches('"').parse::<u64>())
        });
        let wait = wait.transpose().map_err(|_| {
            Problem::malformed("prefer", format!("wait is a number of seconds, {WAIT_MAX} at most"))
        })?;
        Ok(Prefer(wait.map(|seconds| seconds.min(WAIT_MAX))))
    }
}

fn is_over(state: JobState) -> bool {
    matches!(state, JobState::Completed | JobState::Cancelled | JobState::Dead)
}

/// A job, when it is over or so many seconds have passed.
async fn when_over(app: &App, job: JobId, seconds: u64) -> Result<Response, Problem> {
    let waited = tokio::select! {
        waited = app.client.wait(job, Duration::from_secs(seconds)) => Some(waited?),
        () = app.ended.cancelled() => None,
    };
    let mut response = how_far(app, job).await?;
    if waited.is_some() {
        let applied = HeaderValue::from_str(&format!("wait={seconds}")).expect("digits");
        response.headers_mut().insert(APPLIED, applied);
    }
    Ok(response)
}

/// 200 and the job if it is over, 202 and how far it is otherwise.
async fn how_far(app: &App, job: JobId) -> Result<Response, Problem> {
    let found = app.reading.job(job).await?;
    let detail = found.ok_or_else(|| Problem::not_found(format_args!("job {job}")))?;
    let status = if is_over(detail.job.state) { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, [(header::LOCATION, location(job))], Json(Detail::of(detail))).into_response())
}

impl Prefer {
    /// One job; now, or when it is over.
    pub(super) async fn job(&self, app: &App, job: JobId) -> Result<Response, Problem> {
        let found = app.reading.job(job).await?;
        let detail = found.ok_or_else(|| Problem::not_found(format_args!("job {job}")))?;
        match self.0 {
            Some(seconds) => when_over(app, job, seconds).await,
            None => Ok(Json(Detail::of(detail)).into_response()),
        }
    }

    /// The answer to a request that made a job; now, or when the job is over.
    pub(super) async fn reply(&self, app: &App, reply: Reply) -> Result<Response, Problem> {
        let (Some(seconds), Some(job)) = (self.0, reply.job()) else { return Ok(reply.into_response()) };
        let replayed = reply.is_replayed();
        match when_over(app, job, seconds).await {
            Ok(mut response) => {
                mark(&mut response, replayed);
                Ok(response)
            }
            // The job is made: that nobody can wait for it now must not look as if it were not.
            Err(_) => Ok(reply.into_response()),
        }
    }
}
