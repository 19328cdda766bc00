//! A lock as a row that expires, by the database's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::types::Type;

use super::connection::{Connection, Purpose, Session};
use super::target::PostgresTarget;
use super::{probe, schema};
use crate::backend::{
    Backend, Extended, FenceClass, Grant, Holding, Inspection, LockFuture, LockRequest, LossSignal, Promises,
    Released,
};
use crate::error::LockError;
use crate::name::{Epoch, LockName};
use crate::options::LockOptions;

/// How long others wait for a holder whose beacon has ended: its connection may have ended while the process lives.
const GRACE: Duration = Duration::from_millis(400);
/// How long the holder has to renew over a new connection: less than [`GRACE`].
const CONFIRM_WITHIN: Duration = Duration::from_millis(300);

pub(super) struct Statements {
    acquire: String,
    extend: String,
    release: String,
    inspect: String,
    break_lock: String,
}

/// Locks as rows. Any pooler may be in between. With a direct connection, the crash of a holder is noticed at once.
pub struct PostgresLease {
    target: PostgresTarget,
    sql: Statements,
    /// For requests: one may wait behind another.
    requests: Connection,
    /// For renewals and releases, which must not wait behind requests. It carries the beacon.
    renewals: Connection,
    /// Whether there are beacons. If so, connections are direct.
    beacon: Arc<AtomicBool>,
}

impl std::fmt::Debug for PostgresLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "leases in {:?}", self.target)
    }
}

pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

impl Statements {
    pub(super) fn of(target: &PostgresTarget) -> Statements {
        Statements {
            acquire: target.sql(include_str!("../../sql/postgres/lock_acquire.sql")),
            extend: target.sql(include_str!("../../sql/postgres/lock_extend.sql")),
            release: target.sql(include_str!("../../sql/postgres/lock_release.sql")),
            inspect: target.sql(include_str!("../../sql/postgres/lock_inspect.sql")),
            break_lock: target.sql(include_str!("../../sql/postgres/lock_break.sql")),
        }
    }

    pub(super) async fn extend(
        &self,
        session: &Session,
        request: &LockRequest,
        beacon: Option<i64>,
    ) -> Result<bool, tokio_postgres::Error> {
        let (name, token, ttl) = (request.name.as_str(), request.token.to_string(), micros(request.ttl));
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] =
            [(&name, Type::TEXT), (&token, Type::TEXT), (&ttl, Type::INT8), (&beacon, Type::INT8)];
        Ok(session.query_opt(&self.extend, &params).await?.is_some())
    }

    pub(super) async fn release(
        &self,
        session: &Session,
        request: &LockRequest,
    ) -> Result<Released, tokio_postgres::Error> {
        let (name, token) = (request.name.as_str(), request.token.to_string());
        let row = session.query_opt(&self.release, &[(&name, Type::TEXT), (&token, Type::TEXT)]).await?;
        Ok(row.map_or(Released::NotHeld, |_| Released::Clean))
    }

    /// Inspects locks that are held by a row or by a session.
    pub(super) async fn inspect(
        &self,
        session: &Session,
        target: &PostgresTarget,
        names: &[LockName],
    ) -> Result<Vec<Option<Inspection>>, tokio_postgres::Error> {
        let keys: Vec<i64> = names.iter().map(|name| name.key(target.schema())).collect();
        let names: Vec<&str> = names.iter().map(LockName::as_str).collect();
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&names, Type::TEXT_ARRAY), (&keys, Type::INT8_ARRAY)];
        let rows = session.client.query_typed(&self.inspect, &params).await?;
        rows.iter().map(inspection).collect()
    }

    pub(super) async fn break_lock(
        &self,
        session: &Session,
        target: &PostgresTarget,
        name: &LockName,
        seen: &Inspection,
    ) -> Result<(bool, bool), tokio_postgres::Error> {
        let (key, epoch, name) = (name.key(target.schema()), seen.holding.epoch.get(), name.as_str());
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&name, Type::TEXT), (&epoch, Type::INT8), (&key, Type::INT8)];
        let row = session.client.query_typed_one(&self.break_lock, &params).await?;
        Ok((row.get("broken"), row.get("fenced")))
    }
}

fn inspection(row: &tokio_postgres::Row) -> Result<Option<Inspection>, tokio_postgres::Error> {
    let Some(epoch) = row.try_get::<_, Option<i64>>("epoch")? else { return Ok(None) };
    let left = u64::try_from(row.try_get::<_, i64>("micros_left")?).unwrap_or(0);
    let (by_session, unreleased): (bool, bool) = (row.try_get("by_session")?, row.try_get("held")?);
    let leased = unreleased && left > 0;
    let mut holding = Holding {
        epoch: Epoch::new(epoch),
        holder: row.try_get("holder")?,
        kind: row.try_get("kind")?,
        ends_in: leased.then(|| Duration::from_micros(left)),
    };
    let token = row.try_get("token")?;
    if !by_session {
        // A session lock of that name belongs to a process that is trying to acquire it.
        let has_beacon: bool = row.try_get("has_beacon")?;
        let connection: Option<i64> = row.try_get("beacon_session")?;
        let alive = has_beacon.then_some(connection.is_some());
        return Ok(Some(Inspection { holding, token, connection, alive }));
    }
    let connection: Option<i64> = row.try_get("session")?;
    if let Some(pid) = connection {
        if !unreleased || row.try_get("foreign_session")? {
            (holding.holder, holding.kind) = (format!("unknown, with session {pid}"), None);
        }
        // It does not end by itself: an overdue renewal only says that the holder is frozen.
        holding.ends_in = holding.ends_in.or(Some(Duration::MAX));
    } else {
        holding.ends_in = None;
    }
    Ok(Some(Inspection { holding, token, connection, alive: Some(connection.is_some()) }))
}

