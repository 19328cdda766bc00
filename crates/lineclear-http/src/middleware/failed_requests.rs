//! The log of requests that failed: one line with route and reason, and for those that repeat one line a period with their number.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use lineclear::log_fold::LogFold;
use tokio_util::sync::CancellationToken;
use tracing::Level;

use crate::problem::ProblemCause;

/// Failures of a route with the same reason are logged so often.
const PERIOD: Duration = Duration::from_secs(30);

/// The route, the status and the code of a failure.
type Key = (String, StatusCode, Box<str>);

/// The failures that were logged lately.
#[derive(Debug)]
pub(crate) struct FailedRequests(Arc<LogFold<Key>>);

impl FailedRequests {
    pub(crate) fn new() -> Arc<FailedRequests> {
        Arc::new(FailedRequests(Arc::new(LogFold::new(PERIOD))))
    }

    /// Tells of failures that were left out until the server ends.
    pub(crate) fn sweep_until(&self, ended: CancellationToken) {
        self.0.sweep_until(ended, |(route, status, code), left_out| {
            let status = status.as_u16();
            tracing::warn!(route, status, %code, left_out, "requests failed like the one before");
        });
    }

    /// Logs a failed request, unless one like it was logged lately.
    pub(super) fn log(&self, route: String, response: &Response, id: &str) {
        let (status, found) = (response.status(), response.extensions().get::<ProblemCause>());
        let (code, cause) = found.map_or(("", ""), |found| (&*found.code, &*found.cause));
        let Some(left_out) = self.0.note(&(route.clone(), status, code.into())) else { return };
        // A level is a part of the code that writes the line.
        macro_rules! log_at {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    route,
                    status = status.as_u16(),
                    code,
                    error = cause,
                    request.id = id,
                    left_out,
                    "a request failed"
                )
            };
        }
        match status {
            StatusCode::SERVICE_UNAVAILABLE => log_at!(Level::WARN),
            // A defect, or data that this version did not write: a person must look.
            _ => log_at!(Level::ERROR),
        }
    }
}
