//! The registry in MySQL or MariaDB, on a connection of its own.

use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, IsolationLevel, Opts, Params, Transaction, TxOpts, Value, params};
use tokio::sync::Mutex;

use super::record::{LeaseRecord, LockEvent, LockEventKind};
use super::table::{
    self, Contention, HoldEnd, LeaseFilter, LeaseUpdate, Row, StoredHold, Table, UpdateDecision,
    VanishedHold, verdict,
};
use crate::backend::LockFuture;
use crate::error::LockError;
use crate::mysql::{classify, opts};
use crate::name::Epoch;

const TABLES: [&str; 3] = [
    include_str!("../../sql/mysql/registry_schema.sql"),
    include_str!("../../sql/mysql/registry_events.sql"),
    include_str!("../../sql/mysql/registry_view.sql"),
];
const KNOWN: &str = include_str!("../../sql/mysql/lease_current.sql");
const WRITE: &str = include_str!("../../sql/mysql/lease_write.sql");
const CONTEND: &str = include_str!("../../sql/mysql/lease_contend.sql");
const END: &str = include_str!("../../sql/mysql/lease_end.sql");
const LIST: &str = include_str!("../../sql/mysql/lease_list.sql");
const GONE: &str = include_str!("../../sql/mysql/lease_vanished.sql");
const REMOVE: &str = include_str!("../../sql/mysql/lease_remove.sql");
const TIDY: &str = include_str!("../../sql/mysql/lease_clean.sql");
const EVENT: &str = include_str!("../../sql/mysql/event_write.sql");
const EVENT_TIDY: &str = include_str!("../../sql/mysql/event_clean.sql");
const EVENTS: &str = include_str!("../../sql/mysql/event_list.sql");

/// The tables in a database of a server.
#[derive(Debug)]
pub(super) struct MysqlTable {
    opts: Opts,
    /// None while it is used: one whose answer was not waited for is not used again.
    connection: Mutex<Option<Conn>>,
}

impl MysqlTable {
    pub(super) fn new(url: &str) -> Result<MysqlTable, LockError> {
        Ok(MysqlTable { opts: opts(url)?.0, connection: Mutex::default() })
    }

    async fn on<T>(
        &self,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, mysql_async::Error>,
    ) -> Result<T, LockError> {
        let mut slot = self.connection.lock().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => Conn::new(self.opts.clone()).await.map_err(classify)?,
        };
        let done = work(&mut connection).await.map_err(classify);
        // After an error it may be in any state.
        if done.is_ok() {
            *slot = Some(connection);
        }
        done
    }

    /// In a transaction; without gap locks, with which those who write different rows wait for each other.
    async fn change<T>(
        &self,
        work: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, mysql_async::Error>,
    ) -> Result<T, LockError> {
        self.on(async move |connection| {
            let mut options = TxOpts::default();
            options.with_isolation_level(IsolationLevel::ReadCommitted);
            let mut transaction = connection.start_transaction(options).await?;
            let done = work(&mut transaction).await?;
            transaction.commit().await?;
            Ok(done)
        })
        .await
    }
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

fn bytes_or_null(text: Option<&str>) -> Value {
    text.map_or(Value::NULL, bytes)
}

/// All that are only renewed, in one statement. `false`: some row is not there, or is another's.
async fn renew(connection: &mut Conn, words: &[LeaseUpdate]) -> Result<bool, mysql_async::Error> {
    let each = vec!["(?, ?, ?, ?)"; words.len()].join(", ");
    let sql = format!(
        "update lock_lease set renewed_at = utc_timestamp(6) \
         where (lock_name, store, incarnation, epoch) in ({each}) and released_at is null"
    );
    let params: Vec<Value> = words
        .iter()
        .flat_map(|word| {
            let incarnation = bytes(&word.holder.incarnation.to_string());
            [bytes(word.name.as_str()), bytes(&word.store), incarnation, Value::Int(word.epoch.get())]
        })
        .collect();
    connection.exec_drop(sql, Params::Positional(params)).await?;
    Ok(connection.affected_rows() == u64::try_from(words.len()).unwrap_or(u64::MAX))
}

