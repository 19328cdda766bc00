//! SQLite: one thread that writes, one that reads, and writers that share a commit.
//!
//! SQLite has one writer at a time. A thread that owns the connection and commits all waiting verbs together is several times
//! faster than a lock around it.

mod session;
mod writer_activity;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::db::clock::Clock;
use crate::db::sqlite::session::Mode;
pub(crate) use crate::db::sqlite::session::{SqliteSession, rows_on};
use crate::db::sqlite::writer_activity::WriterActivity;
use crate::db::{Session, Verb};
use crate::store::{StoreError, StoreOptions, StoreResult};

/// Verbs that wait for a thread at most; further callers wait to send.
const WAITING_MAX: usize = 1024;
/// Verbs that share one commit at most.
const SHARED_MAX: usize = 64;

#[derive(Clone)]
pub(crate) struct Sqlite {
    writer: mpsc::Sender<Box<dyn Work>>,
    reader: mpsc::Sender<Box<dyn Work>>,
    activity: Arc<WriterActivity>,
}

impl Sqlite {
    /// Opens or creates the file; `None` is a database in memory, which ends with its last handle. Its clock is the host's, unless
    /// the options have one.
    pub(crate) async fn open(path: Option<PathBuf>, options: &StoreOptions) -> StoreResult<Sqlite> {
        let clock = options.clock();
        let (write, read) = match options.is_read_only() {
            true => (Mode::ReadOnly, Mode::ReadOnly),
            false => (Mode::Write, Mode::Read),
        };
        let activity = Arc::new(WriterActivity::default());
        let writer = start("lineclear-write", path.clone(), write, clock.clone(), activity.clone()).await?;
        let reader = match path {
            Some(_) => start("lineclear-read", path, read, clock, Arc::default()).await?,
            // A database in memory belongs to its connection.
            None => writer.clone(),
        };
        Ok(Sqlite { writer, reader, activity })
    }

    /// How long the writer has waited for the file's write lock, which another connection holds.
    pub(crate) fn blocked_for(&self) -> Option<Duration> {
        self.activity.blocked_for()
    }

    /// How long the writer has worked on one verb, or on a commit.
    pub(crate) fn writing_for(&self) -> Option<Duration> {
        self.activity.writing_for()
    }

    pub(crate) async fn write<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        send(&self.writer, verb).await
    }

    pub(crate) async fn read<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        send(&self.reader, verb).await
    }
}

async fn send<V: Verb>(thread: &mpsc::Sender<Box<dyn Work>>, verb: V) -> StoreResult<V::Answer> {
    let gone =
        || StoreError::Unavailable { maybe_applied: false, source: "the store's thread has ended".into() };
    let (reply, answer) = oneshot::channel();
    thread.send(Box::new(Request { verb, answer: None, reply })).await.map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

/// A verb that a thread runs.
trait Work: Send {
    /// Runs it. False: it failed, and its writes are rolled back.
    fn run(&mut self, session: &mut Session) -> bool;
    /// Answers the caller, after the shared commit.
    fn finish(self: Box<Self>, commit: StoreResult<()>);
}

struct Request<V: Verb> {
    verb: V,
    answer: Option<StoreResult<V::Answer>>,
    reply: oneshot::Sender<StoreResult<V::Answer>>,
}

impl<V: Verb> Work for Request<V> {
    fn run(&mut self, session: &mut Session) -> bool {
        // A panic becomes an error; the thread and its connection survive.
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| at_once(self.verb.run(session))));
        let answer = ran.unwrap_or_else(|_| Err(StoreError::Corrupt { what: "a verb panicked".to_owned() }));
        let done = answer.is_ok();
        self.answer = Some(answer);
        done
    }

    fn finish(self: Box<Self>, commit: StoreResult<()>) {
        let answer = match (self.answer, commit) {
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(answer)), Ok(())) => Ok(answer),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => return,
        };
        // A caller that was cancelled has dropped its receiver.
        let _ = self.reply.send(answer);
    }
}

/// The answer of a future that never waits: every call to SQLite returns with its result.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a verb awaits nothing but its session"),
    }
}

/// Starts a thread with a connection of its own, and waits until the database is open.
async fn start(
    name: &str,
    path: Option<PathBuf>,
    mode: Mode,
    clock: Option<Clock>,
    activity: Arc<WriterActivity>,
) -> StoreResult<mpsc::Sender<Box<dyn Work>>> {
    let (work, works) = mpsc::channel(WAITING_MAX);
    let (opened, open) = oneshot::channel();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        match SqliteSession::open(path.as_deref(), mode, clock) {
            Ok(session) => {
                let _ = opened.send(Ok(()));
                serve(session, works, mode, &activity);
            }
            Err(error) => drop(opened.send(Err(error))),
        }
    });
    let failed = |source| StoreError::Unavailable { maybe_applied: false, source };
    thread.map_err(|e| failed(Box::new(e)))?;
    open.await.map_err(|e| failed(Box::new(e)))??;
    Ok(work)
}

fn serve(
    session: SqliteSession,
    mut works: mpsc::Receiver<Box<dyn Work>>,
    mode: Mode,
    activity: &WriterActivity,
) {
    let mut session = Session::Sqlite(session);
    let begin = if mode == Mode::Write { "begin immediate" } else { "begin" };
    while let Some(first) = works.blocking_recv() {
        let mut shared = vec![first];
        while shared.len() < SHARED_MAX
            && let Ok(next) = works.try_recv()
        {
            shared.push(next);
        }
        let commit = commit_together(&mut session, begin, &mut shared, activity);
        activity.ended();
        for work in shared {
            work.finish(commit.as_ref().map_err(StoreError::again).copied());
        }
    }
}

/// Runs all verbs in one transaction; one that fails rolls back only its own writes.
fn commit_together(
    session: &mut Session,
    begin: &str,
    shared: &mut [Box<dyn Work>],
    activity: &WriterActivity,
) -> StoreResult<()> {
    let batch = |session: &mut Session, sql: &str| match session {
        Session::Sqlite(session) => session.batch(sql),
        Session::Postgres(_) => unreachable!("this thread made a SQLite session"),
    };
    activity.begins();
    batch(session, begin)?;
    // Under the lock: a transaction that waited for another process gets a later time.
    let Session::Sqlite(sqlite) = session else { unreachable!("this thread made a SQLite session") };
    sqlite.tick();
    for work in shared.iter_mut() {
        activity.turns_to_next();
        let ran = batch(session, "savepoint verb").map(|()| work.run(session));
        let end = if matches!(ran, Ok(true)) { "release verb" } else { "rollback to verb; release verb" };
        if let Err(error) = ran.and_then(|_| batch(session, end)) {
            // Disk full and the like end the whole transaction.
            let _ = batch(session, "rollback");
            return Err(error);
        }
    }
    activity.turns_to_next();
    batch(session, "commit").inspect_err(|_| drop(batch(session, "rollback")))
}
