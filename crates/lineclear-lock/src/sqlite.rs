//! Locks in a SQLite file: safe between the processes of one machine, by the machine's clock.

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
const TAKE: &str = include_str!("../sql/sqlite/lock_acquire.sql");
const EXTEND: &str = include_str!("../sql/sqlite/lock_extend.sql");
const RELEASE: &str = include_str!("../sql/sqlite/lock_release.sql");
const LOOK: &str = include_str!("../sql/sqlite/lock_read.sql");
const END: &str = include_str!("../sql/sqlite/lock_break.sql");
const FENCE: &str = include_str!("../sql/sqlite/lock_fence.sql");

/// How long a statement waits for other writers of the file.
const BUSY: Duration = Duration::from_secs(5);

/// Locks in a SQLite file. The file may be one that holds other things too: only then can transactions on these be fenced.
#[derive(Clone, Debug)]
pub struct Sqlite {
    path: Arc<PathBuf>,
    connection: Arc<OnceLock<Mutex<Connection>>>,
}

impl Sqlite {
    /// Locks in this file; it is made if it is not there.
    pub fn new(path: impl AsRef<Path>) -> Sqlite {
        Sqlite { path: Arc::new(path.as_ref().to_owned()), connection: Arc::default() }
    }

    /// Runs on a thread that may block.
    fn on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> LockFuture<'static, T> {
        let (path, cell) = (self.path.clone(), self.connection.clone());
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || {
                let connection = match cell.get() {
                    Some(connection) => connection,
                    // Two that open at once make two connections, and one of these is closed again.
                    None => {
                        let opened = connect(&path)?;
                        cell.get_or_init(|| Mutex::new(opened))
                    }
                };
                // A panic inside leaves a transaction that is rolled back.
                work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
            });
            done.await.map_err(LockError::failed)?.map_err(classify)
        })
    }
}

/// A file that is not there yet is made for its owner alone, and what SQLite puts beside it, too.
fn make_private(path: &Path) {
    let mut new = std::fs::OpenOptions::new();
    new.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, 0o600);
    // It may be there, or a link, or in a folder that is not: SQLite says it better.
    drop(new.open(path));
}

/// A connection to the file, with what all of ours need.
pub(crate) fn connect_plain(path: &Path) -> rusqlite::Result<Connection> {
    make_private(path);
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // Readers of the file are not in our way, nor we in theirs. One that is in use by others keeps the mode they chose.
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
    // A lock that was granted must survive the machine's sudden end, because others act on it.
    connection.pragma_update(None, "synchronous", "full")?;
    // Whoever finds the table there need not wait for other writers.
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

/// Runs a statement that changes one row, in a transaction that never has to be upgraded.
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

/// How many microseconds are left to a lock.
fn left(connection: &Connection, name: &LockName) -> rusqlite::Result<Option<i64>> {
    let params = named_params! { ":name": name.as_str(), ":now": now() };
    connection.prepare_cached(LOOK)?.query_row(params, |row| row.get("left")).optional()
}

impl Backend for Sqlite {
    fn promises(&self) -> Promises {
        Promises {
            backend: "sqlite",
            fence: FenceClass::Strict { scope: Arc::from(self.path.to_string_lossy()) },
            crash_detected_within: None,
            frozen_holder_ends: true,
        }
    }

    fn open(&self) -> LockFuture<'_, ()> {
        self.on(|_| Ok(()))
    }

    fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        let ask = ask.clone();
        let taken = self.on(move |connection| {
            let (name, token, holder) = (ask.name.as_str(), ask.token.to_string(), ask.holder.to_string());
            // A look first: asking for a busy lock must not keep others from writing.
            if left(connection, &ask.name)?.is_some_and(|left| left > 0) {
                return Ok(None);
            }
            let params = named_params! { ":name": name, ":token": token, ":holder": holder, ":kind": ask.kind.as_deref(), ":ttl": micros(ask.ttl) };
            change(connection, TAKE, params, now())
        });
        Box::pin(async {
            Ok(taken.await?.map(|epoch| Grant { epoch: Epoch::new(epoch), loss_signal: LossSignal::never() }))
        })
    }

    fn extend<'a>(&'a self, ask: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        let ask = ask.clone();
        let kept = self.on(move |connection| {
            let params = named_params! { ":name": ask.name.as_str(), ":token": ask.token.to_string(), ":ttl": micros(ask.ttl) };
            change(connection, EXTEND, params, now())
        });
        Box::pin(async { Ok(kept.await?.map_or(Extended::No, |_| Extended::Yes(LossSignal::never()))) })
    }

    fn release<'a>(&'a self, ask: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        let ask = ask.clone();
        let released = self.on(move |connection| {
            let params = named_params! { ":name": ask.name.as_str(), ":token": ask.token.to_string() };
            change(connection, RELEASE, params, now())
        });
        Box::pin(async { Ok(released.await?.map_or(Released::NotHeld, |_| Released::Clean)) })
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        let name = name.clone();
        self.on(move |connection| {
            let mut statement = connection.prepare_cached(LOOK)?;
            let look = |row: &rusqlite::Row<'_>| {
                let left: i64 = row.get("left")?;
                Ok(Holding {
                    epoch: Epoch::new(row.get("epoch")?),
                    holder: row.get("holder")?,
                    kind: row.get("kind")?,
                    ends_in: u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_micros),
                })
            };
            statement.query_row(named_params! { ":name": name.as_str(), ":now": now() }, look).optional()
        })
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        let (name, epoch) = (name.clone(), seen.holding.epoch.get());
        let ended = self.on(move |connection| {
            let params = named_params! { ":name": name.as_str(), ":epoch": epoch };
            change(connection, END, params, now())
        });
        Box::pin(async { Ok(ended.await?.is_some()) })
    }
}

/// Fences a transaction on the file that holds the lock: until it ends, nobody can take the lock. `false`: the epoch is
/// not current, and the transaction must be rolled back. Call it before you read what you act upon.
pub fn fence(transaction: &rusqlite::Transaction<'_>, fence: &Fence) -> Result<bool, LockError> {
    let params = named_params! { ":name": fence.name.as_str(), ":epoch": fence.epoch.get() };
    let mut statement = transaction.prepare_cached(FENCE).map_err(classify)?;
    Ok(statement.query_row(params, |_| Ok(())).optional().map_err(classify)?.is_some())
}