async fn write(transaction: &mut Transaction<'_>, word: &LeaseUpdate) -> Result<(), mysql_async::Error> {
    let (name, store) = (bytes(word.name.as_str()), bytes(&word.store));
    let params = params! { "name" => name.clone(), "store" => store.clone() };
    type Columns = (String, i64, i64, bool, String, i64);
    let row: Option<Columns> = transaction.exec_first(KNOWN, params).await?;
    let now = row.as_ref().map_or(0, |row| row.5);
    let known = row.map(|(incarnation, epoch, renewed_at, released, holder, _)| StoredHold {
        incarnation,
        holder,
        epoch,
        renewed_at,
        released,
    });
    let (changed, before) = match verdict(known.as_ref(), word, now) {
        UpdateDecision::Late => return Ok(()),
        UpdateDecision::Same => (false, None),
        UpdateDecision::Changed(before) => (true, before),
    };
    let epoch = word.epoch.get();
    let write = params! {
        "name" => name.clone(), "store" => store.clone(), "node" => bytes(&table::node(&word.holder)),
        "machine" => bytes(&word.holder.machine), "pid" => word.holder.pid,
        "incarnation" => bytes(&word.holder.incarnation.to_string()), "kind" => bytes_or_null(word.kind.as_deref()),
        "epoch" => epoch, "since_ago" => word.since_ago, "acquired_ago" => word.acquired_ago, "ended_ago" => word.ended_ago,
        "renew_ms" => word.renew_ms, "taken" => word.taken, "changed" => changed,
    };
    transaction.exec_drop(WRITE, write).await?;
    if changed {
        let event = params! {
            "name" => name, "store" => store, "what" => LockEventKind::Taken.as_str(), "ago" => word.acquired_ago,
            "holder" => bytes(&word.holder.to_string()), "epoch" => epoch, "before" => bytes_or_null(before.as_deref()),
            "by" => Value::NULL, "why" => Value::NULL,
        };
        transaction.exec_drop(EVENT, event).await?;
    }
    Ok(())
}

impl Table for MysqlTable {
    fn prepare(&self) -> LockFuture<'_, ()> {
        Box::pin(async {
            // Whoever finds the tables there need not be allowed to make any.
            if self.tables_exist().await? {
                return Ok(());
            }
            self.on(async move |connection| {
                for table in TABLES {
                    connection.query_drop(table).await?;
                }
                Ok(())
            })
            .await
        })
    }

    fn tables_exist(&self) -> LockFuture<'_, bool> {
        Box::pin(self.on(async move |connection| {
            let ask = "select count(*) from information_schema.tables where table_schema = database() \
                and table_name in ('lock_lease', 'lock_event', 'nagare_leases')";
            let there: Option<i64> = connection.query_first(ask).await?;
            Ok(there == Some(3))
        }))
    }

    fn write<'a>(&'a self, words: &'a [LeaseUpdate]) -> LockFuture<'a, ()> {
        Box::pin(async move {
            let only_renews = words.iter().all(|word| word.taken == 0 && word.ended_ago.is_none());
            if only_renews && self.on(async move |connection| renew(connection, words).await).await? {
                return Ok(());
            }
            self.change(async move |transaction| {
                for word in words {
                    write(transaction, word).await?;
                }
                Ok(())
            })
            .await
        })
    }

    fn contend<'a>(&'a self, contentions: &'a [Contention]) -> LockFuture<'a, ()> {
        Box::pin(self.change(async move |transaction| {
            for one in contentions {
                let params = params! { "name" => bytes(one.name.as_str()), "store" => bytes(&one.store), "busy" => one.busy };
                transaction.exec_drop(CONTEND, params).await?;
            }
            Ok(())
        }))
    }

    fn end<'a>(&'a self, ending: &'a HoldEnd) -> LockFuture<'a, ()> {
        Box::pin(self.change(async move |transaction| {
            let (name, store) = (bytes(ending.name.as_str()), bytes(&ending.store));
            let incarnation = bytes_or_null(ending.incarnation.as_deref());
            let epoch = ending.epoch.get();
            let end = params! { "name" => name.clone(), "store" => store.clone(), "epoch" => epoch, "incarnation" => incarnation };
            transaction.exec_drop(END, end).await?;
            let event = params! {
                "name" => name, "store" => store, "what" => ending.what.as_str(), "ago" => 0, "holder" => bytes(&ending.holder),
                "epoch" => epoch, "before" => Value::NULL, "by" => bytes_or_null(ending.by_whom.as_deref()),
                "why" => bytes_or_null(ending.why.as_deref()),
            };
            transaction.exec_drop(EVENT, event).await
        }))
    }

    fn leases<'a>(&'a self, which: &'a LeaseFilter) -> LockFuture<'a, Vec<LeaseRecord>> {
        Box::pin(self.on(async move |connection| {
            let (after, after_store) = which.after.clone().unzip();
            let params = params! {
                "name" => bytes_or_null(which.name.as_deref()), "after" => bytes_or_null(after.as_deref()),
                "after_store" => bytes_or_null(after_store.as_deref()), "quiet" => which.quiet, "most" => which.most,
            };
            let rows: Vec<mysql_async::Row> = connection.exec(LIST, params).await?;
            rows.iter().map(lease).collect()
        }))
    }

    fn remove<'a>(&'a self, gone: &'a VanishedHold) -> LockFuture<'a, bool> {
        Box::pin(self.change(async move |transaction| {
            let (name, store, epoch) = (bytes(&gone.name), bytes(&gone.store), gone.epoch.get());
            let still = params! {
                "name" => name.clone(), "store" => store.clone(), "incarnation" => bytes(&gone.incarnation), "epoch" => epoch,
                "quiet" => gone.quiet,
            };
            let why: Option<Vec<u8>> = transaction.exec_first(GONE, still).await?;
            let Some(why) = why else { return Ok(false) };
            transaction.exec_drop(REMOVE, params! { "name" => name.clone(), "store" => store.clone() }).await?;
            let event = params! {
                "name" => name, "store" => store, "what" => LockEventKind::Vanished.as_str(), "ago" => 0, "holder" => bytes(&gone.holder),
                "epoch" => epoch, "before" => Value::NULL, "by" => Value::NULL, "why" => Value::Bytes(why),
            };
            transaction.exec_drop(EVENT, event).await?;
            Ok(true)
        }))
    }

    fn tidy(&self, idle_retention: i64, history_retention: i64, most: u32) -> LockFuture<'_, ()> {
        Box::pin(self.on(async move |connection| {
            for (sql, keep) in [(TIDY, idle_retention), (EVENT_TIDY, history_retention)] {
                connection.exec_drop(sql, params! { "keep" => keep, "most" => most }).await?;
            }
            Ok(())
        }))
    }

    fn events<'a>(
        &'a self,
        name: Option<&'a str>,
        before: Option<i64>,
        most: u32,
    ) -> LockFuture<'a, Vec<LockEvent>> {
        Box::pin(async move {
            let rows: Vec<mysql_async::Row> = self
                .on(async move |connection| {
                    let params =
                        params! { "name" => bytes_or_null(name), "before" => before, "most" => most };
                    connection.exec(EVENTS, params).await
                })
                .await?;
            rows.iter().map(event).collect()
        })
    }
}

