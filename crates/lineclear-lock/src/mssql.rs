//! Locks of SQL Server: `sp_getapplock` with the session as owner, all on one connection of their own, and a row that keeps each
//! lock's epoch.
//!
//! **It has not run on a real server**: it was written from the documentation, and tested against a mock server. See `mssql/` beside `src/`.

pub(crate) mod connection;
pub(crate) mod target;
mod probe;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tiberius::error::Error;
use tiberius::{Client, Row};
use tokio_util::compat::Compat;
use uuid::Uuid;

use crate::backend::{
    Backend, Extended, FenceClass, Grant, Holding, LockFuture, LockRequest, LossSignal, Promises, Released,
};
use crate::error::LockError;
use crate::key_hash;
use crate::lease::Fence;
use crate::name::{Epoch, LockName};
use connection::{Connection, Session};
use target::MssqlTarget;

const ACQUIRE: &str = include_str!("../sql/mssql/lock_acquire.sql");
const TRY: &str = include_str!("../sql/mssql/lock_try.sql");
const EXTEND: &str = include_str!("../sql/mssql/lock_extend.sql");
const RELEASE: &str = include_str!("../sql/mssql/lock_release.sql");
const READ: &str = include_str!("../sql/mssql/lock_read.sql");
const FENCE: &str = include_str!("../sql/mssql/lock_fence.sql");

/// Locks of a SQL Server, in one of its databases. A frozen holder keeps its lock.
#[derive(Debug)]
pub struct Mssql {
    target: MssqlTarget,
    connection: Connection,
    /// The locks that we hold, and on which session: a session could acquire its own lock twice.
    ours: Mutex<HashMap<LockName, (Uuid, Arc<Session>)>>,
}

impl Mssql {
    /// Locks in the database that `mssql://user:password@host:port/database` names. The table is created unless it exists.
    pub fn new(url: &str) -> Result<Mssql, LockError> {
        let target = MssqlTarget::new(url)?;
        Ok(Mssql { connection: Connection::new(target.clone()), target, ours: Mutex::default() })
    }

    fn ours(&self) -> MutexGuard<'_, HashMap<LockName, (Uuid, Arc<Session>)>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session on which this token has its lock, if that has not ended.
    fn session_of(&self, request: &LockRequest) -> Option<Arc<Session>> {
        let ours = self.ours();
        let (_, session) = ours.get(&request.name).filter(|(token, _)| *token == request.token)?;
        Some(session.clone()).filter(|session| !session.ended.is_cancelled())
    }

    /// Reserves a lock that we are about to acquire; `false` if we hold it.
    fn reserve(&self, request: &LockRequest, session: &Arc<Session>) -> bool {
        let mut ours = self.ours();
        ours.retain(|_, (_, session)| !session.ended.is_cancelled());
        let free = !ours.contains_key(&request.name);
        if free {
            ours.insert(request.name.clone(), (request.token, session.clone()));
        }
        free
    }

    fn forget(&self, request: &LockRequest) {
        self.ours().retain(|_, (token, _)| *token != request.token);
    }

    async fn acquire_now(&self, request: &LockRequest) -> Result<Option<Grant>, LockError> {
        let session = self.connection.session().await?;
        if !self.reserve(request, &session) {
            return Ok(None);
        }
        let (name, holder, kind) =
            (request.name.as_str().as_bytes(), request.holder.to_string(), request.kind.as_deref());
        let ttl = i64::try_from(request.ttl.as_millis()).unwrap_or(i64::MAX);
        let row =
            session.query_opt(ACQUIRE, &[&key(&request.name), &name, &holder.as_str(), &kind, &ttl]).await;
        let granted = row.and_then(|row| granted(row.as_ref()));
        match granted {
            Ok(Some(epoch)) => {
                Ok(Some(Grant { epoch, loss_signal: LossSignal::new(session.ended.clone(), Duration::ZERO) }))
            }
            none => {
                self.forget(request);
                none.map(|_| None)
            }
        }
    }

    async fn release_now(&self, request: &LockRequest) -> Result<Released, LockError> {
        // The lock has ended with its connection.
        let Some(session) = self.session_of(request) else {
            self.forget(request);
            return Ok(Released::NotHeld);
        };
        let released = session.query_opt(RELEASE, &[&key(&request.name)]).await?;
        self.forget(request);
        Ok(if number(released.as_ref(), "released")? == 0 { Released::Clean } else { Released::NotHeld })
    }
}

/// The server's name of a lock. Locks belong to a database, and long names are truncated silently.
fn key(name: &LockName) -> String {
    key_hash::key("", name)
}

