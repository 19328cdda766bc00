//! One lock that is held or being acquired.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::session::{Session, classify, is_broken};
use crate::backend::LossSignal;
use crate::error::LockError;

#[derive(Debug)]
pub(super) struct Slot {
    key: String,
    ttl: Duration,
    /// The connection that holds the lock; none: not granted yet, or not held any more.
    session: Arc<Mutex<Option<Session>>>,
    /// The server's id of that connection; zero: not granted yet.
    id: AtomicU64,
    signal: CancellationToken,
}

impl Slot {
    pub(super) fn new(key: String, ttl: Duration) -> Slot {
        Slot { key, ttl, session: Arc::default(), id: AtomicU64::new(0), signal: CancellationToken::new() }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn session(&self) -> Arc<Mutex<Option<Session>>> {
        self.session.clone()
    }

    pub(super) fn granted(&self, session: &Session) {
        self.id.store(session.id, Ordering::SeqCst);
    }

    /// The connection that must hold the lock.
    pub(super) fn granted_to(&self) -> Option<u64> {
        Some(self.id.load(Ordering::SeqCst)).filter(|id| *id != 0)
    }

    /// The lock is lost as soon as its connection ends.
    pub(super) fn loss_signal(&self) -> LossSignal {
        LossSignal::new(self.signal.clone(), Duration::ZERO)
    }

    pub(super) fn signal_loss(&self) {
        self.signal.cancel();
    }

    /// Asks on the lock's own connection whether it still holds the lock, which also resets the server's idle timer. A connection that has ended,
    /// or does not answer, holds nothing.
    pub(super) async fn confirm(&self, session: &mut Option<Session>) -> Result<bool, LockError> {
        let Some(held) = session.as_mut() else { return Ok(false) };
        match tokio::time::timeout(self.ttl, held.holds(&self.key)).await {
            Ok(Ok(true)) => return Ok(true),
            Ok(Err(error)) if !is_broken(&error) => return Err(classify(error)),
            Ok(Err(error)) => tracing::debug!(%error, "the connection of a lock has ended"),
            Ok(Ok(false)) | Err(_) => {}
        }
        *session = None;
        self.signal_loss();
        Ok(false)
    }
}
