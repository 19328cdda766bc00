//! The registry in a SQLite file, on a connection of its own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, named_params};

use super::record::{LeaseRecord, LockEvent, LockEventKind};
use super::table::{
    self, Contention, HoldEnd, LeaseFilter, LeaseUpdate, Row, StoredHold, Table, UpdateDecision,
    VanishedHold, verdict,
};
use crate::backend::LockFuture;
use crate::error::LockError;
use crate::name::Epoch;
use crate::sqlite::{classify, connect_plain, now};

const SCHEMA: &str = include_str!("../../sql/sqlite/registry_schema.sql");
const KNOWN: &str = include_str!("../../sql/sqlite/lease_current.sql");
const WRITE: &str = include_str!("../../sql/sqlite/lease_write.sql");
const CONTEND: &str = include_str!("../../sql/sqlite/lease_contend.sql");
const END: &str = include_str!("../../sql/sqlite/lease_end.sql");
const LIST: &str = include_str!("../../sql/sqlite/lease_list.sql");
const REMOVE: &str = include_str!("../../sql/sqlite/lease_remove.sql");
const TIDY: &str = include_str!("../../sql/sqlite/lease_clean.sql");
const EVENT: &str = include_str!("../../sql/sqlite/event_write.sql");
const EVENT_TIDY: &str = include_str!("../../sql/sqlite/event_clean.sql");
const EVENTS: &str = include_str!("../../sql/sqlite/event_list.sql");

const THERE: &str =
    "select count(*) = 3 from sqlite_master where name in ('lock_lease', 'lock_event', 'nagare_leases')";

/// The tables in a file.
#[derive(Debug)]
pub(super) struct SqliteTable {
    path: Arc<PathBuf>,
    connection: Arc<OnceLock<Mutex<Connection>>>,
}

/// An event that is about to be written.
struct Event<'a> {
    name: &'a str,
    store: &'a str,
    what: LockEventKind,
    at: i64,
    holder: &'a str,
    epoch: i64,
    before: Option<&'a str>,
    by: Option<&'a str>,
    why: Option<&'a str>,
}

impl Event<'_> {
    fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let params = named_params! {
            ":name": self.name, ":store": self.store, ":what": self.what.as_str(), ":at": self.at, ":holder": self.holder,
            ":epoch": self.epoch, ":before": self.before, ":by": self.by, ":why": self.why,
        };
        transaction.prepare_cached(EVENT)?.execute(params).map(drop)
    }
}

impl SqliteTable {
    pub(super) fn new(path: impl AsRef<Path>) -> SqliteTable {
        SqliteTable { path: Arc::new(path.as_ref().to_owned()), connection: Arc::default() }
    }

    /// Runs on a thread that may block.
    fn on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, LockError> + Send + 'static,
    ) -> LockFuture<'static, T> {
        let (path, cell) = (self.path.clone(), self.connection.clone());
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || {
                let connection = match cell.get() {
                    Some(connection) => connection,
                    None => {
                        let opened = connect_plain(&path).map_err(classify)?;
                        // What is written here may be lost with the machine.
                        opened.pragma_update(None, "synchronous", "normal").map_err(classify)?;
                        cell.get_or_init(|| Mutex::new(opened))
                    }
                };
                // A panic inside leaves a transaction that is rolled back.
                work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
            });
            done.await.map_err(LockError::failed)?
        })
    }

    /// Looking must not make the file: one that is not there has nothing in it.
    fn read<T: Default + Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, LockError> + Send + 'static,
    ) -> LockFuture<'static, T> {
        let there = self.path.exists();
        let read = self.on(work);
        Box::pin(async move { if there { read.await } else { Ok(T::default()) } })
    }

    /// In a transaction that never has to be upgraded.
    fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, i64) -> rusqlite::Result<T> + Send + 'static,
    ) -> LockFuture<'static, T> {
        self.on(move |connection| {
            let changed = connection.transaction_with_behavior(TransactionBehavior::Immediate);
            let changed = changed.and_then(|transaction| {
                let done = work(&transaction, now())?;
                transaction.commit()?;
                Ok(done)
            });
            changed.map_err(classify)
        })
    }
}

