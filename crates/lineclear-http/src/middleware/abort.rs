//! What ends a request early: its timeout, and a panic.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// Answers 408 when the client is too slow with its body, or the server with its response.
pub(crate) async fn request_timeout(
    State(within): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    match tokio::time::timeout(within, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = format!(
                "the request did not finish within {} s and was aborted; changes that are already committed remain: check before you retry",
                within.as_secs()
            );
            Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", detail).into_response()
        }
    }
}

/// The response to a request whose handler panicked.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    defect().into_response()
}

/// A bug of the server; the panic itself is in the log.
pub(crate) fn defect() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", "internal error; see the server's log")
}
