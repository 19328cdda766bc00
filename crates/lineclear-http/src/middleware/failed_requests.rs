//! The log of requests that failed: one line with route and reason, and for those that repeat one line a period with their number.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use lineclear::log_fold::LogFold;
use tokio_util::sync::CancellationToken;

use crate::problem::ProblemCause;

/// Failures of a route with the same reason are logged so often.
const PERIOD: Duration = Duration::from_secs(30);
/// How often failures that were left out are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// The route, the status and the code of a failure.
type Key = (String, StatusCode, Box<str>);

/// The failures that were logged lately.
#[derive(Debug)]
pub(crate) struct FailedRequests(LogFold<Key>);

impl FailedRequests {
    pub(crate) fn new() -> Arc<FailedRequests> {
        Arc::new(FailedRequests(LogFold::new(PERIOD)))
    }

    /// Tells of failures that were left out until the server ends.
    pub(crate) fn sweep_until(self: &Arc<FailedRequests>, ended: CancellationToken) {
        let failures = self.clone();
        tokio::spawn(async move {
            while !ended.is_cancelled() {
                tokio::select! {
                    () = ended.cancelled() => {}
                    () = tokio::time::sleep(SWEEP_EVERY) => {}
                }
                let untold = if ended.is_cancelled() { failures.0.flush() } else { failures.0.sweep() };
                for ((route, status, code), left_out) in untold {
                    let status = status.as_u16();
                    tracing::warn!(route, status, %code, left_out, "requests failed like the one before");
                }
            }
        });
    }

    /// Logs a failed request, unless one like it was logged lately.
    pub(super) fn log(&self, route: String, response: &Response, id: &str) {
        let (status, found) = (response.status(), response.extensions().get::<ProblemCause>());
        let (code, cause) = found.map_or(("", ""), |found| (&*found.code, &*found.cause));
        let Some(left_out) = self.0.note(&(route.clone(), status, code.into())) else { return };
        let (number, error) = (status.as_u16(), cause);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            tracing::warn!(
                route,
                status = number,
                code,
                error,
                request.id = id,
                left_out,
                "a request failed"
            );
        } else {
            // A defect, or data that this version did not write: a person must look.
            tracing::error!(
                route,
                status = number,
                code,
                error,
                request.id = id,
                left_out,
                "a request failed"
            );
        }
    }
}
