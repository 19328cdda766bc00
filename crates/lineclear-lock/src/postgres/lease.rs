//! A lock as a row with an end, by the database's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::types::Type;

use super::connection::{Link, Purpose, Wire};
use super::target::PostgresTarget;
use super::{probe, schema};
use crate::backend::{
    Backend, Extended, FenceClass, Grant, Holding, Inspection, LockFuture, LockRequest, LossSignal, Promises,
    Released,
};
use crate::error::LockError;
use crate::name::{Epoch, LockName};
use crate::options::LockOptions;

/// How long a holder whose beacon is gone is waited for: its connection may have ended while it lives.
const GRACE: Duration = Duration::from_millis(400);
/// How long the holder itself takes that to be.
const ANSWER: Duration = Duration::from_millis(300);

pub(super) struct Statements {
    take: String,
    extend: String,
    release: String,
    inspect: String,
    end: String,
}

/// Locks as rows. Any pooler may be in between; with a direct connection, a holder that died is noticed at once.
pub struct PostgresLease {
    place: PostgresTarget,
    sql: Statements,
    /// For asking: it may wait behind others.
    asks: Link,
    /// For what is held: it never waits behind those who ask, and carries the beacon.
    keeps: Link,
    /// Whether there are beacons: then connections are known to be direct.
    beacon: Arc<AtomicBool>,
}

impl std::fmt::Debug for PostgresLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "leases in {:?}", self.place)
    }
}

pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

impl Statements {
    pub(super) fn of(place: &PostgresTarget) -> Statements {
        Statements {
            take: place.sql(include_str!("../../sql/postgres/lock_acquire.sql")),
            extend: place.sql(include_str!("../../sql/postgres/lock_extend.sql")),
            release: place.sql(include_str!("../../sql/postgres/lock_release.sql")),
            inspect: place.sql(include_str!("../../sql/postgres/lock_inspect.sql")),
            end: place.sql(include_str!("../../sql/postgres/lock_break.sql")),
        }
    }

    pub(super) async fn extend(
        &self,
        wire: &Wire,
        ask: &LockRequest,
        beacon: Option<i64>,
    ) -> Result<bool, tokio_postgres::Error> {
        let (name, token, ttl) = (ask.name.as_str(), ask.token.to_string(), micros(ask.ttl));
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] =
            [(&name, Type::TEXT), (&token, Type::TEXT), (&ttl, Type::INT8), (&beacon, Type::INT8)];
        Ok(wire.ask(&self.extend, &params).await?.is_some())
    }

    pub(super) async fn release(
        &self,
        wire: &Wire,
        ask: &LockRequest,
    ) -> Result<Released, tokio_postgres::Error> {
        let (name, token) = (ask.name.as_str(), ask.token.to_string());
        let row = wire.ask(&self.release, &[(&name, Type::TEXT), (&token, Type::TEXT)]).await?;
        Ok(row.map_or(Released::NotHeld, |_| Released::Clean))
    }

    /// Whoever holds them, by a row or by a session.
    pub(super) async fn inspect(
        &self,
        wire: &Wire,
        place: &PostgresTarget,
        names: &[LockName],
    ) -> Result<Vec<Option<Inspection>>, tokio_postgres::Error> {
        let keys: Vec<i64> = names.iter().map(|name| name.key(place.schema())).collect();
        let names: Vec<&str> = names.iter().map(LockName::as_str).collect();
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&names, Type::TEXT_ARRAY), (&keys, Type::INT8_ARRAY)];
        let rows = wire.client.query_typed(&self.inspect, &params).await?;
        rows.iter().map(inspection).collect()
    }

    pub(super) async fn end(
        &self,
        wire: &Wire,
        place: &PostgresTarget,
        name: &LockName,
        seen: &Inspection,
    ) -> Result<(bool, bool), tokio_postgres::Error> {
        let (key, epoch, name) = (name.key(place.schema()), seen.holding.epoch.get(), name.as_str());
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&name, Type::TEXT), (&epoch, Type::INT8), (&key, Type::INT8)];
        let row = wire.client.query_typed_one(&self.end, &params).await?;
        Ok((row.get("ended"), row.get("fenced")))
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
        // Whoever has the session lock of that name is only trying.
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
        // It does not end by itself: a renewal that is overdue says only that its holder is frozen.
        holding.ends_in = holding.ends_in.or(Some(Duration::MAX));
    } else {
        holding.ends_in = None;
    }
    Ok(Some(Inspection { holding, token, connection, alive: Some(connection.is_some()) }))
}

