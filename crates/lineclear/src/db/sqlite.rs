//! SQLite: one thread that writes, one that reads, and writers that share a commit.
//!
//! SQLite has one writer at a time whatever we do. A thread that owns the connection, takes all verbs that wait and
//! commits them together is several times faster than a lock around it.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{mpsc, oneshot};

use crate::db::classify;
use crate::db::clock::Clock;
use crate::db::statements;
use crate::db::statements::Statement;
use crate::db::value::{Cell, Params, Row, Value};
use crate::db::{Session, Verb};
use crate::store::{StoreError, StoreOptions, StoreResult};

/// Verbs that wait for the thread; a caller beyond that waits for a place.
const WAITING_MAX: usize = 1024;
/// Verbs that share one commit.
const SHARED_MAX: usize = 64;
/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Tables that live in memory for the length of a statement file; see `sql/sqlite`.
const SCRATCH: &str = "
    create temp table incoming (turn, id integer primary key, manifest_id, tick_at, origin, fresh, kind, route, input,
                                group_id, priority, due_at, limit_key, unique_key, retries, timeout_ms, trace, tags);
    create temp table gate     (closed, gated_rank);
    create temp table picked   (id integer primary key, marked);
    create temp table next     (id integer primary key, rank, group_id, limit_key);
    create temp table word     (word text primary key);
    create temp table over     (id integer primary key, unique_key, limit_key, leased_by, over);
    create temp table settling (id integer primary key, claim_no, verdict, outcome, output, error_type, error_message,
                                fingerprint, after_ms, reason, node, manifest_id, limit_key, unique_key);";

/// What a connection is for.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Write,
    Read,
    /// As read, and the file is left as it is.
    PendingWork,
}

#[derive(Clone)]
pub(crate) struct Sqlite {
    writer: mpsc::Sender<Box<dyn Work>>,
    reader: mpsc::Sender<Box<dyn Work>>,
}

impl Sqlite {
    /// Opens or creates the file; `None` is a database in memory, gone with the last handle.
    /// Its time is the host's, unless there is a clock for it.
    pub(crate) async fn open(path: Option<PathBuf>, options: &StoreOptions) -> StoreResult<Sqlite> {
        let (clock, look) = (options.clock(), options.only_looks());
        let mode = if look { Mode::PendingWork } else { Mode::Write };
        let writer = start("lineclear-write", path.clone(), mode, clock.clone()).await?;
        let reader = match path {
            Some(_) => {
                start("lineclear-read", path, if look { Mode::PendingWork } else { Mode::Read }, clock)
                    .await?
            }
            // A database in memory belongs to its connection.
            None => writer.clone(),
        };
        Ok(Sqlite { writer, reader })
    }

    pub(crate) async fn write<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        ask(&self.writer, verb).await
    }

    pub(crate) async fn read<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        ask(&self.reader, verb).await
    }
}

async fn ask<V: Verb>(thread: &mpsc::Sender<Box<dyn Work>>, verb: V) -> StoreResult<V::Answer> {
    let gone =
        || StoreError::Unavailable { maybe_applied: false, source: "the store's thread has ended".into() };
    let (reply, answer) = oneshot::channel();
    thread.send(Box::new(Asked { verb, answer: None, reply })).await.map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

/// A verb on its way through the thread.
trait Work: Send {
    /// Runs it. False: it failed, and what it wrote must go.
    fn run(&mut self, session: &mut Session) -> bool;
    /// Tells the caller, after the commit that it shared.
    fn finish(self: Box<Self>, commit: StoreResult<()>);
}

struct Asked<V: Verb> {
    verb: V,
    answer: Option<StoreResult<V::Answer>>,
    reply: oneshot::Sender<StoreResult<V::Answer>>,
}

impl<V: Verb> Work for Asked<V> {
    fn run(&mut self, session: &mut Session) -> bool {
        // The caller hears of it; the thread and its connection live on.
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
        // A caller that went away does not want to know.
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
) -> StoreResult<mpsc::Sender<Box<dyn Work>>> {
    let (work, works) = mpsc::channel(WAITING_MAX);
    let (opened, open) = oneshot::channel();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        match SqliteSession::open(path.as_deref(), mode, clock) {
            Ok(session) => {
                let _ = opened.send(Ok(()));
                serve(session, works, mode);
            }
            Err(error) => drop(opened.send(Err(error))),
        }
    });
    let failed = |source| StoreError::Unavailable { maybe_applied: false, source };
    thread.map_err(|e| failed(Box::new(e)))?;
    open.await.map_err(|e| failed(Box::new(e)))??;
    Ok(work)
}

