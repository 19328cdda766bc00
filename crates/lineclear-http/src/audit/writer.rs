//! Writes audit rows. Rows of concurrent requests share a statement: those that arrive while one runs go into the next.

mod whole;

use std::sync::Arc;
use std::time::Duration;

use lineclear::log_fold::LogFold;
use lineclear::store::{AuditEnd, AuditId, NewAudit, StoreResult};
use lineclear::{Store, StoreError};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;

/// Rows that one statement takes.
const SHARED_MAX: usize = 500;
/// Rows that wait for a statement; further requests wait for room.
const WAITING_MAX: usize = 4_096;
/// Concurrent statements that begin rows: while one commits, the next is built.
const WRITERS: usize = 2;
/// Rows and outcomes that cannot be written are logged so often.
const LOG_EVERY: Duration = Duration::from_secs(60);
/// How long a request waits for room among the rows that wait. Its row is then lost.
const ROOM_WITHIN: Duration = Duration::from_millis(250);
/// Rows of enqueued jobs that were not written.
const LOST: &str = "lineclear_audit_rows_lost_total";
/// The status of a request whose client disconnected.
const CLIENT_GONE: u16 = 499;

type Begin = (NewAudit, oneshot::Sender<StoreResult<AuditId>>);
type End = (AuditEnd, Option<oneshot::Sender<()>>);
/// A row, and its status and details.
type Whole = (NewAudit, (u16, Option<String>));

/// Writes audit rows. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AuditWriter {
    begin: mpsc::Sender<Begin>,
    end: mpsc::Sender<End>,
    whole: mpsc::Sender<Whole>,
    lost: Arc<LogFold<()>>,
}

/// The tasks of the writers. They end when all writers are dropped and all rows are written.
#[derive(Debug)]
pub(crate) struct AuditTasks(JoinSet<()>);

impl AuditTasks {
    /// Waits until all rows are written.
    pub(crate) async fn finish(mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

impl AuditWriter {
    pub(crate) fn new(store: Store) -> (AuditWriter, AuditTasks) {
        let (begin, beginning) = mpsc::channel(WAITING_MAX);
        let (end, ending) = mpsc::channel(WAITING_MAX);
        let (whole, recording) = mpsc::channel(WAITING_MAX);
        metrics::describe_counter!(LOST, "audit rows of enqueued jobs that were not written");
        let beginning = Arc::new(Mutex::new(beginning));
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            writers.spawn(write_beginnings(store.clone(), beginning.clone()));
        }
        writers.spawn(write_ends(store.clone(), ending));
        writers.spawn(whole::write_all(store, recording));
        let lost = Arc::new(LogFold::new(LOG_EVERY));
        (AuditWriter { begin, end, whole, lost }, AuditTasks(writers))
    }

    /// A row that is written with its outcome, in the background.
    pub(crate) fn record(&self, entry: NewAudit) -> Record {
        Record { entry: Some(entry), writer: self.clone() }
    }

    /// Counts a row that is not written, and logs it unless others were logged lately.
    fn lose(&self, entry: &NewAudit, status: u16, why: &str) {
        metrics::counter!(LOST).increment(1);
        if let Some(left_out) = self.lost.note(&()) {
            let NewAudit { who, request_id, .. } = entry;
            tracing::warn!(
                who,
                request.id = request_id,
                status,
                left_out,
                "an audit row was not written: {why}"
            );
        }
    }

    /// Writes a row without its outcome, and returns when it is committed.
    pub(crate) async fn begin(&self, entry: NewAudit) -> StoreResult<OpenEntry> {
        let lost = || StoreError::Unavailable {
            maybe_applied: false,
            source: "the audit writer has stopped".into(),
        };
        let (reply, answer) = oneshot::channel();
        self.begin.send((entry, reply)).await.map_err(|_| lost())?;
        let id = answer.await.map_err(|_| lost())??;
        Ok(OpenEntry { id, writer: self.clone(), is_finished: false })
    }
}

/// An audit row without its outcome.
pub(crate) struct OpenEntry {
    id: AuditId,
    writer: AuditWriter,
    is_finished: bool,
}

impl OpenEntry {
    /// Writes the outcome, and waits until it is committed.
    pub(crate) async fn finish(mut self, status: u16, details: Option<String>) {
        self.is_finished = true;
        let (reply, answer) = oneshot::channel();
        let end = AuditEnd { id: self.id, status, details };
        if self.writer.end.send((end, Some(reply))).await.is_ok() {
            // A failure is in the log.
            let _ = answer.await;
        }
    }

    /// Writes the outcome in the background.
    pub(crate) fn finish_in_background(mut self, status: u16, details: Option<String>) {
        self.send_outcome(status, details);
    }

    fn send_outcome(&mut self, status: u16, details: Option<String>) {
        self.is_finished = true;
        let end = AuditEnd { id: self.id, status, details };
        if self.writer.end.try_send((end, None)).is_err() {
            tracing::warn!(audit.id = %self.id, status, "the outcome of an audit row was not written");
        }
    }
}

impl Drop for OpenEntry {
    fn drop(&mut self) {
        if !self.is_finished {
            self.send_outcome(CLIENT_GONE, None);
        }
    }
}

/// An audit row that is not written yet.
pub(crate) struct Record {
    entry: Option<NewAudit>,
    writer: AuditWriter,
}

impl Record {
    /// Hands the row to the writer, and waits for a moment if too many wait already.
    pub(crate) async fn finish(mut self, status: u16, details: Option<String>) {
        let Some(entry) = self.entry.take() else { return };
        match tokio::time::timeout(ROOM_WITHIN, self.writer.whole.reserve()).await {
            Ok(Ok(room)) => room.send((entry, (status, details))),
            Ok(Err(_)) => self.writer.lose(&entry, status, "its writer has stopped"),
            Err(_) => self.writer.lose(&entry, status, "too many wait for the database"),
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        match self.writer.whole.try_reserve() {
            Ok(room) => room.send((entry, (CLIENT_GONE, None))),
            Err(_) => self.writer.lose(&entry, CLIENT_GONE, "too many wait for the database"),
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
                    let _ = reply.send(Err(error.again()));
                }
            }
        }
    }
}

async fn write_ends(store: Store, mut waiting: mpsc::Receiver<End>) {
    let log = LogFold::new(LOG_EVERY);
    loop {
        let mut batch = Vec::new();
        if waiting.recv_many(&mut batch, SHARED_MAX).await == 0 {
            return;
        }
        let (ends, replies): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let count = ends.len();
        if let Err(error) = store.audit_end(ends).await
            && let Some(left_out) = log.note(&"ends")
        {
            tracing::warn!(%error, count, left_out, "the outcomes of audit rows were not written");
        }
        for reply in replies.into_iter().flatten() {
            let _ = reply.send(());
        }
    }
}
