//! A connection whose progress is watched.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::Limits;

/// When things last happened on a connection, in milliseconds since it began; 0 is never.
pub(super) struct Pulse {
    began: Instant,
    /// The last byte, in either direction.
    last: AtomicU64,
    /// The first byte of a head that is not complete.
    head: AtomicU64,
    /// When the other end stopped taking what we write.
    stuck: AtomicU64,
    /// Requests that are being answered.
    answering: AtomicUsize,
}

impl Pulse {
    pub(super) fn new() -> Pulse {
        let zero = || AtomicU64::new(0);
        Pulse {
            began: Instant::now(),
            last: zero(),
            head: zero(),
            stuck: zero(),
            answering: AtomicUsize::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn has_read(&self) {
        let now = self.now();
        self.last.store(now, Ordering::Relaxed);
        if self.answering.load(Ordering::Relaxed) == 0 {
            // Only the first byte of a head counts.
            let _ = self.head.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn has_written(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
        self.stuck.store(0, Ordering::Relaxed);
    }

    fn cannot_write(&self) {
        let _ = self.stuck.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_over(&self, limits: &Limits) -> bool {
        let now = self.now();
        let is_past = |since: u64, limit: Duration| u128::from(now.saturating_sub(since)) > limit.as_millis();
        let [head, stuck, last] = [&self.head, &self.stuck, &self.last].map(|at| at.load(Ordering::Relaxed));
        (head > 0 && is_past(head, limits.head_within))
            || (stuck > 0 && is_past(stuck, limits.idle_within))
            || (self.answering.load(Ordering::Relaxed) == 0 && is_past(last, limits.idle_within))
    }

    /// Returns when the connection has been too slow.
    pub(super) async fn stops(&self, limits: &Limits) {
        let look_every = limits.head_within.min(limits.idle_within) / 4;
        while !self.is_over(limits) {
            tokio::time::sleep(look_every.max(Duration::from_millis(1))).await;
        }
    }
}

/// A request that is being answered, until the last byte of the answer is handed over.
pub(super) struct Answering(Arc<Pulse>);

impl Answering {
    pub(super) fn new(pulse: &Arc<Pulse>) -> Answering {
        pulse.answering.fetch_add(1, Ordering::Relaxed);
        // Its head is complete.
        pulse.head.store(0, Ordering::Relaxed);
        Answering(pulse.clone())
    }

    pub(super) fn until_the_end_of(self, body: Body) -> Answer {
        Answer { body, _answering: self }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
        self.0.last.store(self.0.now(), Ordering::Relaxed);
    }
}

/// The body of an answer.
pub(super) struct Answer {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that tells its pulse what happens.
pub(super) struct Watched {
    stream: TcpStream,
    pulse: Arc<Pulse>,
}

impl Watched {
    pub(super) fn new(stream: TcpStream, pulse: Arc<Pulse>) -> Watched {
        Watched { stream, pulse }
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(_) => self.pulse.has_written(),
            Poll::Pending => self.pulse.cannot_write(),
        }
        written
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        if buf.filled().len() > before {
            self.pulse.has_read();
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(written)
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
