//! The registry in SQL Server, on a connection of its own. No real server has tried it; see [`crate::mssql`].

use tiberius::{Row as TdsRow, ToSql};
use tokio::sync::Mutex;

use super::record::{LeaseRecord, LockEvent, LockEventKind};
use super::table::{
    self, Contention, HoldEnd, LeaseFilter, LeaseUpdate, Row, StoredHold, Table, UpdateDecision,
    VanishedHold, verdict,
};
use crate::backend::LockFuture;
use crate::error::LockError;
use crate::mssql::connection::{Link, Wire};
use crate::mssql::number;
use crate::mssql::target::Place;
use crate::name::Epoch;

const TABLES: [&str; 3] = [
    include_str!("../../sql/mssql/registry_schema.sql"),
    include_str!("../../sql/mssql/registry_events.sql"),
    include_str!("../../sql/mssql/registry_view.sql"),
];
const KNOWN: &str = include_str!("../../sql/mssql/lease_current.sql");
const WRITE: &str = include_str!("../../sql/mssql/lease_write.sql");
const CONTEND: &str = include_str!("../../sql/mssql/lease_contend.sql");
const END: &str = include_str!("../../sql/mssql/lease_end.sql");
const LIST: &str = include_str!("../../sql/mssql/lease_list.sql");
const REMOVE: &str = include_str!("../../sql/mssql/lease_remove.sql");
const TIDY: &str = include_str!("../../sql/mssql/lease_clean.sql");
const EVENT: &str = include_str!("../../sql/mssql/event_write.sql");
const EVENT_TIDY: &str = include_str!("../../sql/mssql/event_clean.sql");
const EVENTS: &str = include_str!("../../sql/mssql/event_list.sql");

const THERE: &str = "select case when object_id('lock_lease') is null or object_id('lock_event') is null \
    or object_id('nagare_leases') is null then 0 else 1 end as made";

/// The tables in a database of a server.
#[derive(Debug)]
pub(super) struct MssqlTable {
    link: Link,
    /// One transaction at a time.
    turn: Mutex<()>,
}

impl MssqlTable {
    pub(super) fn new(url: &str) -> Result<MssqlTable, LockError> {
        Ok(MssqlTable { link: Link::new(Place::new(url)?), turn: Mutex::default() })
    }

    /// In a transaction. If it does not come to its end, the connection ends, and what was done is undone.
    async fn change<T>(&self, work: impl AsyncFnOnce(&Wire) -> Result<T, LockError>) -> Result<T, LockError> {
        let _turn = self.turn.lock().await;
        let wire = self.link.wire().await?;
        let unfinished = wire.ended.clone().drop_guard();
        wire.ask("begin transaction", &[]).await?;
        let done = work(&wire).await?;
        wire.ask("commit transaction", &[]).await?;
        unfinished.disarm();
        Ok(done)
    }

    async fn rows(&self, sql: &str, params: &[&dyn ToSql]) -> Result<Vec<TdsRow>, LockError> {
        let _turn = self.turn.lock().await;
        self.link.wire().await?.rows(sql, params).await
    }
}

/// An event that is about to be written.
struct Event<'a> {
    name: &'a str,
    store: &'a str,
    what: LockEventKind,
    ago: i64,
    holder: &'a str,
    epoch: i64,
    before: Option<&'a str>,
    by: Option<&'a str>,
    why: Option<&'a str>,
}

impl Event<'_> {
    async fn write(&self, wire: &Wire) -> Result<(), LockError> {
        let (name, store, what) = (self.name.as_bytes(), self.store.as_bytes(), self.what.as_str());
        let (ago, holder, epoch) = (self.ago, self.holder, self.epoch);
        let params: [&dyn ToSql; 9] =
            [&name, &store, &what, &ago, &holder, &epoch, &self.before, &self.by, &self.why];
        wire.ask(EVENT, &params).await.map(drop)
    }
}

