//! Locks of MySQL and MariaDB: `GET_LOCK`, on a connection of its own for every lock that is held, and a row that keeps
//! its epoch.
//!
//! One connection for each held lock, and not one for all, because the server then enforces what we promise: the
//! connection may be silent for as long as the lock's own time to live (`wait_timeout`), after which the server ends it,
//! and the lock with it, be its holder dead, frozen or cut off. It also makes the server, not us, refuse a holder that
//! asks twice, and the trouble of one lock never touches another. Connections are used again after a release.

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
use session::Session;
pub(crate) use session::classify;
use slot::Slot;

const LOOK: &str = include_str!("../sql/mysql/lock_read.sql");
const END: &str = include_str!("../sql/mysql/lock_break.sql");
const FENCE: &str = include_str!("../sql/mysql/lock_fence.sql");

/// How many connections wait for their next use.
const IDLE_MAX: usize = 8;
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Locks of a MySQL or MariaDB server, in one of its databases.
#[derive(Clone, Debug)]
pub struct Mysql(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    opts: Opts,
    database: String,
    /// What is held, and what is being asked for.
    held: Mutex<HashMap<Uuid, Arc<Slot>>>,
    idle: Mutex<Vec<Session>>,
}

/// How to connect, and to which database.
pub(crate) fn opts(url: &str) -> Result<(Opts, String), LockError> {
    let refused = |why: String| LockError::refused("lock_url", why);
    let opts = Opts::from_url(url).map_err(|error| refused(error.to_string()))?;
    let Some(database) = opts.db_name().filter(|name| !name.is_empty()).map(str::to_owned) else {
        return Err(refused("it names no database; use mysql://user@host/database".to_owned()));
    };
    // The way that the URL names, not a socket that the server happens to have; and nothing need be asked for on
    // the way in.
    let opts = OptsBuilder::from_opts(opts).prefer_socket(false).wait_timeout(Some(28_800));
    let opts = opts.max_allowed_packet(Some(16 << 20)).setup(session::SETUP.to_vec());
    // A connection that was given up while its other side was silent goes some time.
    let opts = opts.tcp_keepalive(Some(KEEPALIVE)).into();
    Ok((opts, database))
}

impl Mysql {
    /// Locks in the database that `mysql://user:password@host:port/database` names. The table is made if it is not there.
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
    fn give_back(&self, session: Session) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(session);
        }
    }

    /// A connection that waits for its next use and that the server has not ended yet, as far as we know.
    fn waiting(&self) -> Option<Session> {
        let mut idle = self.idle();
        idle.retain(Session::is_fresh);
        idle.pop()
    }

    /// A connection for a question.
    async fn any_session(&self) -> Result<Session, LockError> {
        match self.waiting() {
            Some(session) => Ok(session),
            None => Session::connect(&self.opts).await.map_err(classify),
        }
    }

    /// Asks for the lock; whatever goes wrong, the connection is not used again, which frees the lock.
    async fn grant(&self, slot: &Slot, ask: &LockRequest) -> Result<Option<(Session, Epoch)>, LockError> {
        if let Some(mut session) = self.waiting() {
            match session.take(slot.key(), ask).await {
                Ok(Some(epoch)) => return Ok(Some((session, epoch))),
                Ok(None) => {
                    self.give_back(session);
                    return Ok(None);
                }
                // It was ended behind our back; a new one tells how things are.
                Err(error) if session::is_broken(&error) => {}
                Err(error) => return Err(classify(error)),
            }
        }
        let mut session = Session::connect(&self.opts).await.map_err(classify)?;
        let taken = session.take(slot.key(), ask).await.map_err(classify)?;
        match taken {
            Some(epoch) => Ok(Some((session, epoch))),
            None => {
                self.give_back(session);
                Ok(None)
            }
        }
    }
}

/// Goes on when whoever waits for it does not: an answer that is not read would be taken for that of the next question.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, LockError>> + Send + 'static,
) -> Result<T, LockError> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(LockError::failed(error)))
}