fn get<T: FromValue>(row: &mysql_async::Row, column: &str) -> Result<T, mysql_async::Error> {
    let strange = || mysql_async::Error::Other(format!("the column {column} is not what it was").into());
    row.get_opt(column).ok_or_else(strange)?.map_err(|_| strange())
}

fn lease(row: &mysql_async::Row) -> Result<LeaseRecord, mysql_async::Error> {
    Ok(LeaseRecord::from(Row {
        name: get(row, "lock_name")?,
        store: get(row, "store")?,
        node: get(row, "node")?,
        machine: get(row, "machine")?,
        pid: get(row, "pid")?,
        incarnation: get(row, "incarnation")?,
        kind: get(row, "kind")?,
        epoch: get(row, "epoch")?,
        renew_ms: get(row, "renew_ms")?,
        holds: get(row, "holds")?,
        contended: get(row, "contended")?,
        since_us: get(row, "since_us")?,
        acquired_us: get(row, "acquired_us")?,
        renewed_us: get(row, "renewed_us")?,
        released_us: get(row, "released_us")?,
        contended_us: get(row, "contended_us")?,
        now_us: get(row, "now_us")?,
    }))
}

fn event(row: &mysql_async::Row) -> Result<LockEvent, LockError> {
    let read = || -> Result<_, mysql_async::Error> {
        let event = LockEvent {
            id: get(row, "id")?,
            name: get(row, "lock_name")?,
            store: get(row, "store")?,
            what: LockEventKind::Taken,
            at: table::time(get(row, "at_us")?),
            holder: get(row, "holder")?,
            epoch: Epoch::new(get(row, "epoch")?),
            before: get(row, "before")?,
            by_whom: get(row, "by_whom")?,
            why: get(row, "why")?,
        };
        Ok((get::<String>(row, "what")?, event))
    };
    let (word, event) = read().map_err(classify)?;
    Ok(LockEvent { what: table::what(&word)?, ..event })
}
