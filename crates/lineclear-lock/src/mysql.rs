//! Locks of MySQL and MariaDB: `GET_LOCK`, on a connection of its own for each held lock, and a row that keeps the lock's epoch.
//!
//! One connection for each held lock, and not one for all, because the server then enforces the time to live: a connection may idle for as
//! long as `ttl` (`wait_timeout`); then the server ends it, and the lock with it, whether its holder is dead, frozen or cut off. The server
//! also refuses a holder that asks twice, and a failure of one connection affects one lock. Connections are used again after a release.

mod probe;
mod session;
mod slot;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Opts, OptsBuilder, Row, Transaction, params};
use uuid::Uuid;

use crate::backend::{
    Backend, Extended, FenceClass, Grant, Holding, Inspection, LockFuture, LockRequest, Promises, Released,
};
use crate::error::LockError;
use crate::key_hash;
use crate::lease::Fence;
use crate::name::{Epoch, LockName};
use crate::timely::timely;
use session::Session;
pub(crate) use session::classify;
use slot::Slot;

const READ: &str = include_str!("../sql/mysql/lock_read.sql");
const BREAK: &str = include_str!("../sql/mysql/lock_break.sql");
const FENCE: &str = include_str!("../sql/mysql/lock_fence.sql");

/// How many idle connections are kept.
const IDLE_MAX: usize = 8;
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Locks of a MySQL or MariaDB server, in one of its databases.
#[derive(Clone, Debug)]
pub struct Mysql(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    opts: Opts,
    database: String,
    /// Held locks, and those that are being acquired.
    held: Mutex<HashMap<Uuid, Arc<Slot>>>,
    idle: Mutex<Vec<Session>>,
}

/// How to connect, and the name of the database.
pub(crate) fn opts(url: &str) -> Result<(Opts, String), LockError> {
    let refused = |why: String| LockError::refused("lock_url", why);
    let url = url.replacen("mariadb://", "mysql://", 1);
    let opts = Opts::from_url(&url).map_err(|error| refused(error.to_string()))?;
    let Some(database) = opts.db_name().filter(|name| !name.is_empty()).map(str::to_owned) else {
        return Err(refused("it must name a database: mysql://user@host/database".to_owned()));
    };
    // Over TCP, as the URL says, and not over a local socket of the server; without further queries at the start.
    let opts = OptsBuilder::from_opts(opts).prefer_socket(false).wait_timeout(Some(28_800));
    let opts = opts.max_allowed_packet(Some(16 << 20)).setup(session::SETUP.to_vec());
    // Ends a connection that was closed while its other side was silent.
    let opts = opts.tcp_keepalive(Some(KEEPALIVE)).into();
    Ok((opts, database))
}

/// How programs that the locks belong to connect to their database, by URL: over TCP, in autocommit, without long waits for locks of rows.
pub fn connect_options(url: &str) -> Result<Opts, LockError> {
    Ok(opts(url)?.0)
}

impl Mysql {
    /// Locks in the database that `mysql://user:password@host:port/database` names. The table is created unless it exists.
    pub fn new(url: &str) -> Result<Mysql, LockError> {
        let (opts, database) = opts(url)?;
        Ok(Mysql(Arc::new(Inner { opts, database, held: Mutex::default(), idle: Mutex::default() })))
    }
}

impl Inner {
    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Arc<Slot>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, token: Uuid) -> Option<Arc<Slot>> {
        self.held().get(&token).cloned()
    }

    /// Keeps a connection that holds no lock for its next use.
    fn return_session(&self, session: Session) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(session);
        }
    }

    /// An idle connection that the server has not ended yet, as far as we know.
    fn idle_session(&self) -> Option<Session> {
        let mut idle = self.idle();
        idle.retain(Session::is_fresh);
        idle.pop()
    }

    /// A connection for a query.
    async fn any_session(&self) -> Result<Session, LockError> {
        match self.idle_session() {
            Some(session) => Ok(session),
            None => Session::connect(&self.opts).await.map_err(classify),
        }
    }

    /// Acquires the lock. After an error, the connection is not used again, which frees the lock.
    async fn grant(&self, slot: &Slot, request: &LockRequest) -> Result<Option<(Session, Epoch)>, LockError> {
        if let Some(mut session) = self.idle_session() {
            match session.acquire(slot.key(), request).await {
                Ok(Some(epoch)) => return Ok(Some((session, epoch))),
                Ok(None) => {
                    self.return_session(session);
                    return Ok(None);
                }
                // The server has ended it meanwhile; try a new one.
                Err(error) if session::is_broken(&error) => {}
                Err(error) => return Err(classify(error)),
            }
        }
        let mut session = Session::connect(&self.opts).await.map_err(classify)?;
        let epoch = session.acquire(slot.key(), request).await.map_err(classify)?;
        match epoch {
            Some(epoch) => Ok(Some((session, epoch))),
            None => {
                self.return_session(session);
                Ok(None)
            }
        }
    }
}

/// Runs to the end even if the caller stops waiting: an answer that is not read would be taken for that of the next query.
async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, LockError>> + Send + 'static,
) -> Result<T, LockError> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(LockError::failed(error)))
}