async fn write(wire: &Wire, word: &LeaseUpdate) -> Result<(), LockError> {
    let (name, store) = (word.name.as_str(), &*word.store);
    let (name_bytes, store_bytes) = (name.as_bytes(), store.as_bytes());
    let row = wire.ask(KNOWN, &[&name_bytes, &store_bytes]).await?;
    let now = row.as_ref().map_or(Ok(0), |row| number(Some(row), "now_us"))?;
    let known = row.as_ref().map(known).transpose()?;
    let (changed, before) = match verdict(known.as_ref(), word, now) {
        UpdateDecision::Late => return Ok(()),
        UpdateDecision::Same => (false, None),
        UpdateDecision::Changed(before) => (true, before),
    };
    let (node, holder, epoch) = (table::node(&word.holder), word.holder.to_string(), word.epoch.get());
    let (machine, pid) = (word.holder.machine.as_str(), i64::from(word.holder.pid));
    let (incarnation, kind) = (word.holder.incarnation.to_string(), word.kind.as_deref());
    let params: [&dyn ToSql; 14] = [
        &name_bytes,
        &store_bytes,
        &node.as_str(),
        &machine,
        &pid,
        &incarnation.as_str(),
        &kind,
        &epoch,
        &word.since_ago,
        &word.acquired_ago,
        &word.ended_ago,
        &word.renew_ms,
        &word.taken,
        &i64::from(changed),
    ];
    wire.ask(WRITE, &params).await?;
    if changed {
        let (ago, before) = (word.acquired_ago, before.as_deref());
        let (holder, by, why) = (holder.as_str(), None, None);
        Event { name, store, what: LockEventKind::Taken, ago, holder, epoch, before, by, why }
            .write(wire)
            .await?;
    }
    Ok(())
}

impl Table for MssqlTable {
    fn prepare(&self) -> LockFuture<'_, ()> {
        Box::pin(async {
            // Whoever finds the tables there need not be allowed to make any.
            if self.tables_exist().await? {
                return Ok(());
            }
            let mut made = Ok(());
            for table in TABLES {
                // Another may have made it in between.
                made = self.rows(table, &[]).await.map(drop).and(made);
            }
            if self.tables_exist().await? { Ok(()) } else { made }
        })
    }

    fn tables_exist(&self) -> LockFuture<'_, bool> {
        Box::pin(async { Ok(number(self.rows(THERE, &[]).await?.first(), "made")? == 1) })
    }

    fn write<'a>(&'a self, words: &'a [LeaseUpdate]) -> LockFuture<'a, ()> {
        Box::pin(self.change(async move |wire| {
            for word in words {
                write(wire, word).await?;
            }
            Ok(())
        }))
    }

    fn contend<'a>(&'a self, contentions: &'a [Contention]) -> LockFuture<'a, ()> {
        Box::pin(self.change(async move |wire| {
            for one in contentions {
                let (name, store) = (one.name.as_str().as_bytes(), one.store.as_bytes());
                wire.ask(CONTEND, &[&name, &store, &one.busy]).await?;
            }
            Ok(())
        }))
    }

    fn end<'a>(&'a self, ending: &'a HoldEnd) -> LockFuture<'a, ()> {
        Box::pin(self.change(async move |wire| {
            let (name, store, epoch) = (ending.name.as_str(), &*ending.store, ending.epoch.get());
            let incarnation = ending.incarnation.as_deref();
            wire.ask(END, &[&name.as_bytes(), &store.as_bytes(), &epoch, &incarnation]).await?;
            let (by, why) = (ending.by_whom.as_deref(), ending.why.as_deref());
            let (holder, what) = (ending.holder.as_str(), ending.what);
            Event { name, store, what, ago: 0, holder, epoch, before: None, by, why }.write(wire).await
        }))
    }

    fn leases<'a>(&'a self, which: &'a LeaseFilter) -> LockFuture<'a, Vec<LeaseRecord>> {
        Box::pin(async move {
            let (after, after_store) = which.after.clone().unzip();
            let (name, most) = (which.name.as_deref().map(str::as_bytes), i64::from(which.most));
            let after = after.as_deref().map(str::as_bytes);
            let after_store = after_store.as_deref().map(str::as_bytes);
            let rows = self.rows(LIST, &[&name, &after, &after_store, &which.quiet, &most]).await?;
            rows.iter().map(lease).collect()
        })
    }

    fn remove<'a>(&'a self, gone: &'a VanishedHold) -> LockFuture<'a, bool> {
        Box::pin(self.change(async move |wire| {
            let (name, store, epoch) = (gone.name.as_str(), gone.store.as_str(), gone.epoch.get());
            let (name_bytes, store_bytes) = (name.as_bytes(), store.as_bytes());
            let incarnation = gone.incarnation.as_str();
            let params: [&dyn ToSql; 5] = [&name_bytes, &store_bytes, &incarnation, &epoch, &gone.quiet];
            let Some(row) = wire.ask(REMOVE, &params).await? else { return Ok(false) };
            let (why, holder, what) = (text(&row, "why")?, gone.holder.as_str(), LockEventKind::Vanished);
            let (before, by, why) = (None, None, why.as_deref());
            Event { name, store, what, ago: 0, holder, epoch, before, by, why }.write(wire).await?;
            Ok(true)
        }))
    }

    fn tidy(&self, idle_retention: i64, history_retention: i64, most: u32) -> LockFuture<'_, ()> {
        Box::pin(async move {
            for (sql, keep) in [(TIDY, idle_retention), (EVENT_TIDY, history_retention)] {
                self.rows(sql, &[&keep, &i64::from(most)]).await?;
            }
            Ok(())
        })
    }

    fn events<'a>(
        &'a self,
        name: Option<&'a str>,
        before: Option<i64>,
        most: u32,
    ) -> LockFuture<'a, Vec<LockEvent>> {
        Box::pin(async move {
            let name = name.map(str::as_bytes);
            let rows = self.rows(EVENTS, &[&name, &before, &i64::from(most)]).await?;
            rows.iter().map(event).collect()
        })
    }
}

