//! Locks of SQL Server: `sp_getapplock` with the session as owner, all on one connection of their own, and a row that keeps each
//! lock's epoch.
//!
//! **No real server has tried it**: it was written from the documentation, and tested against a server that was made up for it.
//! See `mssql/` beside `src/`.

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
use connection::{Link, Wire};
use target::Place;

const TAKE: &str = include_str!("../sql/mssql/lock_acquire.sql");
const TRY: &str = include_str!("../sql/mssql/lock_try.sql");
const EXTEND: &str = include_str!("../sql/mssql/lock_extend.sql");
const RELEASE: &str = include_str!("../sql/mssql/lock_release.sql");
const LOOK: &str = include_str!("../sql/mssql/lock_read.sql");
const FENCE: &str = include_str!("../sql/mssql/lock_fence.sql");

/// Locks of a SQL Server, in one of its databases. A holder that is frozen, not dead, keeps its lock.
#[derive(Debug)]
pub struct Mssql {
    place: Place,
    link: Link,
    /// A session may take its own lock twice; so we remember what we have, and on which connection.
    ours: Mutex<HashMap<LockName, (Uuid, Arc<Wire>)>>,
}

impl Mssql {
    /// Locks in the database that `mssql://user:password@host:port/database` names. The table is made if it is not there.
    pub fn new(url: &str) -> Result<Mssql, LockError> {
        let place = Place::new(url)?;
        Ok(Mssql { link: Link::new(place.clone()), place, ours: Mutex::default() })
    }

    fn ours(&self) -> MutexGuard<'_, HashMap<LockName, (Uuid, Arc<Wire>)>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection on which this token has its lock, if that has not ended.
    fn wire_of(&self, ask: &LockRequest) -> Option<Arc<Wire>> {
        let ours = self.ours();
        let (_, wire) = ours.get(&ask.name).filter(|(token, _)| *token == ask.token)?;
        Some(wire.clone()).filter(|wire| !wire.ended.is_cancelled())
    }

    /// Notes that we are about to take a lock; `false` if we have it.
    fn reserve(&self, ask: &LockRequest, wire: &Arc<Wire>) -> bool {
        let mut ours = self.ours();
        ours.retain(|_, (_, wire)| !wire.ended.is_cancelled());
        let free = !ours.contains_key(&ask.name);
        if free {
            ours.insert(ask.name.clone(), (ask.token, wire.clone()));
        }
        free
    }

    fn forget(&self, ask: &LockRequest) {
        self.ours().retain(|_, (token, _)| *token != ask.token);
    }

    async fn acquire_now(&self, ask: &LockRequest) -> Result<Option<Grant>, LockError> {
        let wire = self.link.wire().await?;
        if !self.reserve(ask, &wire) {
            return Ok(None);
        }
        let (name, holder, kind) =
            (ask.name.as_str().as_bytes(), ask.holder.to_string(), ask.kind.as_deref());
        let ttl = i64::try_from(ask.ttl.as_millis()).unwrap_or(i64::MAX);
        let row = wire.ask(TAKE, &[&key(&ask.name), &name, &holder.as_str(), &kind, &ttl]).await;
        let granted = row.and_then(|row| granted(row.as_ref()));
        match granted {
            Ok(Some(epoch)) => {
                Ok(Some(Grant { epoch, loss_signal: LossSignal::new(wire.ended.clone(), Duration::ZERO) }))
            }
            none => {
                self.forget(ask);
                none.map(|_| None)
            }
        }
    }

    async fn release_now(&self, ask: &LockRequest) -> Result<Released, LockError> {
        // The lock is gone with its connection.
        let Some(wire) = self.wire_of(ask) else {
            self.forget(ask);
            return Ok(Released::NotHeld);
        };
        let released = wire.ask(RELEASE, &[&key(&ask.name)]).await?;
        self.forget(ask);
        Ok(if number(released.as_ref(), "released")? == 0 { Released::Clean } else { Released::NotHeld })
    }
}

