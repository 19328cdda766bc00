//! The place of one lock that is held or asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::session::{Session, classify, is_broken};
use crate::backend::LossSignal;
use crate::error::LockError;
use crate::renewal::no_answer;

#[derive(Debug)]
pub(super) struct Slot {
    key: String,
    ttl: Duration,
    /// The connection that holds the lock; none: it was not granted yet, or is not held any more.
    session: Arc<Mutex<Option<Session>>>,
    /// The server's number of that connection; zero: not granted yet.
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

    /// A connection that has ended does not come back: the lock is lost at once.
    pub(super) fn loss_signal(&self) -> LossSignal {
        LossSignal::new(self.signal.clone(), Duration::ZERO)
    }

    pub(super) fn signal_loss(&self) {
        self.signal.cancel();
    }

    /// Asks on the lock's own connection whether it still holds it, which also tells the server that we live. A connection
    /// that has ended, or does not answer, holds nothing.
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

/// Nobody waits for an answer for longer than it can be of use.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(no_answer(limit)))
}