fn text(row: &TdsRow, column: &str) -> Result<Option<String>, LockError> {
    Ok(row.try_get::<&str, _>(column).map_err(LockError::failed)?.map(str::to_owned))
}

/// Text that must be there.
fn word(row: &TdsRow, column: &str) -> Result<String, LockError> {
    text(row, column)?.ok_or_else(|| LockError::failed(format!("the server's answer has no {column}")))
}

/// Text that is kept as bytes.
fn name(row: &TdsRow, column: &str) -> Result<String, LockError> {
    let bytes = row.try_get::<&[u8], _>(column).map_err(LockError::failed)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn known(row: &TdsRow) -> Result<StoredHold, LockError> {
    Ok(StoredHold {
        incarnation: word(row, "incarnation")?,
        holder: word(row, "holder")?,
        epoch: number(Some(row), "epoch")?,
        renewed_at: number(Some(row), "renewed_us")?,
        released: number(Some(row), "released")? == 1,
    })
}

fn lease(row: &TdsRow) -> Result<LeaseRecord, LockError> {
    let int = |column| number(Some(row), column);
    let maybe = |column| row.try_get::<i64, _>(column).map_err(LockError::failed);
    Ok(LeaseRecord::from(Row {
        name: name(row, "lock_name")?,
        store: name(row, "store")?,
        node: word(row, "node")?,
        machine: word(row, "machine")?,
        pid: int("pid")?,
        incarnation: word(row, "incarnation")?,
        kind: text(row, "kind")?,
        epoch: int("epoch")?,
        renew_ms: int("renew_ms")?,
        holds: int("holds")?,
        contended: int("contended")?,
        since_us: int("since_us")?,
        acquired_us: int("acquired_us")?,
        renewed_us: int("renewed_us")?,
        released_us: maybe("released_us")?,
        contended_us: maybe("contended_us")?,
        now_us: int("now_us")?,
    }))
}

fn event(row: &TdsRow) -> Result<LockEvent, LockError> {
    Ok(LockEvent {
        id: number(Some(row), "id")?,
        name: name(row, "lock_name")?,
        store: name(row, "store")?,
        what: table::what(&word(row, "what")?)?,
        at: table::time(number(Some(row), "at_us")?),
        holder: word(row, "holder")?,
        epoch: Epoch::new(number(Some(row), "epoch")?),
        before: text(row, "before")?,
        by_whom: text(row, "by_whom")?,
        why: text(row, "why")?,
    })
}
