//! The path that a proxy has the server under. It may pass it on or take it away: both are answered.

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use tower::Layer;
use tower::util::MapRequestLayer;

/// Whether a path can be one to be under.
pub(crate) fn check(base: &str) -> Result<(), String> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    if base.is_empty() || base.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_word)) {
        return Ok(());
    }
    Err(format!("base_path {base:?} begins with / and does not end with it, such as /lineclear"))
}

/// The same routes, with and without it.
pub(crate) fn under(base: &str, router: Router) -> Router {
    if base.is_empty() {
        return router;
    }
    let base = base.to_owned();
    let layer = MapRequestLayer::new(move |request: Request| without(&base, request));
    Router::new().fallback_service(layer.layer(router))
}

fn without(base: &str, mut request: Request) -> Request {
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
    fn it_is_taken_away_only_where_it_stands() {
        let path = |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            without("/lineclear", request).uri().to_string()
        };
        assert_eq!(path("/lineclear"), "/");
        assert_eq!(path("/lineclear/"), "/");
        assert_eq!(path("/lineclear?a=b"), "/?a=b");
        assert_eq!(path("/lineclear/jobs?q=kind:x"), "/jobs?q=kind:x");
        assert_eq!(path("/jobs"), "/jobs");
        assert_eq!(path("/lineclearly/jobs"), "/lineclearly/jobs");
    }
}
