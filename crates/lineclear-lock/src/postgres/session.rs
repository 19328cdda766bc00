//! A lock as an advisory lock of a session: it is free as soon as the holder's connection ends, and not before.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::connection::{Connection, Purpose, Session};
use super::lease::{Statements, broken, micros};
use super::target::PostgresTarget;
use super::{probe, schema};
use crate::backend::{
    Backend, Extended, FenceClass, Grant, Holding, Inspection, LockFuture, LockRequest, LossSignal, Promises,
    Released,
};
use crate::error::LockError;
use crate::name::{Epoch, LockName};
use crate::options::LockOptions;

/// Session locks, all on one connection of their own. A frozen holder keeps its lock.
pub struct PostgresSession {
    target: PostgresTarget,
    sql: Statements,
    acquire: String,
    connection: Connection,
    /// The locks that we hold, and on which session: a session could acquire its own lock twice.
    ours: Mutex<HashMap<i64, (Uuid, Arc<Session>)>>,
}

impl std::fmt::Debug for PostgresSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "session locks in {:?}", self.target)
    }
}

impl PostgresSession {
    /// Locks in this schema; `options` say how soon a dead connection is noticed.
    pub fn new(target: PostgresTarget, options: &LockOptions) -> PostgresSession {
        PostgresSession {
            sql: Statements::of(&target),
            acquire: target.sql(include_str!("../../sql/postgres/lock_acquire_session.sql")),
            connection: Connection::new(
                &target,
                Purpose::Locks(options.ttl),
                Arc::new(AtomicBool::new(true)),
            ),
            ours: Mutex::default(),
            target,
        }
    }

    fn ours(&self) -> MutexGuard<'_, HashMap<i64, (Uuid, Arc<Session>)>> {
        // No code panics while it is locked.
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, name: &LockName) -> i64 {
        name.key(self.target.schema())
    }

    /// The session on which this token has its lock, if that has not ended.
    fn session_of(&self, request: &LockRequest) -> Option<Arc<Session>> {
        let ours = self.ours();
        let (_, session) = ours.get(&self.key(&request.name)).filter(|(token, _)| *token == request.token)?;
        Some(session.clone()).filter(|session| !session.ended.is_cancelled())
    }

    /// Reserves a lock that we are about to acquire; `false` if we hold it.
    fn reserve(&self, request: &LockRequest, session: &Arc<Session>) -> bool {
        let mut ours = self.ours();
        ours.retain(|_, (_, session)| !session.ended.is_cancelled());
        let free = !ours.contains_key(&self.key(&request.name));
        if free {
            ours.insert(self.key(&request.name), (request.token, session.clone()));
        }
        free
    }

    fn forget(&self, request: &LockRequest) {
        self.ours().retain(|_, (token, _)| *token != request.token);
    }

    async fn open_now(&self) -> Result<(), LockError> {
        let pooled = self.target.pooler.then(|| "the URL has pooler=transaction".to_owned());
        let unfit = match pooled {
            Some(why) => Some(why),
            None => probe::unfit(&self.target).await?,
        };
        if let Some(why) = unfit {
            let why =
                format!("session locks do not work here ({why}); use lock=lease, or a direct connection");
            return Err(LockError::refused("session_lock", why));
        }
        schema::prepare(&self.target, self.connection.call().await?).await
    }

    async fn acquire_now(&self, request: &LockRequest) -> Result<Option<Grant>, LockError> {
        let call = self.connection.call().await?;
        let session = call.session().clone();
        if !self.reserve(request, &session) {
            return call.answer(Ok(None));
        }
        let (name, token, holder) =
            (request.name.as_str(), request.token.to_string(), request.holder.to_string());
        let (kind, key, ttl) = (request.kind.as_deref(), self.key(&request.name), micros(request.ttl));
        let params: [(&(dyn ToSql + Sync), Type); 6] = [
            (&name, Type::TEXT),
            (&token, Type::TEXT),
            (&holder, Type::TEXT),
            (&kind, Type::TEXT),
            (&key, Type::INT8),
            (&ttl, Type::INT8),
        ];
        let row = session.query_opt(&self.acquire, &params).await;
        // A statement that fails keeps the session lock that it acquired.
        if !matches!(&row, Ok(Some(row)) if !row.get::<_, bool>("locked") || row.get::<_, Option<i64>>("epoch").is_some())
        {
            unlock(&session, key).await.ok();
        }
        let row = call.answer(row).inspect_err(|_| self.forget(request))?;
        if let Some(epoch) = row.and_then(|row| row.get::<_, Option<i64>>("epoch")) {
            let loss_signal = LossSignal::new(session.ended.clone(), Duration::ZERO);
            return Ok(Some(Grant { epoch: Epoch::new(epoch), loss_signal }));
        }
        self.forget(request);
        Ok(None)
    }

    async fn release_now(&self, request: &LockRequest) -> Result<Released, LockError> {
        // The lock has ended with its connection.
        let Some(session) = self.session_of(request) else {
            self.forget(request);
            return Ok(Released::NotHeld);
        };
        // One call for both: if either gets no answer, the connection is closed, and the lock ends with it.
        let call = self.connection.call().await?;
        // Pipelined, in one round trip.
        let (released, unlocked) = tokio::join!(biased; self.sql.release(&session, request), unlock(&session, self.key(&request.name)));
        self.forget(request);
        call.answer(unlocked.and(released))
    }
}

async fn unlock(session: &Session, key: i64) -> Result<(), tokio_postgres::Error> {
    session.query_opt("select pg_advisory_unlock($1)", &[(&key, Type::INT8)]).await.map(drop)
}

impl Backend for PostgresSession {
    fn promises(&self) -> Promises {
        Promises {
            backend: "postgres-session",
            fence: FenceClass::Strict { scope: Arc::from(self.target.schema()) },
            crash_detected_within: Some(Duration::ZERO),
            frozen_holder_ends: false,
        }
    }

    fn open(&self) -> LockFuture<'_, ()> {
        Box::pin(self.open_now())
    }

    fn acquire<'a>(&'a self, request: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(self.acquire_now(request))
    }

    fn extend<'a>(&'a self, request: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async {
            let Some(session) = self.session_of(request) else { return Ok(Extended::No) };
            let call = self.connection.call().await?;
            let extended = self.sql.extend(&session, request, None).await;
            let loss_signal = LossSignal::new(session.ended.clone(), Duration::ZERO);
            Ok(if call.answer(extended)? { Extended::Yes(loss_signal) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, request: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(self.release_now(request))
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        Box::pin(async move {
            Ok(self.inspect(std::slice::from_ref(name)).await?.pop().flatten().map(|seen| seen.holding))
        })
    }

    fn inspect<'a>(&'a self, names: &'a [LockName]) -> LockFuture<'a, Vec<Option<Inspection>>> {
        Box::pin(async move {
            let call = self.connection.call().await?;
            let seen = self.sql.inspect(call.session(), &self.target, names).await;
            call.answer(seen)
        })
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        Box::pin(async move {
            // If we hold it, the server ends this very connection, and the answer does not come.
            let call = self.connection.call().await?;
            let done = self.sql.break_lock(call.session(), &self.target, name, seen).await;
            broken(call.answer(done)?)
        })
    }
}
