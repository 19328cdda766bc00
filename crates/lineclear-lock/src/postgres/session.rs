//! A lock as an advisory lock of a session: free at once when the holder's connection ends, and never before.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::connection::{Link, Purpose, Wire};
use super::lease::{Statements, ended, micros};
use super::target::PostgresTarget;
use super::{probe, schema};
use crate::backend::{
    Backend, Extended, FenceClass, Grant, Holding, Inspection, LockFuture, LockRequest, LossSignal, Promises,
    Released,
};
use crate::error::LockError;
use crate::name::{Epoch, LockName};
use crate::options::LockOptions;

/// Session locks, all on one connection of their own. A holder that is frozen, not dead, keeps its lock.
pub struct PostgresSession {
    place: PostgresTarget,
    sql: Statements,
    take: String,
    link: Link,
    /// A session may take its own lock twice; so we remember what we have, and on which connection.
    ours: Mutex<HashMap<i64, (Uuid, Arc<Wire>)>>,
}

impl std::fmt::Debug for PostgresSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "session locks in {:?}", self.place)
    }
}

impl PostgresSession {
    /// Locks in this place; `options` say how soon a dead connection is noticed.
    pub fn new(place: PostgresTarget, options: &LockOptions) -> PostgresSession {
        PostgresSession {
            sql: Statements::of(&place),
            take: place.sql(include_str!("../../sql/postgres/lock_acquire_session.sql")),
            link: Link::new(&place, Purpose::Rights(options.ttl), Arc::new(AtomicBool::new(true))),
            ours: Mutex::default(),
            place,
        }
    }

    fn ours(&self) -> MutexGuard<'_, HashMap<i64, (Uuid, Arc<Wire>)>> {
        // Nothing panics while it is locked.
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, name: &LockName) -> i64 {
        name.key(self.place.schema())
    }

    /// The connection on which this token has its lock, if that has not ended.
    fn wire_of(&self, ask: &LockRequest) -> Option<Arc<Wire>> {
        let ours = self.ours();
        let (_, wire) = ours.get(&self.key(&ask.name)).filter(|(token, _)| *token == ask.token)?;
        Some(wire.clone()).filter(|wire| !wire.ended.is_cancelled())
    }

    /// Notes that we are about to take a lock; `false` if we have it.
    fn reserve(&self, ask: &LockRequest, wire: &Arc<Wire>) -> bool {
        let mut ours = self.ours();
        ours.retain(|_, (_, wire)| !wire.ended.is_cancelled());
        let free = !ours.contains_key(&self.key(&ask.name));
        if free {
            ours.insert(self.key(&ask.name), (ask.token, wire.clone()));
        }
        free
    }

    fn forget(&self, ask: &LockRequest) {
        self.ours().retain(|_, (token, _)| *token != ask.token);
    }

    async fn open_now(&self) -> Result<(), LockError> {
        let pooled = self.place.pooler.then(|| "pooler=transaction says so".to_owned());
        let unfit = match pooled {
            Some(why) => Some(why),
            None => probe::unfit(&self.place).await?,
        };
        if let Some(why) = unfit {
            let why = format!(
                "session locks cannot be relied upon here ({why}); use lock=lease, or a direct connection"
            );
            return Err(LockError::refused("session_lock", why));
        }
        schema::prepare(&self.place, self.link.call().await?).await
    }

    async fn acquire_now(&self, ask: &LockRequest) -> Result<Option<Grant>, LockError> {
        let call = self.link.call().await?;
        let wire = call.wire().clone();
        if !self.reserve(ask, &wire) {
            return call.answer(Ok(None));
        }
        let (name, token, holder) = (ask.name.as_str(), ask.token.to_string(), ask.holder.to_string());
        let (kind, key, ttl) = (ask.kind.as_deref(), self.key(&ask.name), micros(ask.ttl));
        let params: [(&(dyn ToSql + Sync), Type); 6] = [
            (&name, Type::TEXT),
            (&token, Type::TEXT),
            (&holder, Type::TEXT),
            (&kind, Type::TEXT),
            (&key, Type::INT8),
            (&ttl, Type::INT8),
        ];
        let row = wire.ask(&self.take, &params).await;
        // A statement that fails keeps the session lock that it took.
        if !matches!(&row, Ok(Some(row)) if !row.get::<_, bool>("locked") || row.get::<_, Option<i64>>("epoch").is_some())
        {
            unlock(&wire, key).await.ok();
        }
        let row = call.answer(row).inspect_err(|_| self.forget(ask))?;
        if let Some(epoch) = row.and_then(|row| row.get::<_, Option<i64>>("epoch")) {
            let loss_signal = LossSignal::new(wire.ended.clone(), Duration::ZERO);
            return Ok(Some(Grant { epoch: Epoch::new(epoch), loss_signal }));
        }
        self.forget(ask);
        Ok(None)
    }

    async fn release_now(&self, ask: &LockRequest) -> Result<Released, LockError> {
        // The lock is gone with its connection; then only the row is left to be stamped.
        let Some(wire) = self.wire_of(ask) else {
            self.forget(ask);
            return Ok(Released::NotHeld);
        };
        // One call for both: if either gets no answer the connection is given up, and the lock with it.
        let call = self.link.call().await?;
        // One behind the other, in one round trip.
        let (released, unlocked) =
            tokio::join!(biased; self.sql.release(&wire, ask), unlock(&wire, self.key(&ask.name)));
        self.forget(ask);
        call.answer(unlocked.and(released))
    }
}

async fn unlock(wire: &Wire, key: i64) -> Result<(), tokio_postgres::Error> {
    wire.ask("select pg_advisory_unlock($1)", &[(&key, Type::INT8)]).await.map(drop)
}

impl Backend for PostgresSession {
    fn promises(&self) -> Promises {
        Promises {
            backend: "postgres-session",
            fence: FenceClass::Strict { scope: Arc::from(self.place.schema()) },
            crash_detected_within: Some(Duration::ZERO),
            frozen_holder_ends: false,
        }
    }

    fn open(&self) -> LockFuture<'_, ()> {
        Box::pin(self.open_now())
    }

    fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(self.acquire_now(ask))
    }

    fn extend<'a>(&'a self, ask: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async {
            let Some(wire) = self.wire_of(ask) else { return Ok(Extended::No) };
            let call = self.link.call().await?;
            let extended = self.sql.extend(&wire, ask, None).await;
            let loss_signal = LossSignal::new(wire.ended.clone(), Duration::ZERO);
            Ok(if call.answer(extended)? { Extended::Yes(loss_signal) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, ask: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(self.release_now(ask))
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        Box::pin(async move {
            Ok(self.inspect(std::slice::from_ref(name)).await?.pop().flatten().map(|seen| seen.holding))
        })
    }

    fn inspect<'a>(&'a self, names: &'a [LockName]) -> LockFuture<'a, Vec<Option<Inspection>>> {
        Box::pin(async move {
            let call = self.link.call().await?;
            let seen = self.sql.inspect(call.wire(), &self.place, names).await;
            call.answer(seen)
        })
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        Box::pin(async move {
            // If we hold it ourselves, this very connection is ended; then the answer does not come.
            let call = self.link.call().await?;
            let done = self.sql.end(call.wire(), &self.place, name, seen).await;
            ended(call.answer(done)?)
        })
    }
}
