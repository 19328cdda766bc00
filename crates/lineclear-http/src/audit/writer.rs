//! Rows that many requests write at once share a statement: whoever comes while one is under way goes with the next.

use std::sync::Arc;

use lineclear::store::{AuditEnd, AuditId, NewAudit, StoreResult};
use lineclear::{Store, StoreError};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;

/// Rows that one statement takes.
const SHARED_MAX: usize = 500;
/// Rows that wait for a statement; who comes beyond that waits for a place.
const WAITING_MAX: usize = 4_096;
/// Statements that begin rows at once: while one is committed, the next is made.
const WRITERS: usize = 2;
/// The status of what nobody waited for: its client went away.
const CLIENT_GONE: u16 = 499;

type Begin = (NewAudit, oneshot::Sender<StoreResult<AuditId>>);
type End = (AuditEnd, Option<oneshot::Sender<()>>);

/// Where rows are written. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Ledger {
    begin: mpsc::Sender<Begin>,
    end: mpsc::Sender<End>,
}

/// Those who write. They end when nobody has anything for them any more.
#[derive(Debug)]
pub(crate) struct Writers(JoinSet<()>);

impl Writers {
    /// Waits until all is written.
    pub(crate) async fn finish(mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

impl Ledger {
    pub(crate) fn new(store: Store) -> (Ledger, Writers) {
        let (begin, beginning) = mpsc::channel(WAITING_MAX);
        let (end, ending) = mpsc::channel(WAITING_MAX);
        let beginning = Arc::new(Mutex::new(beginning));
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            writers.spawn(write_beginnings(store.clone(), beginning.clone()));
        }
        writers.spawn(write_ends(store, ending));
        (Ledger { begin, end }, Writers(writers))
    }

    /// Writes a row; it is there when this returns.
    pub(crate) async fn begin(&self, entry: NewAudit) -> StoreResult<Begun> {
        let lost =
            || StoreError::Unavailable { maybe_applied: false, source: "nobody writes the audit".into() };
        let (reply, answer) = oneshot::channel();
        self.begin.send((entry, reply)).await.map_err(|_| lost())?;
        let id = answer.await.map_err(|_| lost())??;
        Ok(Begun { id, ledger: self.clone(), is_over: false })
    }
}

/// A row without its outcome.
pub(crate) struct Begun {
    id: AuditId,
    ledger: Ledger,
    is_over: bool,
}

impl Begun {
    /// Writes the outcome, and waits until it is there.
    pub(crate) async fn end(mut self, status: u16, details: Option<String>) {
        self.is_over = true;
        let (reply, answer) = oneshot::channel();
        let end = AuditEnd { id: self.id, status, details };
        if self.ledger.end.send((end, Some(reply))).await.is_ok() {
            // If it could not be written, the log says so.
            let _ = answer.await;
        }
    }

    /// The same, and waits for nobody.
    pub(crate) fn end_later(mut self, status: u16, details: Option<String>) {
        self.leave(status, details);
    }

    fn leave(&mut self, status: u16, details: Option<String>) {
        self.is_over = true;
        let end = AuditEnd { id: self.id, status, details };
        if self.ledger.end.try_send((end, None)).is_err() {
            tracing::warn!(audit.id = %self.id, status, "an audit row stays without its outcome");
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_over {
            self.leave(CLIENT_GONE, None);
        }
    }
}

async fn write_beginnings(store: Store, waiting: Arc<Mutex<mpsc::Receiver<Begin>>>) {
    loop {
        let mut batch = Vec::new();
        if waiting.lock().await.recv_many(&mut batch, SHARED_MAX).await == 0 {
            return;
        }
        let (entries, replies): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        match store.audit_begin(entries).await {
            Ok(ids) => {
                for (id, reply) in ids.into_iter().zip(replies) {
                    let _ = reply.send(Ok(id));
                }
            }
            Err(error) => {
                for reply in replies {
                    let why =
                        StoreError::Unavailable { maybe_applied: false, source: error.to_string().into() };
                    let _ = reply.send(Err(why));
                }
            }
        }
    }
}

async fn write_ends(store: Store, mut waiting: mpsc::Receiver<End>) {
    loop {
        let mut batch = Vec::new();
        if waiting.recv_many(&mut batch, SHARED_MAX).await == 0 {
            return;
        }
        let (ends, replies): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let count = ends.len();
        if let Err(error) = store.audit_end(ends).await {
            tracing::warn!(%error, count, "audit rows stay without their outcome");
        }
        for reply in replies.into_iter().flatten() {
            let _ = reply.send(());
        }
    }
}