/// The result of breaking a lock, which a fenced transaction prevents.
pub(super) fn broken((broken, fenced): (bool, bool)) -> Result<bool, LockError> {
    if fenced {
        return Err(LockError::unavailable("the holder has an open fenced transaction; try again"));
    }
    Ok(broken)
}

impl PostgresLease {
    /// Locks in this schema; `options` say how long they last.
    pub fn new(target: PostgresTarget, options: &LockOptions) -> PostgresLease {
        let beacon = target.beacon && !target.pooler;
        let purpose = if beacon { Purpose::Locks(options.ttl) } else { Purpose::Statements };
        let beacon = Arc::new(AtomicBool::new(beacon));
        PostgresLease {
            sql: Statements::of(&target),
            requests: Connection::new(&target, Purpose::Statements, beacon.clone()),
            renewals: Connection::new(&target, purpose, beacon.clone()),
            beacon,
            target,
        }
    }

    fn has_beacon(&self) -> bool {
        self.beacon.load(Ordering::SeqCst)
    }

    /// The beacon of a connection, and the signal of its end.
    fn beacon(&self, session: &Session) -> (Option<i64>, LossSignal) {
        if self.has_beacon() {
            (Some(session.beacon), LossSignal::new(session.ended.clone(), CONFIRM_WITHIN))
        } else {
            (None, LossSignal::never())
        }
    }

    async fn open_now(&self) -> Result<(), LockError> {
        schema::prepare(&self.target, self.requests.call().await?).await?;
        if self.has_beacon()
            && let Some(why) = probe::unfit(&self.target).await?
        {
            // Without a beacon, a crash is noticed when the lease expires.
            tracing::warn!(why, "the crash of a holder is noticed only when its lease expires");
            self.beacon.store(false, Ordering::SeqCst);
        }
        Ok(())
    }

    async fn acquire_now(&self, request: &LockRequest) -> Result<Option<Grant>, LockError> {
        // The beacon must be held before another process can look for it.
        let renewals = self.renewals.call().await?;
        let (beacon, loss_signal) = self.beacon(renewals.session());
        renewals.answer(Ok(()))?;
        let call = self.requests.call().await?;
        let (name, token, holder) =
            (request.name.as_str(), request.token.to_string(), request.holder.to_string());
        let (kind, ttl, grace) = (request.kind.as_deref(), micros(request.ttl), micros(GRACE));
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 7] = [
            (&name, Type::TEXT),
            (&token, Type::TEXT),
            (&holder, Type::TEXT),
            (&kind, Type::TEXT),
            (&ttl, Type::INT8),
            (&beacon, Type::INT8),
            (&grace, Type::INT8),
        ];
        let row = call.session().query_opt(&self.sql.acquire, &params).await;
        let row = call.answer(row)?;
        Ok(row.map(|row| Grant { epoch: Epoch::new(row.get(0)), loss_signal }))
    }
}

impl Backend for PostgresLease {
    fn promises(&self) -> Promises {
        Promises {
            backend: "postgres-lease",
            fence: FenceClass::Strict { scope: Arc::from(self.target.schema()) },
            crash_detected_within: self.has_beacon().then_some(GRACE),
            frozen_holder_ends: true,
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
            let call = self.renewals.call().await?;
            let (beacon, loss_signal) = self.beacon(call.session());
            let extended = self.sql.extend(call.session(), request, beacon).await;
            Ok(if call.answer(extended)? { Extended::Yes(loss_signal) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, request: &'a LockRequest, epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(async move {
            // A request whose answer was lost may still be running: its release must queue behind it.
            let connection = if epoch.is_some() { &self.renewals } else { &self.requests };
            let call = connection.call().await?;
            let released = self.sql.release(call.session(), request).await;
            call.answer(released)
        })
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        Box::pin(async move {
            Ok(self.inspect(std::slice::from_ref(name)).await?.pop().flatten().map(|seen| seen.holding))
        })
    }

    fn inspect<'a>(&'a self, names: &'a [LockName]) -> LockFuture<'a, Vec<Option<Inspection>>> {
        Box::pin(async move {
            let call = self.requests.call().await?;
            let seen = self.sql.inspect(call.session(), &self.target, names).await;
            call.answer(seen)
        })
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        Box::pin(async move {
            let call = self.requests.call().await?;
            let done = self.sql.break_lock(call.session(), &self.target, name, seen).await;
            broken(call.answer(done)?)
        })
    }
}