impl Backend for Mysql {
    fn promises(&self) -> Promises {
        let (host, port) = (self.0.opts.ip_or_hostname(), self.0.opts.tcp_port());
        let scope = format!("mysql://{host}:{port}/{}", self.0.database);
        Promises {
            backend: "mysql",
            fence: FenceClass::Strict { scope: Arc::from(scope) },
            crash_detected_within: Some(Duration::from_secs(1)),
            frozen_holder_ends: true,
        }
    }

    fn open(&self) -> LockFuture<'_, ()> {
        Box::pin(async {
            probe::probe(&self.0.opts).await?;
            tokio::spawn(watch::watch(Arc::downgrade(&self.0)));
            Ok(())
        })
    }

    fn acquire<'a>(&'a self, request: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        let (inner, request) = (self.0.clone(), request.clone());
        let slot = Arc::new(Slot::new(key_hash::key(&self.0.database, &request.name), request.ttl));
        // A release that comes before the answer finds the locked slot, and waits for it.
        let Ok(mut session) = slot.session().try_lock_owned() else { unreachable!("it is not shared yet") };
        self.0.held().insert(request.token, slot.clone());
        Box::pin(run_to_end(async move {
            // A later answer is useless.
            let granted = timely(request.ttl, inner.grant(&slot, &request)).await;
            let Ok(Some((granted, epoch))) = granted else {
                inner.held().remove(&request.token);
                return granted.map(|_| None);
            };
            slot.granted(&granted);
            *session = Some(granted);
            Ok(Some(Grant { epoch, loss_signal: slot.loss_signal() }))
        }))
    }

    fn extend<'a>(&'a self, request: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        let Some(slot) = self.0.slot(request.token) else { return Box::pin(async { Ok(Extended::No) }) };
        Box::pin(run_to_end(async move {
            let mut session = slot.session().lock_owned().await;
            let kept = slot.confirm(&mut session).await?;
            Ok(if kept { Extended::Yes(slot.loss_signal()) } else { Extended::No })
        }))
    }

    fn release<'a>(&'a self, request: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        let (inner, token) = (self.0.clone(), request.token);
        Box::pin(run_to_end(async move {
            let Some(slot) = inner.slot(token) else { return Ok(Released::NotHeld) };
            let taken = slot.session().lock_owned().await.take();
            inner.held().remove(&token);
            let Some(mut session) = taken else { return Ok(Released::NotHeld) };
            let released = timely(slot.ttl(), async { session.release(slot.key()).await.map_err(classify) });
            let released = released.await?;
            inner.return_session(session);
            Ok(if released { Released::Clean } else { Released::NotHeld })
        }))
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        Box::pin(async move {
            Ok(self.inspect(std::slice::from_ref(name)).await?.pop().flatten().map(|seen| seen.holding))
        })
    }

    fn inspect<'a>(&'a self, names: &'a [LockName]) -> LockFuture<'a, Vec<Option<Inspection>>> {
        let (inner, names) = (self.0.clone(), names.to_vec());
        Box::pin(run_to_end(async move {
            let mut session = inner.any_session().await?;
            let mut inspected = Vec::with_capacity(names.len());
            for name in &names {
                let key = key_hash::key(&inner.database, name);
                let params = params! { "name" => name.as_str().as_bytes(), "key" => key };
                let row = session.connection().exec_first(READ, params).await.map_err(classify)?;
                inspected.push(row.map(inspection).transpose()?);
            }
            inner.return_session(session);
            Ok(inspected)
        }))
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        let (inner, name, seen) = (self.0.clone(), name.clone(), seen.clone());
        Box::pin(run_to_end(async move {
            let Some(connection) = seen.connection else { return Ok(false) };
            let mut session = inner.any_session().await?;
            let (key, epoch) = (key_hash::key(&inner.database, &name), seen.holding.epoch.get());
            let params = params! { "name" => name.as_str().as_bytes(), "key" => key, "epoch" => epoch, "connection" => connection };
            session.connection().exec_drop(BREAK, params).await.map_err(classify)?;
            let ended = session.connection().affected_rows() == 1;
            if ended {
                session.connection().query_drop(format!("kill {connection}")).await.map_err(classify)?;
            }
            inner.return_session(session);
            Ok(ended)
        }))
    }
}

fn inspection(row: Row) -> Result<Inspection, LockError> {
    type Columns = (i64, Vec<u8>, Option<Vec<u8>>, Option<i64>, Option<i64>);
    let (epoch, holder, kind, left, connection): Columns =
        mysql_async::from_row_opt(row).map_err(LockError::failed)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    // The server counts whole seconds: a held lock has some time left.
    let ends_in = left.map(|left| Duration::from_secs(u64::try_from(left).unwrap_or(0)));
    let ends_in = ends_in.map(|left| left.max(Duration::from_millis(1)));
    let holding = Holding { epoch: Epoch::new(epoch), holder: text(holder), kind: kind.map(text), ends_in };
    Ok(Inspection { connection, alive: Some(connection.is_some()), ..Inspection::from(holding) })
}

/// Fences a transaction on the database that has the lock: until the transaction ends, no other process can acquire the lock. `false`: the
/// epoch is not current, and the transaction must be rolled back. Call it before reading what the transaction acts on.
pub async fn fence(transaction: &mut Transaction<'_>, fence: &Fence) -> Result<bool, LockError> {
    let params = params! { "name" => fence.name.as_str().as_bytes(), "epoch" => fence.epoch.get() };
    let found: Option<i64> = transaction.exec_first(FENCE, params).await.map_err(classify)?;
    Ok(found.is_some())
}