fn write(transaction: &Transaction<'_>, word: &LeaseUpdate, now: i64) -> rusqlite::Result<()> {
    let (name, store) = (word.name.as_str(), &*word.store);
    let known = |row: &rusqlite::Row<'_>| {
        Ok(StoredHold {
            incarnation: row.get("incarnation")?,
            holder: row.get("holder")?,
            epoch: row.get("epoch")?,
            renewed_at: row.get("renewed_at")?,
            released: row.get("released")?,
        })
    };
    let params = named_params! { ":name": name, ":store": store };
    let known = transaction.prepare_cached(KNOWN)?.query_row(params, known).optional()?;
    let (changed, before) = match verdict(known.as_ref(), word, now) {
        UpdateDecision::Late => return Ok(()),
        UpdateDecision::Same => (false, None),
        UpdateDecision::Changed(before) => (true, before),
    };
    let (holder, incarnation) = (word.holder.to_string(), word.holder.incarnation.to_string());
    let (acquired_at, epoch) = (now - word.acquired_ago, word.epoch.get());
    let params = named_params! {
        ":name": name, ":store": store, ":node": table::node(&word.holder), ":machine": word.holder.machine, ":pid": word.holder.pid,
        ":incarnation": incarnation, ":kind": word.kind.as_deref(), ":epoch": epoch, ":since_at": now - word.since_ago,
        ":acquired_at": acquired_at, ":renewed_at": now - word.ended_ago.unwrap_or(0),
        ":released_at": word.ended_ago.map(|ago| now - ago), ":renew_ms": word.renew_ms, ":taken": word.taken, ":changed": changed,
    };
    transaction.prepare_cached(WRITE)?.execute(params)?;
    if changed {
        let (before, by, why) = (before.as_deref(), None, None);
        let holder = holder.as_str();
        Event { name, store, what: LockEventKind::Taken, at: acquired_at, holder, epoch, before, by, why }
            .write(transaction)?;
    }
    Ok(())
}