/// What became of an end that a fenced transaction may have been in the way of.
pub(super) fn ended((ended, fenced): (bool, bool)) -> Result<bool, LockError> {
    if fenced {
        return Err(LockError::unavailable("a fenced transaction of its holder is open; try again"));
    }
    Ok(ended)
}

impl PostgresLease {
    /// Locks in this place; `options` say how long they last.
    pub fn new(place: PostgresTarget, options: &LockOptions) -> PostgresLease {
        let beacon = place.beacon && !place.pooler;
        let purpose = if beacon { Purpose::Rights(options.ttl) } else { Purpose::Statements };
        let beacon = Arc::new(AtomicBool::new(beacon));
        PostgresLease {
            sql: Statements::of(&place),
            asks: Link::new(&place, Purpose::Statements, beacon.clone()),
            keeps: Link::new(&place, purpose, beacon.clone()),
            beacon,
            place,
        }
    }

    fn has_beacon(&self) -> bool {
        self.beacon.load(Ordering::SeqCst)
    }

    /// The beacon of the connection that keeps our locks, and the loss_signal that it ends.
    fn beacon(&self, wire: &Wire) -> (Option<i64>, LossSignal) {
        if self.has_beacon() {
            (Some(wire.beacon), LossSignal::new(wire.ended.clone(), ANSWER))
        } else {
            (None, LossSignal::never())
        }
    }

    async fn open_now(&self) -> Result<(), LockError> {
        schema::prepare(&self.place, self.asks.call().await?).await?;
        if self.has_beacon()
            && let Some(why) = probe::unfit(&self.place).await?
        {
            // Rows are enough; only the quick notice of a crash needs more.
            tracing::warn!(why, "a holder that dies is noticed only when its lock ends");
            self.beacon.store(false, Ordering::SeqCst);
        }
        Ok(())
    }

    async fn acquire_now(&self, ask: &LockRequest) -> Result<Option<Grant>, LockError> {
        // The beacon must shine before anybody can look for it.
        let keeps = self.keeps.call().await?;
        let (beacon, loss_signal) = self.beacon(keeps.wire());
        keeps.answer(Ok(()))?;
        let call = self.asks.call().await?;
        let (name, token, holder) = (ask.name.as_str(), ask.token.to_string(), ask.holder.to_string());
        let (kind, ttl, grace) = (ask.kind.as_deref(), micros(ask.ttl), micros(GRACE));
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 7] = [
            (&name, Type::TEXT),
            (&token, Type::TEXT),
            (&holder, Type::TEXT),
            (&kind, Type::TEXT),
            (&ttl, Type::INT8),
            (&beacon, Type::INT8),
            (&grace, Type::INT8),
        ];
        let row = call.wire().ask(&self.sql.take, &params).await;
        let row = call.answer(row)?;
        Ok(row.map(|row| Grant { epoch: Epoch::new(row.get(0)), loss_signal }))
    }
}

impl Backend for PostgresLease {
    fn promises(&self) -> Promises {
        Promises {
            backend: "postgres-lease",
            fence: FenceClass::Strict { scope: Arc::from(self.place.schema()) },
            crash_detected_within: self.has_beacon().then_some(GRACE),
            frozen_holder_ends: true,
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
            let call = self.keeps.call().await?;
            let (beacon, loss_signal) = self.beacon(call.wire());
            let extended = self.sql.extend(call.wire(), ask, beacon).await;
            Ok(if call.answer(extended)? { Extended::Yes(loss_signal) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, ask: &'a LockRequest, epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(async move {
            // A take whose answer never came may still be on its way: only behind it can it be undone.
            let link = if epoch.is_some() { &self.keeps } else { &self.asks };
            let call = link.call().await?;
            let released = self.sql.release(call.wire(), ask).await;
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
            let call = self.asks.call().await?;
            let seen = self.sql.inspect(call.wire(), &self.place, names).await;
            call.answer(seen)
        })
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        Box::pin(async move {
            let call = self.asks.call().await?;
            let done = self.sql.end(call.wire(), &self.place, name, seen).await;
            ended(call.answer(done)?)
        })
    }
}
