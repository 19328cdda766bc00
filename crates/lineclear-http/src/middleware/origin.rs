//! Protection against cross-site request forgery.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// Refuses changes that a page of another site sends through a browser. Browsers name the origin of a request; other programs name
/// none, and pass.
pub(crate) async fn check_same_origin(request: Request, next: Next) -> Response {
    if request.method().is_safe() || is_same_origin(&request) {
        return next.run(request).await;
    }
    let detail = "cross-site requests cannot make changes";
    Problem::new(StatusCode::FORBIDDEN, "cross_site", detail).into_response()
}

fn is_same_origin(request: &Request) -> bool {
    let text = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            text("host").is_some_and(|host| origin.split_once("://").is_some_and(|(_, from)| from == host))
        }
        (None, None) => true,
    }
}
