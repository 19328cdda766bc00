//! The path under which a proxy publishes the server. The proxy may forward it or strip it: both work.

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use tower::Layer;
use tower::util::MapRequestLayer;

/// Checks a base path.
pub(crate) fn check(base: &str) -> Result<(), String> {
    let is_segment = |segment: &str| {
        !segment.is_empty()
            && segment.starts_with(|c: char| c.is_ascii_alphanumeric())
            && segment.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    if base.is_empty() || base.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_segment)) {
        return Ok(());
    }
    Err(format!("`base_path` must begin with / and not end with it, such as /lineclear; it is {base:?}"))
}

/// The same routes, with and without the base path.
pub(crate) fn under(base: &str, router: Router) -> Router {
    if base.is_empty() {
        return router;
    }
    let base = base.to_owned();
    let layer = MapRequestLayer::new(move |request: Request| strip(&base, request));
    Router::new().fallback_service(layer.layer(router))
}

fn strip(base: &str, mut request: Request) -> Request {
    let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    let rest = match path.strip_prefix(base) {
        Some(rest) if rest.starts_with('/') => rest.to_owned(),
        Some(rest) if rest.is_empty() || rest.starts_with('?') => format!("/{rest}"),
        _ => return request,
    };
    let mut parts = request.uri().clone().into_parts();
    if let Ok(rest) = rest.parse() {
        parts.path_and_query = Some(rest);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_base_path_is_a_plain_path() {
        for good in ["", "/lineclear", "/ops/line-clear_2.0"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["/", "lineclear", "/lineclear/", "//x", "/a//b", "/../x", "/a b", "/a?b", "/<b>", "/é"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_a_whole_prefix_is_stripped() {
        let path = |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            strip("/lineclear", request).uri().to_string()
        };
        assert_eq!(path("/lineclear"), "/");
        assert_eq!(path("/lineclear/"), "/");
        assert_eq!(path("/lineclear?a=b"), "/?a=b");
        assert_eq!(path("/lineclear/jobs?q=kind:x"), "/jobs?q=kind:x");
        assert_eq!(path("/jobs"), "/jobs");
        assert_eq!(path("/lineclearly/jobs"), "/lineclearly/jobs");
    }
}
