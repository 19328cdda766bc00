//! Accepts connections and limits their number, size and duration, before any handler runs.

mod connection_limit;
mod activity;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use crate::auth::TrustedProxies;
use crate::middleware::FoldedLog;
use crate::problem::Problem;
use activity::{Activity, InFlight, TrackedStream};
use connection_limit::{ConnectionLimit, ConnectionPermit};

/// The pause after a failed accept (too many open files).
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// How long a stopping server waits for requests in flight.
const DRAIN_WITHIN: Duration = Duration::from_secs(35);
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Limits of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerLimits {
    /// Longest head of a request, in bytes.
    pub head_bytes: usize,
    /// Time for the head of a request, from its first byte.
    pub head_timeout: Duration,
    /// Time for the body and the response.
    pub request_timeout: Duration,
    /// Time without a request, or without progress of a response.
    pub idle_timeout: Duration,
    /// Concurrent connections. A few further ones answer probes.
    pub connections: usize,
    /// Concurrent connections of one address, except this machine and trusted proxies; and concurrent requests of one client of a proxy.
    pub connections_per_address: usize,
    /// Concurrent requests of one token or user, including streams, on a server with authentication.
    pub requests_per_principal: usize,
    /// Concurrent event streams, and concurrent live pages, of one token or user, on a server with authentication.
    pub streams_per_principal: usize,
    /// Requests per second of one address, and of one token or user, on a server with authentication; bursts may have twice as many. 0: no
    /// limit.
    pub rate: u32,
}

impl Default for ListenerLimits {
    fn default() -> ListenerLimits {
        ListenerLimits {
            head_bytes: 16 * 1024,
            head_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            connections: 1_024,
            connections_per_address: 64,
            requests_per_principal: 256,
            streams_per_principal: 64,
            rate: 5_000,
        }
    }
}

/// Answers requests until `stop` completes, and then finishes those in flight.
pub(crate) async fn listen(
    listener: TcpListener,
    router: Router,
    limits: ListenerLimits,
    proxies: TrustedProxies,
    stop: impl Future<Output = ()> + Send,
) {
    let (graceful, limits) = (GracefulShutdown::new(), Arc::new(limits));
    let connections = ConnectionLimit::new(&limits, proxies);
    let failed = FoldedLog::new("accept failed", 1);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                failed.write(|| tracing::warn!(%error, "accept failed"));
                // The reason may be too many open files.
                connections.make_room();
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let activity = Arc::new(Activity::new());
        match connections.acquire(peer.ip(), &activity) {
            Some(permit) => serve(stream, peer, (permit, activity), &router, &limits, &graceful),
            // Best effort: the response must not delay the listener.
            None => drop(stream.try_write(FULL)),
        }
        // During a flood, connections that were accepted before must be read, and those that were closed must end.
        tokio::task::yield_now().await;
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_WITHIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections that did not finish in time were closed");
    }
}

fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    (permit, activity): (ConnectionPermit, Arc<Activity>),
    router: &Router,
    limits: &Arc<ListenerLimits>,
    graceful: &GracefulShutdown,
) {
    // A small response must not wait for the next one.
    let _ = stream.set_nodelay(true);
    let (router, shared, for_probes) = (router.clone(), activity.clone(), permit.for_probes);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let in_flight = InFlight::new(&shared);
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        let refused = for_probes && !is_probe(request.method(), request.uri().path());
        let response = router.clone().oneshot(request);
        async move {
            let response = if refused { full() } else { response.await? };
            let response = if for_probes { closing(response) } else { response };
            Ok::<_, std::convert::Infallible>(response.map(|body| in_flight.track(body)))
        }
    });
    let mut builder = http1::Builder::new();
    // `Activity` has the timeouts: hyper's timer does not distinguish a slow head from an idle connection.
    builder.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(limits.head_bytes);
    let connection =
        builder.serve_connection(TokioIo::new(TrackedStream::new(stream, activity.clone())), service);
    let (connection, limits) = (graceful.watch(connection), limits.clone());
    tokio::spawn(async move {
        tokio::select! {
            ended = connection => if let Err(error) = ended {
                tracing::debug!(%error, "a connection failed");
            },
            () = activity.until_too_slow(&limits) => tracing::debug!(%peer, "a connection was too slow"),
        }
        drop(permit);
    });
}

/// Whether a request is a probe. With a base path, a proxy may forward it; nothing of the API is one.
fn is_probe(method: &Method, path: &str) -> bool {
    let is_name = path.ends_with("/livez") || path.ends_with("/readyz");
    is_name && !path.contains("/api/") && (method == Method::GET || method == Method::HEAD)
}

/// The response when requests use all connections.
fn full() -> Response {
    let detail = "all connections of this server are in use; wait and try again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "connections_max", detail).into_response()
}

/// The last response of its connection.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