fn serve(session: SqliteSession, mut works: mpsc::Receiver<Box<dyn Work>>, mode: Mode) {
    let mut session = Session::Sqlite(session);
    let begin = if mode == Mode::Write { "begin immediate" } else { "begin" };
    while let Some(first) = works.blocking_recv() {
        let mut shared = vec![first];
        while shared.len() < SHARED_MAX
            && let Ok(next) = works.try_recv()
        {
            shared.push(next);
        }
        let commit = commit_together(&mut session, begin, &mut shared);
        for work in shared {
            work.finish(commit.as_ref().map_err(StoreError::again).copied());
        }
    }
}

/// Runs all in one transaction; one that fails takes back only what it wrote itself.
fn commit_together(session: &mut Session, begin: &str, shared: &mut [Box<dyn Work>]) -> StoreResult<()> {
    let batch = |session: &mut Session, sql: &str| match session {
        Session::Sqlite(session) => session.batch(sql),
        Session::Postgres(_) => unreachable!("this thread made a SQLite session"),
    };
    batch(session, begin)?;
    // Under the lock: whoever waited for another process's writer writes after it, and at a later moment.
    let Session::Sqlite(sqlite) = session else { unreachable!("this thread made a SQLite session") };
    sqlite.tick();
    for work in shared.iter_mut() {
        let ran = batch(session, "savepoint verb").map(|()| work.run(session));
        let end = if matches!(ran, Ok(true)) { "release verb" } else { "rollback to verb; release verb" };
        if let Err(error) = ran.and_then(|_| batch(session, end)) {
            // Disk full and the like end the whole transaction.
            let _ = batch(session, "rollback");
            return Err(error);
        }
    }
    batch(session, "commit").inspect_err(|_| drop(batch(session, "rollback")))
}

pub(crate) struct SqliteSession {
    connection: Connection,
    texts: Vec<Vec<String>>,
    now: Arc<AtomicI64>,
    clock: Option<Clock>,
}

impl SqliteSession {
    fn open(path: Option<&std::path::Path>, mode: Mode, clock: Option<Clock>) -> StoreResult<SqliteSession> {
        let now = Arc::new(AtomicI64::new(0));
        let texts = statements::for_sqlite();
        let connection = patiently(|| connect(path, mode, now.clone())).map_err(classify::sqlite)?;
        connection.set_prepared_statement_cache_capacity(texts.iter().map(Vec::len).sum());
        Ok(SqliteSession { connection, texts, now, clock })
    }

