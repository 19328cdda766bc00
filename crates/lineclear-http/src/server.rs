//! The listener, and what every request goes through.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use lineclear::{Client, Store, StoreError};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use crate::access::{Access, Gate, Needs, Network, check_host, check_site, guard};
use crate::audit::{Ledger, Writers, audit};
use crate::listener::{Limits, listen};
use crate::once::check_key;
use crate::pages::{Hub, for_people};
use crate::problem::Problem;
use crate::request_id::request_id;
use crate::tail::Tail;
use crate::{App, ShownLocks, api, base, docs, health, pages};

/// The port unless another is asked for.
pub const PORT: u16 = 7171;
/// Longest time for a statement that only reads.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// Longest time for the audit's last rows when the server stops.
const WRITE_WITHIN: Duration = Duration::from_secs(5);
/// Connections for reading.
const READERS: usize = 4;

/// How the server listens.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Where; port 0 takes a free one.
    pub bind: SocketAddr,
    /// How it knows who asks.
    pub access: Access,
    /// The locks that it shows, if there are any.
    pub locks: Option<ShownLocks>,
    /// How many, how large and how slow requests may be.
    pub limits: Limits,
    /// The path that a proxy has the server under, such as `/lineclear`; empty: it has a host of its own. Paths with and without it
    /// are answered, and links have it.
    pub base_path: String,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            bind: SocketAddr::from(([127, 0, 0, 1], PORT)),
            access: Access::default(),
            locks: None,
            limits: Limits::default(),
            base_path: String::new(),
        }
    }
}

impl HttpOptions {
    /// Whether a server may be so; [`Server::bind`] asks, too.
    pub fn check(&self) -> Result<(), ServeError> {
        self.access.check(self.bind).map_err(ServeError::Access)?;
        base::check(&self.base_path).map_err(ServeError::BasePath)
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It would be open to others.
    #[error("{0}")]
    Access(String),
    /// It cannot be under that path.
    #[error("{0}")]
    BasePath(String),
    /// The address cannot be had.
    #[error("cannot listen on {bind}: {source}")]
    Bind {
        /// Where.
        bind: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A server that listens, and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    ended: CancellationToken,
    limits: Limits,
    proxies: Vec<Network>,
    /// They write the audit until the last request is over.
    writers: Writers,
}

impl Server {
    /// Listens. `client` is of the node that the server speaks for.
    pub async fn bind(
        options: HttpOptions,
        client: Client,
        metrics: Option<PrometheusHandle>,
    ) -> Result<Server, ServeError> {
        options.check()?;
        let bad = |source| ServeError::Bind { bind: options.bind, source };
        let listener = TcpListener::bind(options.bind).await.map_err(bad)?;
        let address = listener.local_addr().map_err(bad)?;
        let reading =
            client.store().options().clone().migrate(false).connections(READERS).deadline(READ_WITHIN);
        let reading = if client.store().options().is_in_memory() {
            client.store().clone()
        } else {
            Store::open(reading).await?
        };
        tokio::spawn(crate::batches::work(client.clone()));
        let (proxies, limits) = (options.access.proxies(), options.limits.clone());
        let options = HttpOptions { bind: address, ..options };
        let Assembled { router, writers, ended } = assemble(options, client, reading, metrics);
        Ok(Server { listener, address, router, limits, proxies, writers, ended })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is over, and then finishes what it has begun.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let ended = self.ended;
        let stop = async move {
            stop.await;
            ended.cancel();
        };
        listen(self.listener, self.router, self.limits, self.proxies, stop).await;
        // Nobody has anything for them any more, so they end.
        if tokio::time::timeout(WRITE_WITHIN, self.writers.finish()).await.is_err() {
            tracing::warn!("the audit was not written to its end");
        }
        Ok(())
    }
}

/// All that answers, and what must be ended with it.
pub(crate) struct Assembled {
    pub(crate) router: Router,
    pub(crate) writers: Writers,
    pub(crate) ended: CancellationToken,
}

/// Puts together what answers requests, wherever they come from.
pub(crate) fn assemble(
    options: HttpOptions,
    client: Client,
    reading: Store,
    metrics: Option<PrometheusHandle>,
) -> Assembled {
    let HttpOptions { bind, access, locks, limits, base_path } = options;
    let only_at = access.only_at(bind);
    let needs = Needs::of(&document());
    let gate = Gate::new(access, needs, limits.rate, reading.clone(), client.store().clone());
    let (ledger, writers) = Ledger::new(client.store().clone());
    let ended = CancellationToken::new();
    let tail = Tail::new(reading.clone(), ended.clone());
    let (live, base) = (Hub::default(), Arc::from(base_path.as_str()));
    let app = App { client, reading, locks, metrics, tail, ended: ended.clone(), gate, ledger, live, base };
    let router = base::under(&base_path, around(routes(), app, only_at, &limits));
    Assembled { router, writers, ended }
}

/// What the API is, in the words of OpenAPI.
#[derive(OpenApi)]
#[openapi(
    info(title = "Lineclear", description = "A distributed job scheduler.", license(name = "MIT OR Apache-2.0")),
    tags((name = "jobs"), (name = "manifests"), (name = "groups"), (name = "dead letters"), (name = "batches"), (name = "locks"), (name = "nodes"), (name = "events"), (name = "tokens"),
         (name = "session"), (name = "audit"), (name = "stats"), (name = "settings")),
    modifiers(&Schemes)
)]
struct Document;