/// The server's name of a lock. Its locks belong to a database each; but it cuts long names off without a word.
fn key(name: &LockName) -> String {
    key_hash::key("", name)
}

/// What the codes of `sp_getapplock` mean.
fn granted(row: Option<&Row>) -> Result<Option<Epoch>, LockError> {
    match number(row, "got")? {
        0 | 1 => Ok(Some(Epoch::new(number(row, "epoch")?))),
        -1 => Ok(None),
        -2 => Err(LockError::unavailable("the server gave up: the request was cancelled")),
        -3 => {
            Err(LockError::unavailable("the server gave up: the request was chosen as a deadlock's victim"))
        }
        code => Err(LockError::failed(format!("sp_getapplock answered {code}"))),
    }
}

/// A number of an answer, of whatever width.
pub(crate) fn number(row: Option<&Row>, column: &str) -> Result<i64, LockError> {
    let row = row.ok_or_else(|| LockError::failed("the server's answer is empty"))?;
    let wide =
        row.try_get::<i64, _>(column).or_else(|_| row.try_get::<i32, _>(column).map(|n| n.map(i64::from)));
    wide.map_err(LockError::failed)?
        .ok_or_else(|| LockError::failed(format!("the server's answer has no {column}")))
}

/// By what the caller does next.
fn classify(error: Error) -> LockError {
    match &error {
        // Deadlock, lock wait, memory, the database is starting, shutting down or moving, too many connections.
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
            LockError::refused("read_only", "this database can only be read; locks need the primary")
        }
        Error::Server(_) | Error::Conversion(_) | Error::Tls(_) => LockError::failed(error),
        _ => LockError::unavailable(error),
    }
}

impl Backend for Mssql {
    fn promises(&self) -> Promises {
        Promises {
            backend: "mssql",
            fence: FenceClass::Strict { scope: Arc::from(self.place.shown.as_str()) },
            crash_detected_within: Some(Duration::from_secs(1)),
            frozen_holder_ends: false,
        }
    }

    fn open(&self) -> LockFuture<'_, ()> {
        Box::pin(probe::probe(&self.place))
    }

    fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(self.acquire_now(ask))
    }

    fn extend<'a>(&'a self, ask: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async {
            let Some(wire) = self.wire_of(ask) else { return Ok(Extended::No) };
            let held = wire.ask(EXTEND, &[&key(&ask.name)]).await?;
            let loss_signal = LossSignal::new(wire.ended.clone(), Duration::ZERO);
            Ok(if number(held.as_ref(), "held")? == 1 { Extended::Yes(loss_signal) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, ask: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(self.release_now(ask))
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        Box::pin(async move {
            let wire = self.link.wire().await?;
            let row = wire.ask(LOOK, &[&key(name), &name.as_str().as_bytes()]).await?;
            row.as_ref().map(holding).transpose()
        })
    }
}

fn holding(row: &Row) -> Result<Holding, LockError> {
    let text = |column| {
        row.try_get::<&str, _>(column).map_err(LockError::failed).map(|text| text.map(str::to_owned))
    };
    // A session that lives renews it all the time, so that it never has less.
    let ttl = Duration::from_millis(u64::try_from(number(Some(row), "ttl_ms")?).unwrap_or(0));
    Ok(Holding {
        epoch: Epoch::new(number(Some(row), "epoch")?),
        holder: text("holder")?.unwrap_or_default(),
        kind: text("kind")?,
        ends_in: (number(Some(row), "held")? == 1).then_some(ttl),
    })
}

/// Fences the transaction that is open on a connection to the database that holds the lock: until it ends, nobody can take the
/// lock. `false`: the epoch is not current, and the transaction must be rolled back. Call it before you read what you act upon.
pub async fn fence(
    client: &mut Client<Compat<tokio::net::TcpStream>>,
    fence: &Fence,
) -> Result<bool, LockError> {
    let (name, epoch) = (fence.name.as_str().as_bytes(), fence.epoch.get());
    let answer = client.query(FENCE, &[&name, &epoch]).await.map_err(classify)?;
    Ok(answer.into_row().await.map_err(classify)?.is_some())
}
