//! Connections: how many, how large and how slow they may be. Who is too slow or too many is let go before any handler
//! hears of it.

mod seats;
mod watched;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use crate::access::Network;
use seats::{Seat, Seats};
use watched::{Answering, Pulse, Watched};

/// How long a listener that cannot accept (too many open files) waits before it tries again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// How long requests may still be answered after the server was told to stop.
const LAST_ANSWERS: Duration = Duration::from_secs(35);
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Bounds of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Time for a request's head, from its first byte.
    pub head_within: Duration,
    /// Time for the rest: to send the body, and to answer.
    pub request_within: Duration,
    /// Time without a request, or without a byte of an answer being taken.
    pub idle_within: Duration,
    /// Connections at once.
    pub connections: usize,
    /// Connections of one address at once; not for this machine itself, nor for trusted proxies.
    pub connections_per_address: usize,
    /// Requests of one address, and of one token or user, in a second, on a server that asks who they are; twice as many at
    /// once. 0: any number.
    pub rate: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_bytes: 16 * 1024,
            head_within: Duration::from_secs(10),
            request_within: Duration::from_secs(30),
            idle_within: Duration::from_secs(60),
            connections: 1_024,
            connections_per_address: 64,
            rate: 5_000,
        }
    }
}

/// Answers until `stop` is over, and then finishes what it has begun.
pub(crate) async fn listen(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    proxies: Vec<Network>,
    stop: impl Future<Output = ()> + Send,
) {
    let (graceful, limits) = (GracefulShutdown::new(), Arc::new(limits));
    let seats = Seats::new(&limits, proxies);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        match seats.take(peer.ip()) {
            Some(seat) => serve(stream, peer, seat, &router, &limits, &graceful),
            // It may not wait for the answer, and nobody waits for it.
            None => drop(stream.try_write(FULL)),
        }
    }
    drop(listener);
    if tokio::time::timeout(LAST_ANSWERS, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections that did not end in time were closed");
    }
}

fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    seat: Seat,
    router: &Router,
    limits: &Arc<Limits>,
    graceful: &GracefulShutdown,
) {
    // A small answer must not wait for the next one.
    let _ = stream.set_nodelay(true);
    let pulse = Arc::new(Pulse::new());
    let (router, beats) = (router.clone(), pulse.clone());
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let answering = Answering::new(&beats);
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        let answer = router.clone().oneshot(request);
        async move { answer.await.map(|response| response.map(|body| answering.until_the_end_of(body))) }
    });
    let mut builder = http1::Builder::new();
    // Time is watched by us: hyper's own timer does not tell a slow head from a connection that waits.
    builder.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(limits.head_bytes);
    let connection = builder.serve_connection(TokioIo::new(Watched::new(stream, pulse.clone())), service);
    let (connection, limits) = (graceful.watch(connection), limits.clone());
    tokio::spawn(async move {
        tokio::select! {
            ended = connection => if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            },
            () = pulse.stops(&limits) => tracing::debug!(%peer, "a connection was too slow"),
        }
        drop(seat);
    });
}
