//! Optimistic concurrency: `ETag` has the version of a resource, `If-Match` the version that a change expects.

use axum::http::{HeaderMap, HeaderValue, header};
use lineclear::store::ExpectedVersion;
use utoipa::IntoParams;

/// The header, for the API document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its shape is used")]
pub(crate) struct IfMatch {
    /// The expected `ETag`, several of them, or `*` for any version. The change is refused (412) if the resource has another.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// The tag of a version.
pub(super) fn etag(version: i64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{version}\"")).expect("digits")
}

/// The version that `If-Match` expects. A tag that is not ours matches nothing.
pub(super) fn expected_version(headers: &HeaderMap) -> Option<ExpectedVersion> {
    let mut given = headers.get_all(header::IF_MATCH).iter().peekable();
    given.peek()?;
    let texts: Vec<&str> = given.map(|value| value.to_str().unwrap_or_default().trim()).collect();
    if texts == ["*"] {
        return Some(ExpectedVersion::Any);
    }
    let version = |tag: &str| tag.trim().strip_prefix('"')?.strip_suffix('"')?.parse().ok();
    Some(ExpectedVersion::Versions(
        texts.iter().flat_map(|text| text.split(',')).filter_map(version).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_match_is_parsed_as_in_rfc_9110() {
        let read = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, HeaderValue::from_static(value));
            }
            expected_version(&headers)
        };
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[" * "]), Some(ExpectedVersion::Any));
        assert_eq!(read(&["\"7\""]), Some(ExpectedVersion::Versions(vec![7])));
        assert_eq!(read(&["\"7\", \"8\"", "\"9\""]), Some(ExpectedVersion::Versions(vec![7, 8, 9])));
        for nothing in ["W/\"7\"", "7", "", "\"x\"", "*, \"x\""] {
            assert_eq!(
                read(&[nothing]),
                Some(ExpectedVersion::Versions(vec![])),
                "{nothing}: weak tags never match"
            );
        }
        assert_eq!(etag(7), "\"7\"");
    }
}
