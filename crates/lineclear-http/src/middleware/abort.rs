//! What ends a request early: its timeout, and a panic.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use crate::problem::Problem;

/// When a request is aborted. A handler that waits on purpose moves it.
#[derive(Clone)]
pub(crate) struct RequestDeadline(Arc<Mutex<Instant>>);

impl RequestDeadline {
    fn in_time(within: Duration) -> RequestDeadline {
        RequestDeadline(Arc::new(Mutex::new(Instant::now() + within)))
    }

    fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The request may take so much longer.
    pub(crate) fn extend(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += by;
    }
}

/// Answers 408 when the client is too slow with its body, or the server with its response.
pub(crate) async fn request_timeout(
    State(within): State<Duration>,
    mut request: Request,
    next: Next,
) -> Response {
    let deadline = RequestDeadline::in_time(within);
    request.extensions_mut().insert(deadline.clone());
    let mut response = std::pin::pin!(next.run(request));
    loop {
        let at = deadline.get();
        match tokio::time::timeout_at(at, &mut response).await {
            Ok(response) => return response,
            // It was moved meanwhile.
            Err(_) if deadline.get() > at => {}
            Err(_) => break,
        }
    }
    let detail = format!(
        "the request did not finish within {} s and was aborted; changes that are already committed remain: check before you retry",
        within.as_secs()
    );
    Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", detail).into_response()
}

/// The response to a request whose handler panicked.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    defect().into_response()
}

/// A bug of the server; the panic itself is in the log.
pub(crate) fn defect() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", "internal error; see the server's log")
}
