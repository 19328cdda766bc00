//! An outbox in a SQLite file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use lineclear_lock::sqlite::fence;
use lineclear_lock::{Epoch, Fence};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use uuid::Uuid;

use crate::delivery::{Delivery, read_headers, read_id};
use crate::error::OutboxError;
use crate::events::Mark;
use crate::inspect::{Counts, MessageState, MessageView};
use crate::message::{Message, micros};
use crate::outbox::{Outbox, checked};
use crate::store::{BatchRequest, CLEAN_MAX, Fetched, Kept, PROMOTE_MAX, Settlement, Store, StoreFuture};

/// How long a statement waits for other writers of the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The tables in a file.
#[derive(Clone, Debug)]
pub(crate) struct SqliteStore {
    pub(crate) path: Arc<PathBuf>,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl SqliteStore {
    pub(crate) fn new(path: impl AsRef<Path>) -> SqliteStore {
        SqliteStore { path: Arc::new(path.as_ref().to_owned()), connection: Arc::default() }
    }

    /// The file that a URL or a path names.
    pub(crate) fn of_url(url: &str) -> Result<SqliteStore, OutboxError> {
        let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
        if path.is_empty() || path == ":memory:" {
            let why = "a file is needed: a database in memory has one connection".to_owned();
            return Err(OutboxError::refused("url", why));
        }
        Ok(SqliteStore::new(path))
    }

    /// Runs `work` on a thread that may block.
    pub(crate) fn on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, OutboxError> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let (path, slot) = (self.path.clone(), self.connection.clone());
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || {
                // A panic leaves a transaction that is rolled back.
                let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                let connection = match &mut *slot {
                    Some(connection) => connection,
                    none => none.insert(connect(&path).map_err(classify)?),
                };
                work(connection)
            });
            done.await.map_err(OutboxError::failed)?
        })
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // With a write-ahead log, readers and writers do not block each other. A file that is in use keeps its mode.
    connection.pragma_update(None, "journal_mode", "wal").or_else(|error| {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => Ok(()),
            _ => Err(error),
        }
    })?;
    connection.pragma_update(None, "synchronous", "full")?;
    Ok(connection)
}

/// Unavailable: another try may succeed.
pub(crate) fn classify(error: rusqlite::Error) -> OutboxError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OutboxError::unavailable(error),
        _ => OutboxError::failed(error),
    }
}

