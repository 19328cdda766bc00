//! Gives each request an id, which the response, the problem, the audit row and the log share; and logs requests that failed.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;

use super::FailedRequests;

const NAME: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that a client may choose.
const BYTES_MAX: usize = 64;

tokio::task_local! {
    static CURRENT: RequestId;
}

/// The id of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(Arc<str>);

impl RequestId {
    /// The id of the client, if it is short and plain; otherwise a new one.
    fn of(request: &Request) -> RequestId {
        let given = request.headers().get(&NAME).and_then(|id| id.to_str().ok()).filter(|id| is_plain(id));
        match given {
            Some(id) => RequestId(id.into()),
            None => RequestId(uuid::Uuid::new_v4().simple().to_string().into()),
        }
    }

    /// The id of the current request.
    pub(crate) fn current() -> Option<String> {
        CURRENT.try_with(|id| id.0.to_string()).ok()
    }
}

fn is_plain(id: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !id.is_empty() && id.len() <= BYTES_MAX && id.bytes().all(plain)
}

/// A client can make up methods: the log does not repeat them.
fn known(method: &Method) -> &str {
    match *method {
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE => {
            method.as_str()
        }
        _ => "(another method)",
    }
}

/// The outermost middleware.
pub(crate) async fn request_id(
    State(failures): State<Arc<FailedRequests>>,
    request: Request,
    next: Next,
) -> Response {
    let id = RequestId::of(&request);
    let path = request.extensions().get::<MatchedPath>().cloned();
    let route =
        format!("{} {}", known(request.method()), path.as_ref().map_or("(no route)", MatchedPath::as_str));
    let mut response = CURRENT.scope(id.clone(), next.run(request)).await;
    // Probes repeat, and the node logs the reason itself.
    if response.status().is_server_error() && !route.ends_with(" /readyz") {
        failures.log(route, &response, &id.0);
    }
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(NAME, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_plain() {
        for id in ["a", "7f3c-1.b_2", &"x".repeat(64)] {
            assert!(is_plain(id), "{id}");
        }
        for id in ["", "a b", "a\u{e9}", "a\"b", "<x>", "a\u{1b}[1m", &"x".repeat(65)] {
            assert!(!is_plain(id), "{id}");
        }
    }
}
