//! Tracks the activity of a connection, to close slow ones.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::Body;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::ListenerLimits;
use crate::middleware::HeldBody;

/// Marks the number of requests of a connection that is being closed: no further one begins.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The times of the last events of a connection, in milliseconds since its start; 0 is never.
pub(super) struct Activity {
    began: Instant,
    /// The last byte, in either direction.
    last: AtomicU64,
    /// The first byte of an incomplete head.
    head: AtomicU64,
    /// When the peer stopped reading.
    blocked: AtomicU64,
    /// Requests in flight, or [`CLOSED`].
    in_flight: AtomicUsize,
    /// Requests whose head was complete.
    heads: AtomicU64,
    /// Another connection needs its seat.
    close: CancellationToken,
}

impl Activity {
    pub(super) fn new() -> Activity {
        let zero = || AtomicU64::new(0);
        Activity {
            began: Instant::now(),
            last: zero(),
            head: zero(),
            blocked: zero(),
            in_flight: AtomicUsize::new(0),
            heads: zero(),
            close: CancellationToken::new(),
        }
    }

    /// Whether the client has not sent a whole head yet.
    pub(super) fn is_silent(&self) -> bool {
        self.heads.load(Ordering::Relaxed) == 0
    }

    /// How long the connection has been waiting for the next request, or for the rest of its head. `None`: it has one.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        let [head, blocked, last] =
            [&self.head, &self.blocked, &self.last].map(|at| at.load(Ordering::Relaxed));
        if self.has_request() || blocked > 0 {
            return None;
        }
        let since = if head > 0 { head } else { last };
        Some(Duration::from_millis(self.now().saturating_sub(since)))
    }

    /// Closes the connection, even if its request waits.
    pub(super) fn close(&self) {
        self.close.cancel();
    }

    /// Closes the connection, unless it has a request or is closed already.
    pub(super) fn try_close(&self) -> bool {
        let is_idle = self.in_flight.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if is_idle {
            self.close.cancel();
        }
        is_idle
    }

    fn has_request(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) & !CLOSED > 0
    }

    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.close.is_cancelled()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn record_read(&self) {
        let now = self.now();
        self.last.store(now, Ordering::Relaxed);
        if !self.has_request() {
            // Only the first byte of a head.
            let _ = self.head.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn record_written(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
        self.blocked.store(0, Ordering::Relaxed);
    }

    fn record_blocked(&self) {
        let _ = self.blocked.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_too_slow(&self, limits: &ListenerLimits) -> bool {
        let now = self.now();
        let is_past = |since: u64, limit: Duration| u128::from(now.saturating_sub(since)) > limit.as_millis();
        let [head, blocked, last] =
            [&self.head, &self.blocked, &self.last].map(|at| at.load(Ordering::Relaxed));
        (head > 0 && is_past(head, limits.head_timeout))
            || (blocked > 0 && is_past(blocked, limits.idle_timeout))
            || (!self.has_request() && is_past(last, limits.idle_timeout))
    }

    /// Returns when the connection has had a request, or had none within this time from its beginning.
    pub(super) async fn until_first_request(&self, within: Duration) {
        while self.is_silent() && self.began.elapsed() < within {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns when the connection is too slow, or another one needs its seat.
    pub(super) async fn until_too_slow(&self, limits: &ListenerLimits) {
        let check_every = limits.head_timeout.min(limits.idle_timeout) / 4;
        while !self.is_too_slow(limits) {
            tokio::select! {
                () = tokio::time::sleep(check_every.max(Duration::from_millis(1))) => {}
                () = self.close.cancelled() => return,
            }
        }
    }
}

/// A request in flight, until the last byte of its response is sent.
pub(super) struct InFlight(Arc<Activity>);

impl InFlight {
    /// `None`: the connection is being closed, and answers nothing any more.
    pub(super) fn begin(activity: &Arc<Activity>) -> Option<InFlight> {
        let more = |count: usize| (count & CLOSED == 0).then_some(count + 1);
        activity.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        activity.heads.fetch_add(1, Ordering::Relaxed);
        // The head is complete.
        activity.head.store(0, Ordering::Relaxed);
        Some(InFlight(activity.clone()))
    }

    pub(super) fn track(self, body: Body) -> HeldBody<InFlight> {
        HeldBody::new(body, self)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.0.last.store(self.0.now(), Ordering::Relaxed);
    }
}

/// A TCP stream that records its activity.
pub(super) struct TrackedStream {
    stream: TcpStream,
    activity: Arc<Activity>,
}

impl TrackedStream {
    pub(super) fn new(stream: TcpStream, activity: Arc<Activity>) -> TrackedStream {
        TrackedStream { stream, activity }
    }

    fn record_write(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(_) => self.activity.record_written(),
            Poll::Pending => self.activity.record_blocked(),
        }
        written
    }
}

impl AsyncRead for TrackedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        if buf.filled().len() > before {
            self.activity.record_read();
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for TrackedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.record_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.record_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_closed_or_has_a_request_but_not_both() {
        let activity = Arc::new(Activity::new());
        let request = InFlight::begin(&activity).unwrap();
        assert!(!activity.try_close() && !activity.is_closed(), "it has a request");
        drop(request);
        assert!(activity.try_close() && activity.is_closed());
        assert!(InFlight::begin(&activity).is_none(), "a request that comes too late does not begin");
        assert!(!activity.try_close(), "it is closed once");
    }

    #[test]
    fn of_a_request_and_an_eviction_at_the_same_moment_one_wins() {
        for _ in 0..1_000 {
            let activity = Arc::new(Activity::new());
            let other = activity.clone();
            let evicting = std::thread::spawn(move || other.try_close());
            let request = InFlight::begin(&activity);
            assert_ne!(evicting.join().unwrap(), request.is_some());
        }
    }
}
