//! Locks in a SQLite file, between the processes of one machine, by the machine's clock.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, named_params};

use crate::backend::{
    Backend, Extended, FenceClass, Grant, Holding, Inspection, LockFuture, LockRequest, LossSignal, Promises,
    Released,
};
use crate::error::LockError;
use crate::lease::Fence;
use crate::name::{Epoch, LockName};

const SCHEMA: &str = include_str!("../sql/sqlite/lock_schema.sql");
const ACQUIRE: &str = include_str!("../sql/sqlite/lock_acquire.sql");
const EXTEND: &str = include_str!("../sql/sqlite/lock_extend.sql");
const RELEASE: &str = include_str!("../sql/sqlite/lock_release.sql");
const READ: &str = include_str!("../sql/sqlite/lock_read.sql");
const BREAK: &str = include_str!("../sql/sqlite/lock_break.sql");
const FENCE: &str = include_str!("../sql/sqlite/lock_fence.sql");

/// How long a statement waits for other writers of the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Locks in a SQLite file. Transactions on other tables of the same file can be fenced.
#[derive(Clone, Debug)]
pub struct Sqlite(File);

impl Sqlite {
    /// Locks in this file, which is created if it does not exist.
    pub fn new(path: impl AsRef<Path>) -> Sqlite {
        Sqlite(File::new(path, connect))
    }

    fn on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> LockFuture<'static, T> {
        self.0.on(move |connection| work(connection).map_err(classify))
    }
}

/// A file with one connection, which is opened when it is needed. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct File {
    path: Arc<PathBuf>,
    connection: Arc<OnceLock<Mutex<Connection>>>,
    connect: fn(&Path) -> rusqlite::Result<Connection>,
}

impl File {
    pub(crate) fn new(path: impl AsRef<Path>, connect: fn(&Path) -> rusqlite::Result<Connection>) -> File {
        File { path: Arc::new(path.as_ref().to_owned()), connection: Arc::default(), connect }
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Runs `work` on a thread that may block.
    pub(crate) fn on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, LockError> + Send + 'static,
    ) -> LockFuture<'static, T> {
        let (path, cell, connect) = (self.path.clone(), self.connection.clone(), self.connect);
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || {
                let connection = match cell.get() {
                    Some(connection) => connection,
                    // Two that open at once make two connections; one of them is closed again.
                    None => {
                        let opened = connect(&path).map_err(classify)?;
                        cell.get_or_init(|| Mutex::new(opened))
                    }
                };
                // A panic leaves a transaction that is rolled back.
                work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
            });
            done.await.map_err(LockError::failed)?
        })
    }
}

/// Creates the file, unless it exists, for its owner alone. SQLite gives the files beside it the same mode.
fn make_private(path: &Path) {
    let mut new = std::fs::OpenOptions::new();
    new.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, 0o600);
    // An error is not reported here: SQLite reports it better.
    drop(new.open(path));
}

/// A connection to the file, with the settings that locks and registry share.
pub(crate) fn connect_plain(path: &Path) -> rusqlite::Result<Connection> {
    make_private(path);
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // With a write-ahead log, readers and writers do not block each other. A file that is in use keeps its mode.
    connection.pragma_update(None, "journal_mode", "wal").or_else(|error| {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => Ok(()),
            _ => Err(error),
        }
    })?;
    Ok(connection)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let mut connection = connect_plain(path)?;
    // A granted lock must survive a power failure, because its holder acts on it.
    connection.pragma_update(None, "synchronous", "full")?;
    // If the table exists, there is no need to wait for other writers.
    if !connection.table_exists(None, "lock_epoch")? {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(SCHEMA)?;
        transaction.commit()?;
    }
    Ok(connection)
}

/// Microseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn classify(error: rusqlite::Error) -> LockError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => LockError::unavailable(error),
        _ => LockError::failed(error),
    }
}

