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
use lineclear::log_fold::LogFold;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::auth::TrustedProxies;
use crate::problem::Problem;
use activity::{Activity, InFlight, TrackedStream};
pub(crate) use connection_limit::ConnectionSeat;
use connection_limit::{ConnectionLimit, ConnectionPermit};

/// Lines about the limit of connections, and about failed accepts, are logged so often.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// The pause after a failed accept (too many open files).
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// How long a stopping server waits for requests in flight.
const DRAIN_WITHIN: Duration = Duration::from_secs(35);
/// How long a stopping server waits for the first request of a connection, from its beginning: the client may have sent it.
const FIRST_REQUEST_WITHIN: Duration = Duration::from_secs(1);
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
    /// Concurrent requests that wait for work. They count neither among the connections nor among the requests of their principal.
    pub polls: usize,
    /// Those of one token or user, on a server with authentication.
    pub polls_per_principal: usize,
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
            polls: 20_000,
            polls_per_principal: 10_000,
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
    let (open, limits) = (OpenConnections::default(), Arc::new(limits));
    let connections = ConnectionLimit::new(&limits, proxies);
    let ended = CancellationToken::new();
    connections.sweep_until(ended.clone());
    let _ended = ended.drop_guard();
    let failed = LogFold::new(LOG_EVERY);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(left_out) = failed.note(&()) {
                    tracing::warn!(%error, left_out, "accept failed");
                }
                // The reason may be too many open files.
                connections.make_room();
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let activity = Arc::new(Activity::new());
        match connections.acquire(peer.ip(), &activity) {
            Some(permit) => serve(stream, peer, (permit, activity), &router, &limits, &open),
            // Best effort: the response must not delay the listener.
            None => drop(stream.try_write(FULL)),
        }
        // During a flood, connections that were accepted before must be read, and those that were closed must end.
        tokio::task::yield_now().await;
    }
    drop(listener);
    open.stopping.cancel();
    open.tasks.close();
    if tokio::time::timeout(DRAIN_WITHIN, open.tasks.wait()).await.is_err() {
        tracing::warn!("connections that did not finish in time were closed");
    }
}

/// The connections of a listener.
#[derive(Default)]
struct OpenConnections {
    tasks: TaskTracker,
    /// Each ends after its request, or at once if it has none.
    stopping: CancellationToken,
}

fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    (permit, activity): (ConnectionPermit, Arc<Activity>),
    router: &Router,
    limits: &Arc<ListenerLimits>,
    open: &OpenConnections,
) {
    // A small response must not wait for the next one.
    let _ = stream.set_nodelay(true);
    let (router, shared, for_probes) = (router.clone(), activity.clone(), permit.for_probes);
    let seat = permit.seat();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let in_flight = InFlight::begin(&shared);
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(seat.clone());
        let refused = for_probes && !is_probe(request.method(), request.uri().path());
        let response = router.clone().oneshot(request);
        async move {
            // The seat went to another connection, and this one is closed.
            let Some(in_flight) = in_flight else { return std::future::pending().await };
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
    let (limits, stopping) = (limits.clone(), open.stopping.clone());
    open.tasks.spawn(async move {
        let mut connection = std::pin::pin!(connection);
        let mut told_to_end = false;
        let mut to_end = std::pin::pin!(async {
            stopping.cancelled().await;
            activity.until_first_request(FIRST_REQUEST_WITHIN).await;
        });
        let mut too_slow = std::pin::pin!(activity.until_too_slow(&limits));
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection failed");
                    }
                    break;
                }
                () = &mut too_slow => {
                    tracing::debug!(%peer, "a connection was too slow");
                    break;
                }
                () = &mut to_end, if !told_to_end => {
                    connection.as_mut().graceful_shutdown();
                    told_to_end = true;
                }
            }
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

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connection_that_was_just_opened_is_answered_although_the_server_stops() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/livez", get(|| async { "ok" }));
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let proxies = TrustedProxies::default();
        let server = tokio::spawn(async move {
            listen(listener, router, ListenerLimits::default(), proxies, stopped.notified()).await;
        });
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut before = TcpStream::connect(address).await.unwrap();
        before.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        before.read_exact(&mut [0; 15]).await.unwrap();
        // Both are accepted, in their order.
        stop.notify_one();
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
        server.await.unwrap();
    }
}
