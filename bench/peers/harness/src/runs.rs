//! What handlers report.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, mpsc};

/// Counts handlers that began; for the latency, also when.
#[derive(Debug)]
pub struct Runs {
    begun: AtomicU64,
    times: Option<mpsc::UnboundedSender<Instant>>,
    received: Mutex<Option<mpsc::UnboundedReceiver<Instant>>>,
}

impl Runs {
    /// Only counts.
    pub fn counting() -> Arc<Runs> {
        Arc::new(Runs { begun: AtomicU64::new(0), times: None, received: Mutex::new(None) })
    }

    /// Counts, and remembers when.
    pub fn timing() -> Arc<Runs> {
        let (times, received) = mpsc::unbounded_channel();
        let received = Mutex::new(Some(received));
        Arc::new(Runs { begun: AtomicU64::new(0), times: Some(times), received })
    }

    /// The first line of each handler.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        if let Some(times) = &self.times {
            // The receiver may have ended.
            let _ = times.send(Instant::now());
        }
    }

    /// How many handlers began.
    pub fn count(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// When the next handler began; none if it did not within this time.
    pub(crate) async fn next(&self, within: Duration) -> Option<Instant> {
        let mut received = self.received.lock().await;
        tokio::time::timeout(within, received.as_mut()?.recv()).await.ok()?
    }
}
