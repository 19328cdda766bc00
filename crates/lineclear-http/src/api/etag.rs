//! Versions of what can be changed: `ETag`, and `If-Match` to change only what one has seen.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::problem::Problem;

/// The tag of a version.
pub(super) fn etag(version: i64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{version}\"")).expect("digits")
}

/// The version that an `If-Match` names, if there is one.
pub(super) fn seen(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(tag) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let version = tag.to_str().ok().and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok());
    version.map(Some).ok_or_else(|| {
        let detail = "this is no ETag of it; look at it, and send the one that you got";
        Problem::new(StatusCode::PRECONDITION_FAILED, "changed_since", detail)
    })
}