/// How requests say who they are from.
struct Schemes;

impl Modify for Schemes {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "A token (`lineclear token create`). Scopes: read, operate and admin, of which each includes those before it; and \
             worker. Browsers may log in with one and send a cookie instead. An open server on a loopback address asks for none.",
        ));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(token.build()));
    }
}

fn api() -> (Router<App>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(Document::openapi()).nest("/api/v1", api::routes()).split_for_parts()
}

pub(crate) fn document() -> utoipa::openapi::OpenApi {
    api().1
}

/// All routes. What each needs is said in the document, or in `access/needs.rs`.
fn routes() -> Router<App> {
    let (api, document) = api();
    let docs = docs::routes(&document);
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

/// Routes, and what every request goes through before it gets to one.
fn around(routes: Router<App>, app: App, only_at: Option<IpAddr>, limits: &Limits) -> Router {
    routes
        .fallback(|| async { Problem::not_found("such path; GET /api/openapi.json lists them") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this path does not take that method")
        })
        .layer(middleware::from_fn(check_key))
        // Inside of the audit: a defect is the outcome of what was done.
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(app.ledger.clone(), audit))
        .layer(middleware::from_fn_with_state(app.gate.clone(), guard))
        .layer(middleware::from_fn(check_site))
        .layer(middleware::from_fn_with_state(only_at, check_host))
        .layer(middleware::from_fn(crate::trace::span))
        .layer(middleware::from_fn_with_state(limits.request_within, in_time))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(app.clone(), for_people))
        .layer(middleware::from_fn(headers))
        .layer(middleware::from_fn(request_id))
        .with_state(app)
}

/// Who is too slow, the client with its body or we with the answer, is told so.
async fn in_time(State(within): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(within, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = format!(
                "it was not done within {} s, and was given up; what was already written stays: look before you send it again",
                within.as_secs()
            );
            Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", detail).into_response()
        }
    }
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    defect().into_response()
}

/// Something of ours has panicked; the panic itself is in the log.
pub(crate) fn defect() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", "a defect of the server; its log says more")
}

/// What every answer says to browsers: nothing here is a page, or to be kept.
async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fixed = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use lineclear::Lineclear;
    use tower::ServiceExt;

    use super::*;

    impl App {
        /// What a server on this node would have, without one.
        pub(crate) fn for_test(node: &lineclear::Node) -> App {
            let (client, reading) = (node.client(), node.store().clone());
            let ended = CancellationToken::new();
            let tail = Tail::new(reading.clone(), ended.clone());
            let needs = Needs::of(&document());
            let gate = Gate::new(Access::OpenOnLoopback, needs, 0, reading.clone(), reading.clone());
            let (ledger, _) = Ledger::new(reading.clone());
            let (live, base) = (Hub::default(), Arc::from(""));
            App { client, reading, locks: None, metrics: None, tail, ended, gate, ledger, live, base }
        }
    }

    #[tokio::test]
    async fn a_route_that_does_not_say_what_it_needs_is_refused() {
        let node = Lineclear::builder().store(":memory:").start().await.unwrap();
        let app = App::for_test(&node);
        let forgotten = routes()
            .route("/debug", get(|| async { "everything" }))
            .route("/api/v1/nodes", axum::routing::delete(|| async { "gone" }));
        let router = around(forgotten, app, Some(IpAddr::from([127, 0, 0, 1])), &Limits::default());
        let ask = async |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).header("host", "localhost");
            router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
        };
        assert_eq!(ask("GET", "/api/v1/nodes").await, StatusCode::OK, "one that does");
        assert_eq!(ask("GET", "/debug").await, StatusCode::FORBIDDEN, "although the server is open");
        assert_eq!(ask("DELETE", "/api/v1/nodes").await, StatusCode::METHOD_NOT_ALLOWED);
        node.stop().await;
    }
}