/// The meaning of the return codes of `sp_getapplock`.
fn granted(row: Option<&Row>) -> Result<Option<Epoch>, LockError> {
    match number(row, "got")? {
        0 | 1 => Ok(Some(Epoch::new(number(row, "epoch")?))),
        -1 => Ok(None),
        -2 => Err(LockError::unavailable("the server cancelled the request")),
        -3 => Err(LockError::unavailable("the server chose the request as a deadlock victim")),
        code => Err(LockError::failed(format!("sp_getapplock returned {code}"))),
    }
}

/// A number in an answer, of any width.
pub(crate) fn number(row: Option<&Row>, column: &str) -> Result<i64, LockError> {
    let row = row.ok_or_else(|| LockError::failed("the server's answer is empty"))?;
    let wide =
        row.try_get::<i64, _>(column).or_else(|_| row.try_get::<i32, _>(column).map(|n| n.map(i64::from)));
    wide.map_err(LockError::failed)?
        .ok_or_else(|| LockError::failed(format!("the server's answer has no {column}")))
}

/// Classifies an error by what the caller does next.
fn classify(error: Error) -> LockError {
    match &error {
        // Deadlock, lock wait, memory, a database that is starting, stopping or moving, too many connections.
        Error::Server(server)
            if server.class() >= 20
                || matches!(
                    server.code(),
                    1205 | 1222 | 596 | 701 | 802 | 8645 | 8651 | 904 | 921 | 922 | 927
                )
                || matches!(server.code(), 6005 | 6006 | 17809 | 10928 | 10929 | 40197 | 40501 | 40613)
                || matches!(server.code(), 49918..=49920) =>
        {
            LockError::unavailable(error)
        }
        Error::Server(server) if server.code() == 3906 => {
            LockError::refused("read_only", "the database is read-only; locks need the primary")
        }
        Error::Server(_) | Error::Conversion(_) | Error::Tls(_) => LockError::failed(error),
        _ => LockError::unavailable(error),
    }
}

impl Backend for Mssql {
    fn promises(&self) -> Promises {
        Promises {
            backend: "mssql",
            fence: FenceClass::Strict { scope: Arc::from(self.target.shown.as_str()) },
            crash_detected_within: Some(Duration::from_secs(1)),
            frozen_holder_ends: false,
        }
    }

    fn open(&self) -> LockFuture<'_, ()> {
        Box::pin(probe::probe(&self.target))
    }

    fn acquire<'a>(&'a self, request: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(self.acquire_now(request))
    }

    fn extend<'a>(&'a self, request: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async {
            let Some(session) = self.session_of(request) else { return Ok(Extended::No) };
            let held = session.query_opt(EXTEND, &[&key(&request.name)]).await?;
            let loss_signal = LossSignal::new(session.ended.clone(), Duration::ZERO);
            Ok(if number(held.as_ref(), "held")? == 1 { Extended::Yes(loss_signal) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, request: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(self.release_now(request))
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        Box::pin(async move {
            let session = self.connection.session().await?;
            let row = session.query_opt(READ, &[&key(name), &name.as_str().as_bytes()]).await?;
            row.as_ref().map(holding).transpose()
        })
    }
}

fn holding(row: &Row) -> Result<Holding, LockError> {
    let text = |column| {
        row.try_get::<&str, _>(column).map_err(LockError::failed).map(|text| text.map(str::to_owned))
    };
    // A live session renews it all the time, so that it always has its whole time left.
    let ttl = Duration::from_millis(u64::try_from(number(Some(row), "ttl_ms")?).unwrap_or(0));
    Ok(Holding {
        epoch: Epoch::new(number(Some(row), "epoch")?),
        holder: text("holder")?.unwrap_or_default(),
        kind: text("kind")?,
        ends_in: (number(Some(row), "held")? == 1).then_some(ttl),
    })
}

/// Fences the open transaction of a connection to the database that has the lock: until it ends, no other process can acquire the lock.
/// `false`: the epoch is not current, and the transaction must be rolled back. Call it before reading what the transaction acts on.
pub async fn fence(
    client: &mut Client<Compat<tokio::net::TcpStream>>,
    fence: &Fence,
) -> Result<bool, LockError> {
    let (name, epoch) = (fence.name.as_str().as_bytes(), fence.epoch.get());
    let answer = client.query(FENCE, &[&name, &epoch]).await.map_err(classify)?;
    Ok(answer.into_row().await.map_err(classify)?.is_some())
}