impl Table for SqliteTable {
    fn prepare(&self) -> LockFuture<'_, ()> {
        self.on(|connection| {
            // Whoever finds the tables there need not wait for other writers.
            if connection.query_row(THERE, [], |row| row.get(0)).map_err(classify)? {
                return Ok(());
            }
            let made = connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(
                |transaction| transaction.execute_batch(SCHEMA).and_then(|()| transaction.commit()),
            );
            made.map_err(classify)
        })
    }

    fn tables_exist(&self) -> LockFuture<'_, bool> {
        self.read(|connection| connection.query_row(THERE, [], |row| row.get(0)).map_err(classify))
    }

    fn write<'a>(&'a self, words: &'a [LeaseUpdate]) -> LockFuture<'a, ()> {
        let words = words.to_vec();
        self.change(move |transaction, now| words.iter().try_for_each(|word| write(transaction, word, now)))
    }

    fn contend<'a>(&'a self, contentions: &'a [Contention]) -> LockFuture<'a, ()> {
        let contentions = contentions.to_vec();
        self.change(move |transaction, now| {
            for one in &contentions {
                let params = named_params! { ":name": one.name.as_str(), ":store": &*one.store, ":busy": one.busy, ":now": now };
                transaction.prepare_cached(CONTEND)?.execute(params)?;
            }
            Ok(())
        })
    }

    fn end<'a>(&'a self, ending: &'a HoldEnd) -> LockFuture<'a, ()> {
        let ending = ending.clone();
        self.change(move |transaction, now| {
            let (name, store, epoch) = (ending.name.as_str(), &*ending.store, ending.epoch.get());
            let params = named_params! { ":name": name, ":store": store, ":epoch": epoch, ":incarnation": ending.incarnation, ":now": now };
            transaction.prepare_cached(END)?.execute(params)?;
            let (by, why) = (ending.by_whom.as_deref(), ending.why.as_deref());
            let (holder, what) = (ending.holder.as_str(), ending.what);
            Event { name, store, what, at: now, holder, epoch, before: None, by, why }.write(transaction)
        })
    }

    fn leases<'a>(&'a self, which: &'a LeaseFilter) -> LockFuture<'a, Vec<LeaseRecord>> {
        let which = which.clone();
        self.read(move |connection| {
            let (after, after_store) = which.after.unzip();
            let params = named_params! {
                ":name": which.name, ":after": after, ":after_store": after_store, ":quiet": which.quiet, ":most": which.most, ":now": now(),
            };
            let mut list = connection.prepare_cached(LIST).map_err(classify)?;
            let rows = list.query_map(params, lease).map_err(classify)?;
            rows.collect::<rusqlite::Result<_>>().map_err(classify)
        })
    }

    fn remove<'a>(&'a self, gone: &'a VanishedHold) -> LockFuture<'a, bool> {
        let gone = gone.clone();
        self.change(move |transaction, now| {
            let (name, store, epoch) = (gone.name.as_str(), gone.store.as_str(), gone.epoch.get());
            let params = named_params! {
                ":name": name, ":store": store, ":incarnation": gone.incarnation, ":epoch": epoch, ":quiet": gone.quiet, ":now": now,
            };
            let why: Option<String> =
                transaction.prepare_cached(REMOVE)?.query_row(params, |row| row.get(0)).optional()?;
            let Some(why) = why else { return Ok(false) };
            let (holder, what, why) = (gone.holder.as_str(), LockEventKind::Vanished, Some(why.as_str()));
            Event { name, store, what, at: now, holder, epoch, before: None, by: None, why }.write(transaction)?;
            Ok(true)
        })
    }

    fn tidy(&self, idle_retention: i64, history_retention: i64, most: u32) -> LockFuture<'_, ()> {
        self.change(move |transaction, now| {
            for (sql, keep) in [(TIDY, idle_retention), (EVENT_TIDY, history_retention)] {
                let params = named_params! { ":now": now, ":keep": keep, ":most": most };
                transaction.prepare_cached(sql)?.execute(params)?;
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
        let name = name.map(str::to_owned);
        self.read(move |connection| {
            let params = named_params! { ":name": name, ":before": before, ":most": most };
            let mut list = connection.prepare_cached(EVENTS).map_err(classify)?;
            let rows = list.query_map(params, event).map_err(classify)?;
            let rows: Vec<(String, LockEvent)> = rows.collect::<rusqlite::Result<_>>().map_err(classify)?;
            rows.into_iter()
                .map(|(word, event)| Ok(LockEvent { what: table::what(&word)?, ..event }))
                .collect()
        })
    }
}

fn lease(row: &rusqlite::Row<'_>) -> rusqlite::Result<LeaseRecord> {
    Ok(LeaseRecord::from(Row {
        name: row.get("lock_name")?,
        store: row.get("store")?,
        node: row.get("node")?,
        machine: row.get("machine")?,
        pid: row.get("pid")?,
        incarnation: row.get("incarnation")?,
        kind: row.get("kind")?,
        epoch: row.get("epoch")?,
        renew_ms: row.get("renew_ms")?,
        holds: row.get("holds")?,
        contended: row.get("contended")?,
        since_us: row.get("since_us")?,
        acquired_us: row.get("acquired_us")?,
        renewed_us: row.get("renewed_us")?,
        released_us: row.get("released_us")?,
        contended_us: row.get("contended_us")?,
        now_us: row.get("now_us")?,
    }))
}

fn event(row: &rusqlite::Row<'_>) -> rusqlite::Result<(String, LockEvent)> {
    let event = LockEvent {
        id: row.get("id")?,
        name: row.get("lock_name")?,
        store: row.get("store")?,
        what: LockEventKind::Taken,
        at: table::time(row.get("at_us")?),
        holder: row.get("holder")?,
        epoch: Epoch::new(row.get("epoch")?),
        before: row.get("before")?,
        by_whom: row.get("by_whom")?,
        why: row.get("why")?,
    };
    Ok((row.get("what")?, event))
}