/// Runs a statement that changes one row. An immediate transaction never has to upgrade its lock on the file.
fn change(
    connection: &mut Connection,
    sql: &str,
    params: &[(&str, &dyn rusqlite::ToSql)],
    now: i64,
) -> rusqlite::Result<Option<i64>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut named = vec![(":now", &now as &dyn rusqlite::ToSql)];
    named.extend_from_slice(params);
    let epoch = transaction.prepare_cached(sql)?.query_row(&*named, |row| row.get(0)).optional()?;
    transaction.commit()?;
    Ok(epoch)
}

/// How many microseconds a lock has left.
fn left(connection: &Connection, name: &LockName) -> rusqlite::Result<Option<i64>> {
    let params = named_params! { ":name": name.as_str(), ":now": now() };
    connection.prepare_cached(READ)?.query_row(params, |row| row.get("left")).optional()
}

impl Backend for Sqlite {
    fn promises(&self) -> Promises {
        Promises {
            backend: "sqlite",
            fence: FenceClass::Strict { scope: Arc::from(self.0.path.to_string_lossy()) },
            crash_detected_within: None,
            frozen_holder_ends: true,
        }
    }

    fn open(&self) -> LockFuture<'_, ()> {
        self.on(|_| Ok(()))
    }

    fn acquire<'a>(&'a self, request: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        let request = request.clone();
        let taken = self.on(move |connection| {
            let (name, token, holder) = (request.name.as_str(), request.token.to_string(), request.holder.to_string());
            // Read first: a request for a busy lock must not block writers.
            if left(connection, &request.name)?.is_some_and(|left| left > 0) {
                return Ok(None);
            }
            let params = named_params! { ":name": name, ":token": token, ":holder": holder, ":kind": request.kind.as_deref(), ":ttl": micros(request.ttl) };
            change(connection, ACQUIRE, params, now())
        });
        Box::pin(async {
            Ok(taken.await?.map(|epoch| Grant { epoch: Epoch::new(epoch), loss_signal: LossSignal::never() }))
        })
    }

    fn extend<'a>(&'a self, request: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        let request = request.clone();
        let kept = self.on(move |connection| {
            let params = named_params! { ":name": request.name.as_str(), ":token": request.token.to_string(), ":ttl": micros(request.ttl) };
            change(connection, EXTEND, params, now())
        });
        Box::pin(async { Ok(kept.await?.map_or(Extended::No, |_| Extended::Yes(LossSignal::never()))) })
    }

    fn release<'a>(&'a self, request: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        let request = request.clone();
        let released = self.on(move |connection| {
            let params =
                named_params! { ":name": request.name.as_str(), ":token": request.token.to_string() };
            change(connection, RELEASE, params, now())
        });
        Box::pin(async { Ok(released.await?.map_or(Released::NotHeld, |_| Released::Clean)) })
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        let name = name.clone();
        self.on(move |connection| {
            let mut statement = connection.prepare_cached(READ)?;
            let holding = |row: &rusqlite::Row<'_>| {
                let left: i64 = row.get("left")?;
                Ok(Holding {
                    epoch: Epoch::new(row.get("epoch")?),
                    holder: row.get("holder")?,
                    kind: row.get("kind")?,
                    ends_in: u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_micros),
                })
            };
            statement.query_row(named_params! { ":name": name.as_str(), ":now": now() }, holding).optional()
        })
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        let (name, epoch) = (name.clone(), seen.holding.epoch.get());
        let ended = self.on(move |connection| {
            let params = named_params! { ":name": name.as_str(), ":epoch": epoch };
            change(connection, BREAK, params, now())
        });
        Box::pin(async { Ok(ended.await?.is_some()) })
    }
}

/// Fences a transaction on the file that has the lock: until the transaction ends, no other process can acquire the lock. `false`: the
/// epoch is not current, and the transaction must be rolled back. Call it before reading what the transaction acts on.
pub fn fence(transaction: &rusqlite::Transaction<'_>, fence: &Fence) -> Result<bool, LockError> {
    let params = named_params! { ":name": fence.name.as_str(), ":epoch": fence.epoch.get() };
    let mut statement = transaction.prepare_cached(FENCE).map_err(classify)?;
    Ok(statement.query_row(params, |_| Ok(())).optional().map_err(classify)?.is_some())
}