    /// Sets the transaction's time: one moment for all its statements, and never an earlier one than before.
    fn tick(&self) {
        let host = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let now =
            self.clock.as_ref().map_or_else(|| i64::try_from(host()).unwrap_or(i64::MAX), Clock::micros);
        self.now.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn rows(&mut self, statement: Statement, params: &Params) -> StoreResult<Vec<Row>> {
        rows_on(&self.connection, &self.texts[statement as usize], params)
    }

    pub(crate) fn query(&mut self, text: &str, params: &Params) -> StoreResult<Vec<Row>> {
        Ok(step(&self.connection, text, &bound(params))?.unwrap_or_default())
    }

    /// How SQLite would run a statement file, all its parts.
    #[cfg(test)]
    pub(crate) fn explain(&mut self, statement: Statement) -> StoreResult<String> {
        let mut plan = Vec::new();
        for text in &self.texts[statement as usize] {
            let mut statement =
                self.connection.prepare(&format!("explain query plan {text}")).map_err(classify::sqlite)?;
            // Parameters are left unbound: their values do not change SQLite's choice.
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(classify::sqlite)? {
                plan.push(row.get::<_, String>("detail").map_err(classify::sqlite)?);
            }
        }
        Ok(plan.join("\n"))
    }

    pub(crate) fn batch(&mut self, sql: &str) -> StoreResult<()> {
        self.connection.execute_batch(sql).map_err(classify::sqlite)
    }
}

/// Tries again while another process opens or closes the file: for that, SQLite does not wait by itself.
fn patiently(connect: impl Fn() -> rusqlite::Result<Connection>) -> rusqlite::Result<Connection> {
    let begun = std::time::Instant::now();
    loop {
        match connect() {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && begun.elapsed() < BUSY_TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// A file that is not there yet is made for its owner alone, and what SQLite puts beside it, too.
fn make_private(path: &std::path::Path) {
    let mut new = std::fs::OpenOptions::new();
    new.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, 0o600);
    // It may be there, or a link, or in a folder that is not: SQLite says it better.
    drop(new.open(path));
}

fn connect(path: Option<&std::path::Path>, mode: Mode, now: Arc<AtomicI64>) -> rusqlite::Result<Connection> {
    let connection = match path {
        Some(path) if mode == Mode::PendingWork => connect_as_it_is(path)?,
        Some(path) => {
            make_private(path);
            Connection::open(path)?
        }
        None => Connection::open_in_memory()?,
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // WAL: readers do not wait for the writer. NORMAL in WAL survives a crash of the process, and a power cut may lose
    // the last commits but never tears the file; FULL keeps them too: what was accepted is never lost.
    if mode != Mode::PendingWork {
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    }
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.execute_batch(SCRATCH)?;
    connection.pragma_update(None, "query_only", mode != Mode::Write)?;
    // What now() is to PostgreSQL: the time of the transaction. Not marked deterministic: SQLite would call it while it
    // plans, with a null list of arguments, which rusqlite 0.39 makes an invalid slice of.
    connection.create_scalar_function("now_us", 0, FunctionFlags::SQLITE_UTF8, move |_| {
        Ok(now.load(Ordering::Relaxed))
    })?;
    Ok(connection)
}

/// A file that is not there is not made. What others have written ahead and left lying stays so: whoever closes the file last would
/// bring it in, and nobody may be there to see that it was the doctor who did.
fn connect_as_it_is(path: &std::path::Path) -> rusqlite::Result<Connection> {
    let mut ahead = path.as_os_str().to_owned();
    ahead.push("-wal");
    let left = std::fs::metadata(ahead).is_ok_and(|found| found.len() > 0);
    let without_making_it = OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE;
    let connection = Connection::open_with_flags(path, without_making_it)?;
    if left {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    }
    Ok(connection)
}

/// Runs a statement file, all its parts, and returns the rows of the last part that has some to give.
pub(crate) fn rows_on(connection: &Connection, texts: &[String], params: &Params) -> StoreResult<Vec<Row>> {
    let values = bound(params);
    let mut answer = Vec::new();
    for text in texts {
        if let Some(rows) = step(connection, text, &values)? {
            answer = rows;
        }
    }
    Ok(answer)
}

/// Runs one statement. None: it is of a kind that has no rows.
fn step(connection: &Connection, text: &str, values: &[SqlValue]) -> StoreResult<Option<Vec<Row>>> {
    let run = || {
        let mut statement = connection.prepare_cached(text)?;
        for at in 1..=statement.parameter_count() {
            statement.raw_bind_parameter(at, &values[at - 1])?;
        }
        let names: Arc<[String]> = statement.column_names().into_iter().map(str::to_owned).collect();
        let mut answer = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let cells =
                (0..names.len()).map(|at| Ok(cell(row.get_ref(at)?))).collect::<rusqlite::Result<_>>()?;
            answer.push(Row { names: names.clone(), cells });
        }
        Ok((!names.is_empty()).then_some(answer))
    };
    run().map_err(classify::sqlite)
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(v) => Cell::Int(v),
        ValueRef::Text(v) => Cell::Text(String::from_utf8_lossy(v).into_owned()),
        // STRICT tables hold neither; shown as text so that decoding fails with what was found.
        ValueRef::Real(v) => Cell::Text(v.to_string()),
        ValueRef::Blob(_) => Cell::Text("a blob".to_owned()),
    }
}

/// Values as SQLite takes them: lists and batches as JSON.
fn bound(params: &Params) -> Vec<SqlValue> {
    let int = |v: Option<i64>| v.map_or(SqlValue::Null, SqlValue::Integer);
    let text = |v: Option<String>| v.map_or(SqlValue::Null, SqlValue::Text);
    let mut values: Vec<SqlValue> = Vec::with_capacity(params.values.len() + 1);
    for value in &params.values {
        values.push(match value {
            Value::Int(v) => int(*v),
            Value::Bool(v) => int(Some(i64::from(*v))),
            Value::Text(v) => text(v.clone()),
            Value::Time(v) => int(v.map(lineclear_model::Micros::get)),
            Value::Ints(v) => text(Some(serde_json::json!(v).to_string())),
            Value::Texts(v) => text(Some(serde_json::json!(v).to_string())),
            Value::MaybeTexts(v) => text(v.as_ref().map(|v| serde_json::json!(v).to_string())),
        });
    }
    if let Some(first) = params.batch.first() {
        let row = |at| serde_json::Value::Array(params.batch.iter().map(|column| column.json(at)).collect());
        let rows: Vec<serde_json::Value> = (0..first.len()).map(row).collect();
        values.push(SqlValue::Text(serde_json::Value::Array(rows).to_string()));
    }
    values
}