impl Backend for Mysql {
    fn promises(&self) -> Promises {
        let (host, port) = (self.0.opts.ip_or_hostname(), self.0.opts.tcp_port());
        let place = format!("mysql://{host}:{port}/{}", self.0.database);
        Promises {
            backend: "mysql",
            fence: FenceClass::Strict { scope: Arc::from(place) },
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

    fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        let (inner, ask) = (self.0.clone(), ask.clone());
        let slot = Arc::new(Slot::new(key_hash::key(&self.0.database, &ask.name), ask.ttl));
        // A release that comes before the answer waits for it: it finds the slot, locked.
        let Ok(mut session) = slot.session().try_lock_owned() else { unreachable!("nobody else knows it") };
        self.0.held().insert(ask.token, slot.clone());
        Box::pin(to_the_end(async move {
            // An answer that comes later is worth nothing.
            let granted = slot::within(ask.ttl, inner.grant(&slot, &ask)).await;
            let Ok(Some((granted, epoch))) = granted else {
                inner.held().remove(&ask.token);
                return granted.map(|_| None);
            };
            slot.granted(&granted);
            *session = Some(granted);
            Ok(Some(Grant { epoch, loss_signal: slot.loss_signal() }))
        }))
    }

    fn extend<'a>(&'a self, ask: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        let Some(slot) = self.0.slot(ask.token) else { return Box::pin(async { Ok(Extended::No) }) };
        Box::pin(to_the_end(async move {
            let mut session = slot.session().lock_owned().await;
            let kept = slot.confirm(&mut session).await?;
            Ok(if kept { Extended::Yes(slot.loss_signal()) } else { Extended::No })
        }))
    }

    fn release<'a>(&'a self, ask: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        let (inner, token) = (self.0.clone(), ask.token);
        Box::pin(to_the_end(async move {
            let Some(slot) = inner.slot(token) else { return Ok(Released::NotHeld) };
            let taken = slot.session().lock_owned().await.take();
            inner.held().remove(&token);
            let Some(mut session) = taken else { return Ok(Released::NotHeld) };
            let released =
                slot::within(slot.ttl(), async { session.release(slot.key()).await.map_err(classify) });
            let released = released.await?;
            inner.give_back(session);
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
        Box::pin(to_the_end(async move {
            let mut session = inner.any_session().await?;
            let mut inspected = Vec::with_capacity(names.len());
            for name in &names {
                let key = key_hash::key(&inner.database, name);
                let params = params! { "name" => name.as_str().as_bytes(), "key" => key };
                let row = session.connection().exec_first(LOOK, params).await.map_err(classify)?;
                inspected.push(row.map(inspection).transpose()?);
            }
            inner.give_back(session);
            Ok(inspected)
        }))
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        let (inner, name, seen) = (self.0.clone(), name.clone(), seen.clone());
        Box::pin(to_the_end(async move {
            let Some(connection) = seen.connection else { return Ok(false) };
            let mut session = inner.any_session().await?;
            let (key, epoch) = (key_hash::key(&inner.database, &name), seen.holding.epoch.get());
            let params = params! { "name" => name.as_str().as_bytes(), "key" => key, "epoch" => epoch, "connection" => connection };
            session.connection().exec_drop(END, params).await.map_err(classify)?;
            let ended = session.connection().affected_rows() == 1;
            if ended {
                session.connection().query_drop(format!("kill {connection}")).await.map_err(classify)?;
            }
            inner.give_back(session);
            Ok(ended)
        }))
    }
}

fn inspection(row: Row) -> Result<Inspection, LockError> {
    type Columns = (i64, Vec<u8>, Option<Vec<u8>>, Option<i64>, Option<i64>);
    let (epoch, holder, kind, left, connection): Columns =
        mysql_async::from_row_opt(row).map_err(LockError::failed)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    // The server counts whole seconds: what is held has some time left.
    let ends_in = left.map(|left| Duration::from_secs(u64::try_from(left).unwrap_or(0)));
    let ends_in = ends_in.map(|left| left.max(Duration::from_millis(1)));
    let holding = Holding { epoch: Epoch::new(epoch), holder: text(holder), kind: kind.map(text), ends_in };
    Ok(Inspection { connection, alive: Some(connection.is_some()), ..Inspection::from(holding) })
}

/// Fences a transaction on the database that holds the lock: until it ends, nobody can take the lock. `false`: the epoch
/// is not current, and the transaction must be rolled back. Call it before you read what you act upon.
pub async fn fence(transaction: &mut Transaction<'_>, fence: &Fence) -> Result<bool, LockError> {
    let params = params! { "name" => fence.name.as_str().as_bytes(), "epoch" => fence.epoch.get() };
    let found: Option<i64> = transaction.exec_first(FENCE, params).await.map_err(classify)?;
    Ok(found.is_some())
}