/// Microseconds since 1970.
fn now() -> i64 {
    micros(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// A list of numbers, for `json_each`.
fn json(ids: &[i64]) -> String {
    format!("[{}]", ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

const DEDUP: &str = "insert into lineclear_outbox_dedup (outbox, dedup_key, created_at) values (?1, ?2, ?3) on conflict do nothing";
const WRITE: &str = "insert into lineclear_outbox_message \
     (outbox, topic, key, payload, headers, trace, delivery_id, created_at, ready, due_at, expires_at) \
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

impl Outbox {
    /// Writes messages in a transaction of the caller. If that is rolled back, there are no messages. Returns their ids; `None` for a message
    /// whose dedup key is known.
    pub fn write_sqlite(
        &self,
        transaction: &Transaction<'_>,
        messages: &[Message],
    ) -> Result<Vec<Option<i64>>, OutboxError> {
        checked(messages)?;
        let name = &*self.name;
        let mut dedup = transaction.prepare_cached(DEDUP).map_err(classify)?;
        let mut write = transaction.prepare_cached(WRITE).map_err(classify)?;
        let mut ids = Vec::with_capacity(messages.len());
        for message in messages {
            let now = now();
            if let Some(key) = &message.dedup_key
                && dedup.execute(params![name, key, now]).map_err(classify)? == 0
            {
                ids.push(None);
                continue;
            }
            let delay = message.delay.map_or(0, micros);
            let values = params![
                name,
                message.topic,
                message.key,
                message.payload,
                message.headers_json(),
                message.trace,
                Uuid::new_v4().to_string(),
                now,
                delay == 0,
                now.saturating_add(delay),
                message.lifetime.map(|life| now.saturating_add(micros(life))),
            ];
            ids.push(Some(write.insert(values).map_err(classify)?));
        }
        Ok(ids)
    }
}

const DELIVER: &str = "insert into lineclear_outbox_delivered \
     (id, outbox, topic, key, payload, headers, trace, delivery_id, created_at, attempts, delivered_at) \
     select id, outbox, topic, key, payload, headers, trace, delivery_id, created_at, attempts + 1, ?2 \
     from lineclear_outbox_message where id in (select value from json_each(?1)) on conflict (id) do nothing";
const FORGET: &str = "delete from lineclear_outbox_message where id in (select value from json_each(?1))";
const FAIL: &str = "update lineclear_outbox_message set ready = 0, aside = ?2 is null and ?5 is not null, due_at = ?4 + coalesce(?5, 0), attempts = coalesce(?2, attempts), \
     last_error = coalesce(?3, last_error), failed_at = iif(?3 is null, failed_at, ?4), dead_at = iif(?5 is null, ?4, null) where id = ?1";
const PROMOTE: &str = "update lineclear_outbox_message set ready = 1, aside = 0 where id in (select id from lineclear_outbox_message \
     where outbox = ?1 and ready = 0 and dead_at is null and due_at <= ?2 order by due_at, id limit ?3) returning id";
const WAITS: &str = "select exists (select 1 from lineclear_outbox_message where outbox = ?1 and ready = 1 and id >= ?3) \
     or exists (select 1 from lineclear_outbox_message where outbox = ?1 and ready = 0 and dead_at is null and due_at <= ?2)";
const FETCH: &str = "select m.id, m.topic, m.key, m.payload, m.headers, m.trace, m.delivery_id, m.attempts, m.created_at, \
     coalesce(m.expires_at <= ?2, 0) as expired, \
     (select r.due_at - ?2 from lineclear_outbox_message r where r.outbox = m.outbox and r.key = m.key and r.id < m.id \
      and (r.attempts > 0 or r.aside = 1) and r.ready = 0 and r.dead_at is null and r.key is not null order by r.id desc limit 1) as behind \
     from lineclear_outbox_message m \
     where m.outbox = ?1 and m.ready = 1 and m.id >= ?3 and m.id not in (select value from json_each(?4)) \
     order by m.id limit ?5";

fn settle(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
    keeps: bool,
    now: i64,
) -> rusqlite::Result<()> {
    if !settlement.delivered.is_empty() {
        let ids = json(&settlement.delivered);
        if keeps {
            transaction.prepare_cached(DELIVER)?.execute(params![ids, now])?;
        }
        transaction.prepare_cached(FORGET)?.execute(params![ids])?;
    }
    let mut fail = transaction.prepare_cached(FAIL)?;
    for failed in &settlement.failed {
        fail.execute(params![failed.id, failed.attempts, failed.error, now, failed.retry_in.map(micros)])?;
    }
    Ok(())
}

fn read(transaction: &Transaction<'_>, request: &BatchRequest, now: i64) -> rusqlite::Result<Vec<Fetched>> {
    let mut promote = transaction.prepare_cached(PROMOTE)?;
    let promoted =
        promote.query_map(params![request.outbox, now, PROMOTE_MAX], |row| row.get::<_, i64>(0))?;
    let promoted = promoted.collect::<rusqlite::Result<Vec<i64>>>()?.into_iter().min();
    let low = promoted.map_or(request.low, |first| first.min(request.low));
    let mut fetch = transaction.prepare_cached(FETCH)?;
    let rows =
        fetch.query_map(params![request.outbox, now, low, json(&request.held), request.limit], fetched)?;
    rows.collect()
}

fn fetched(row: &Row<'_>) -> rusqlite::Result<Fetched> {
    let attempts: u32 = row.get("attempts")?;
    let (headers, id): (Option<String>, String) = (row.get("headers")?, row.get("delivery_id")?);
    let behind: Option<i64> = row.get("behind")?;
    Ok(Fetched {
        delivery: Delivery {
            id: row.get("id")?,
            delivery_id: read_id(&id),
            topic: row.get("topic")?,
            key: row.get("key")?,
            payload: row.get("payload")?,
            headers: read_headers(headers.as_deref()),
            trace: row.get("trace")?,
            attempt: attempts.saturating_add(1),
            created_at: time(row.get("created_at")?),
            epoch: Epoch::new(0),
        },
        expired: row.get("expired")?,
        behind: behind.map(|behind| Duration::from_micros(u64::try_from(behind).unwrap_or(0))),
    })
}

fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

const LIST: &str = "select id, outbox, topic, key, iif(?5 is null, null, payload) as payload, iif(?5 is null, null, headers) as headers, delivery_id, attempts, last_error, \
     iif(dead_at is not null, 'dead', iif(ready = 1, 'ready', 'waiting')) as state, created_at, coalesce(dead_at, due_at) as at \
     from lineclear_outbox_message where (?1 is null or outbox = ?1) and id < ?3 and (?5 is null or id = ?5) \
     and case ?2 when 'ready' then ready = 1 when 'dead' then dead_at is not null \
         when 'waiting' then ready = 0 and dead_at is null else ?2 = '' end \
     union all select id, outbox, topic, key, iif(?5 is null, null, payload), iif(?5 is null, null, headers), delivery_id, attempts, null, 'delivered', created_at, delivered_at \
     from lineclear_outbox_delivered where (?1 is null or outbox = ?1) and id < ?3 and (?5 is null or id = ?5) \
     and ?2 in ('delivered', '') order by id desc limit ?4";

impl SqliteStore {
    fn read(
        &self,
        outbox: Option<String>,
        state: &'static str,
        before: i64,
        most: i64,
        id: Option<i64>,
    ) -> StoreFuture<'static, Vec<MessageView>> {
        self.on(move |connection| {
            let mut list = connection.prepare_cached(LIST).map_err(classify)?;
            let rows = list.query_map(params![outbox, state, before, most, id], view).map_err(classify)?;
            rows.collect::<rusqlite::Result<_>>().map_err(classify)
        })
    }
}

fn view(row: &Row<'_>) -> rusqlite::Result<MessageView> {
    let (state, id): (String, String) = (row.get("state")?, row.get("delivery_id")?);
    Ok(MessageView {
        id: row.get("id")?,
        outbox: row.get("outbox")?,
        state: MessageState::from_word(&state).unwrap_or(MessageState::Waiting),
        topic: row.get("topic")?,
        key: row.get("key")?,
        payload: row.get("payload")?,
        headers: row.get("headers")?,
        delivery_id: read_id(&id),
        attempts: row.get("attempts")?,
        last_error: row.get("last_error")?,
        created_at: time(row.get("created_at")?),
        at: time(row.get("at")?),
    })
}

/// Whether all tables exist: this index is made last.
fn made(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "select exists (select 1 from sqlite_master where name = 'lineclear_outbox_dedup_at')";
    connection.query_row(sql, [], |row| row.get(0))
}

/// A transaction that never has to upgrade its lock on the file.
pub(crate) fn immediate(connection: &mut Connection) -> Result<Transaction<'_>, OutboxError> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(classify)
}

impl Store for SqliteStore {
    fn prepare(&self) -> StoreFuture<'_, ()> {
        self.on(|connection| {
            // If the tables exist, there is no need to wait for other writers.
            if made(connection).map_err(classify)? {
                return Ok(());
            }
            let transaction = immediate(connection)?;
            transaction.execute_batch(include_str!("../sql/sqlite/outbox_schema.sql")).map_err(classify)?;
            transaction.commit().map_err(classify)
        })
    }

    fn exists(&self) -> StoreFuture<'_, bool> {
        if !self.path.exists() {
            return Box::pin(async { Ok(false) });
        }
        self.on(|connection| made(connection).map_err(classify))
    }

    fn names(&self, most: i64) -> StoreFuture<'_, Vec<String>> {
        self.on(move |connection| {
            let mut names = connection
                .prepare_cached(include_str!("../sql/sqlite/outbox_names.sql"))
                .map_err(classify)?;
            let rows = names.query_map(params![most], |row| row.get(0)).map_err(classify)?;
            rows.collect::<rusqlite::Result<_>>().map_err(classify)
        })
    }

    fn dead_ids<'a>(&'a self, outbox: &'a str, after: i64, most: i64) -> StoreFuture<'a, Vec<i64>> {
        let outbox = outbox.to_owned();
        self.on(move |connection| {
            let sql = "select id from lineclear_outbox_message where outbox = ?1 and dead_at is not null and id > ?2 order by id limit ?3";
            let mut ids = connection.prepare_cached(sql).map_err(classify)?;
            let rows = ids.query_map(params![outbox, after, most], |row| row.get(0)).map_err(classify)?;
            rows.collect::<rusqlite::Result<_>>().map_err(classify)
        })
    }

    fn waits<'a>(&'a self, outbox: &'a str, low: i64) -> StoreFuture<'a, bool> {
        let outbox = outbox.to_owned();
        self.on(move |connection| {
            let mut waits = connection.prepare_cached(WAITS).map_err(classify)?;
            waits.query_row(params![outbox, now(), low], |row| row.get(0)).map_err(classify)
        })
    }

    fn settle_and_fetch<'a>(
        &'a self,
        held: &'a Fence,
        request: &'a BatchRequest,
    ) -> StoreFuture<'a, Option<Vec<Fetched>>> {
        // The statements run on another thread, and may outlive the caller.
        let (held, request) = (held.clone(), request.clone());
        self.on(move |connection| {
            let transaction = immediate(connection)?;
            if !fence(&transaction, &held)? {
                return Ok(None);
            }
            let now = now();
            settle(&transaction, &request.settlement, request.keeps, now).map_err(classify)?;
            let fetched = match request.limit {
                0 => Vec::new(),
                _ => read(&transaction, &request, now).map_err(classify)?,
            };
            transaction.commit().map_err(classify)?;
            Ok(Some(fetched))
        })
    }

    /// A file has one writer, which draws its ids and commits before the next one: every gap stays one.
    fn complete<'a>(&'a self, _: &'a BatchRequest, _: [i64; 2], _: &'a mut Mark) -> StoreFuture<'a, i64> {
        Box::pin(async { Ok(i64::MAX) })
    }

    fn clean<'a>(&'a self, outbox: &'a str, kept: Kept) -> StoreFuture<'a, u64> {
        let (outbox, now) = (outbox.to_owned(), now());
        self.on(move |connection| {
            let transaction = immediate(connection)?;
            let mut removed = 0;
            for (table, id, at, age) in [
                ("outbox_delivered", "id", "delivered_at", kept.delivered),
                ("outbox_dedup", "outbox, dedup_key", "created_at", kept.dedup_keys),
                ("outbox_message", "id", "dead_at", kept.dead),
            ] {
                let sql = format!(
                    "delete from lineclear_{table} where ({id}) in \
                     (select {id} from lineclear_{table} where outbox = ?1 and {at} < ?2 limit ?3)"
                );
                let before = now.saturating_sub(micros(age));
                removed += transaction.execute(&sql, params![outbox, before, CLEAN_MAX]).map_err(classify)?;
            }
            transaction.commit().map_err(classify)?;
            Ok(removed as u64)
        })
    }

    fn counts<'a>(&'a self, outbox: &'a str, most: i64) -> StoreFuture<'a, Counts> {
        let outbox = outbox.to_owned();
        self.on(move |connection| {
            let count = |which: &str| {
                let sql = format!("select count(*) from (select 1 from lineclear_outbox_message where outbox = ?1 and {which} limit ?2)");
                connection.query_row(&sql, params![outbox, most], |row| row.get::<_, u32>(0)).map_err(classify)
            };
            let first = "select due_at from lineclear_outbox_message where outbox = ?1 and ready = 1 order by id limit 1";
            let due: Option<i64> =
                connection.query_row(first, params![outbox], |row| row.get(0)).optional().map_err(classify)?;
            let lag = due.map_or(0, |due| u64::try_from(now() - due).unwrap_or(0));
            Ok(Counts {
                ready: count("ready = 1")?.into(),
                waiting: count("ready = 0 and dead_at is null")?.into(),
                dead: count("dead_at is not null")?.into(),
                lag: Duration::from_micros(lag),
            })
        })
    }

    fn list<'a>(
        &'a self,
        outbox: &'a str,
        state: MessageState,
        before: Option<i64>,
        most: i64,
    ) -> StoreFuture<'a, Vec<MessageView>> {
        self.read(Some(outbox.to_owned()), state.as_str(), before.unwrap_or(i64::MAX), most, None)
    }

    fn show(&self, id: i64) -> StoreFuture<'_, Option<MessageView>> {
        let found = self.read(None, "", i64::MAX, 1, Some(id));
        Box::pin(async { Ok(found.await?.pop()) })
    }

    fn replay<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64> {
        let (outbox, ids) = (outbox.to_owned(), json(ids));
        self.on(move |connection| {
            let sql = "update lineclear_outbox_message set ready = 1, due_at = ?3, attempts = 0, dead_at = null, expires_at = null \
                       where outbox = ?1 and dead_at is not null and id in (select value from json_each(?2))";
            let replayed = connection.execute(sql, params![outbox, ids, now()]).map_err(classify)?;
            Ok(u64::try_from(replayed).unwrap_or(0))
        })
    }

    fn discard<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64> {
        let (outbox, ids) = (outbox.to_owned(), json(ids));
        self.on(move |connection| {
            let sql = "delete from lineclear_outbox_message where outbox = ?1 and dead_at is not null \
                       and id in (select value from json_each(?2))";
            let discarded = connection.execute(sql, params![outbox, ids]).map_err(classify)?;
            Ok(u64::try_from(discarded).unwrap_or(0))
        })
    }
}
