//! All routes, and the layers around them.

use std::net::IpAddr;

use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use axum::{Json, Router};
use tower_http::catch_panic::CatchPanicLayer;

use crate::audit::write_audit;
use crate::auth::authorize;
use crate::idempotency::reject_unsupported_key;
use crate::listener::ListenerLimits;
use crate::middleware::{
    check_host, check_same_origin, panicked, request_id, request_timeout, security_headers, trace,
};
use crate::pages::error_page;
use crate::problem::Problem;
use crate::{App, api, health, pages};

/// All routes. `auth/required_scopes.rs` says which scope each requires.
pub(crate) fn routes() -> Router<App> {
    let (api, document) = api::router();
    let docs = pages::api_docs::routes(&document);
    let document = Json(document);
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/api/openapi.json", get(move || async move { document }))
        .merge(api)
        .merge(docs)
        .merge(pages::routes())
}

/// Wraps routes in layers. The last layer is the outermost: a request passes them from bottom to top.
pub(crate) fn with_layers(
    routes: Router<App>,
    app: App,
    open_at: Option<IpAddr>,
    limits: &ListenerLimits,
) -> Router {
    routes
        .fallback(|| async { Problem::not_found("such path; GET /api/openapi.json lists them") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this path does not support this method")
        })
        .layer(from_fn(reject_unsupported_key))
        // Inside the audit, so that the audit row records a panic as its outcome.
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.audit_writer.clone(), write_audit))
        .layer(from_fn_with_state(app.guard.clone(), authorize))
        .layer(from_fn(check_same_origin))
        .layer(from_fn_with_state(open_at, check_host))
        .layer(from_fn(trace::span))
        .layer(from_fn_with_state(limits.request_timeout, request_timeout))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), error_page))
        .layer(from_fn(security_headers))
        .layer(from_fn_with_state(app.failures.clone(), request_id::request_id))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::Body;
    use axum::extract::Request;
    use lineclear::Lineclear;
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    use super::*;
    use crate::audit::AuditWriter;
    use crate::auth::{Access, Guard, RequiredScopes, TrustedProxies};
    use crate::event_hub::EventHub;
    use crate::middleware::FailedRequests;
    use crate::pages::LivePages;
    use crate::remote_workers::RemoteWorkers;

    impl App {
        /// The state of a server on this node, without a listener.
        pub(crate) fn for_test(node: &lineclear::Node) -> App {
            let (client, reading) = (node.client(), node.store().clone());
            let ended = CancellationToken::new();
            let events = EventHub::new(reading.clone(), ended.clone());
            let scopes = RequiredScopes::of(&api::document());
            let (limits, proxies) = (ListenerLimits::default(), TrustedProxies::default());
            let stores = (reading.clone(), reading.clone());
            let guard = Guard::new(Access::OpenOnLoopback, proxies, &limits, scopes, stores.0, stores.1);
            let (audit_writer, _) = AuditWriter::new(reading.clone());
            let (live, base) = (LivePages::default(), Arc::from(""));
            App {
                client,
                reading,
                locks: None,
                outboxes: None,
                subscriptions: None,
                metrics: None,
                events,
                ended,
                guard,
                audit_writer,
                workers: RemoteWorkers::default(),
                live,
                base,
                failures: FailedRequests::new(),
            }
        }
    }

    #[tokio::test]
    async fn a_route_without_a_declared_scope_is_refused() {
        let node = Lineclear::builder().store(":memory:").start().await.unwrap();
        let app = App::for_test(&node);
        let forgotten = routes()
            .route("/debug", get(|| async { "everything" }))
            .route("/api/v1/nodes", axum::routing::delete(|| async { "gone" }));
        let router =
            with_layers(forgotten, app, Some(IpAddr::from([127, 0, 0, 1])), &ListenerLimits::default());
        let ask = async |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).header("host", "localhost");
            router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
        };
        assert_eq!(ask("GET", "/api/v1/nodes").await, StatusCode::OK, "one that has a scope");
        assert_eq!(ask("GET", "/debug").await, StatusCode::FORBIDDEN, "although the server is open");
        assert_eq!(ask("DELETE", "/api/v1/nodes").await, StatusCode::METHOD_NOT_ALLOWED);
        node.stop().await;
    }
}
