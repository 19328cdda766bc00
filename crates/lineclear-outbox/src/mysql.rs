//! An outbox in MySQL or MariaDB.

use std::time::{Duration, SystemTime};

use lineclear_lock::mysql::{connect_options, fence};
use lineclear_lock::{Epoch, Fence};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, IsolationLevel, Opts, Params, Row, Transaction, TxOpts, Value, params};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::delivery::{Delivery, read_headers, read_id};
use crate::error::OutboxError;
use crate::events::Mark;
use crate::gaps::IdRange;
use crate::inspect::{Counts, MessageState, MessageView};
use crate::message::{Message, micros};
use crate::outbox::{Outbox, checked};
use crate::store::{
    BatchRequest, CLEAN_MAX, Failed, Fetched, Kept, PROMOTE_MAX, Settlement, Store, StoreFuture,
};

const TABLES: [&str; 3] = [
    include_str!("../sql/mysql/outbox_message.sql"),
    include_str!("../sql/mysql/outbox_delivered.sql"),
    include_str!("../sql/mysql/outbox_dedup.sql"),
];
const MADE: &str = "select count(*) from information_schema.tables where table_schema = database() \
     and table_name in ('lineclear_outbox_message', 'lineclear_outbox_delivered', 'lineclear_outbox_dedup')";
const DEDUP: &str = "insert ignore into lineclear_outbox_dedup (outbox, dedup_key, created_at) values (:outbox, :key, utc_timestamp(6))";
const WRITE: &str = "insert into lineclear_outbox_message \
     (outbox, topic, msg_key, payload, headers, trace, delivery_id, created_at, ready, due_at, expires_at) \
     values (:outbox, :topic, :key, :payload, :headers, :trace, :delivery_id, utc_timestamp(6), :delay = 0, \
     utc_timestamp(6) + interval :delay microsecond, utc_timestamp(6) + interval :life microsecond)";
/// The index begins with `outbox`, so that the server skips from one name to the next.
const NAMES: &str = "select outbox from (select distinct outbox from lineclear_outbox_message \
     union select outbox from (select outbox from lineclear_outbox_delivered order by id desc limit 1000) delivered) named \
     order by outbox limit ?";
const WAITS: &str = "select exists (select 1 from lineclear_outbox_message where outbox = :outbox and ready and id >= :low) \
     or exists (select 1 from lineclear_outbox_message where outbox = :outbox and not ready and due_at <= utc_timestamp(6))";
const DUE: &str = "select id from lineclear_outbox_message where outbox = :outbox and ready = 0 and due_at <= utc_timestamp(6) \
     order by due_at, id limit :most";
const FETCH: &str = "select m.id, m.topic, m.msg_key, m.payload, m.headers, m.trace, m.delivery_id, m.attempts, \
     timestampdiff(microsecond, '1970-01-01', m.created_at) as created_us, coalesce(m.expires_at <= utc_timestamp(6), 0) as expired, \
     (select timestampdiff(microsecond, utc_timestamp(6), r.due_at) from lineclear_outbox_message r \
      where r.outbox = m.outbox and r.msg_key = m.msg_key and r.retrying = 1 and r.id < m.id order by r.id desc limit 1) as behind_us \
     from lineclear_outbox_message m force index (outbox_ready) where m.outbox = ? and m.ready = 1";

/// The tables in a database of a server.
#[derive(Debug)]
pub(crate) struct MysqlStore {
    opts: Opts,
    /// None while it is in use: a connection whose answer was not read is not used again.
    connection: Mutex<Option<Conn>>,
}

impl MysqlStore {
    pub(crate) fn new(url: &str) -> Result<MysqlStore, OutboxError> {
        Ok(MysqlStore { opts: connect_options(url)?, connection: Mutex::default() })
    }

    async fn on<T>(
        &self,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, OutboxError>,
    ) -> Result<T, OutboxError> {
        let mut slot = self.connection.lock().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => Conn::new(self.opts.clone()).await.map_err(classify)?,
        };
        let done = work(&mut connection).await;
        // After an error its state is unknown.
        if done.is_ok() {
            *slot = Some(connection);
        }
        done
    }
}

/// Unavailable: another try may succeed.
fn classify(error: Error) -> OutboxError {
    match &error {
        // A lock was waited for too long, a deadlock, the server stops, too many connections.
        Error::Server(server) if ![1205, 1213, 1053, 1040].contains(&server.code) => {
            OutboxError::failed(error)
        }
        _ => OutboxError::unavailable(error),
    }
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

fn maybe(text: Option<&str>) -> Value {
    text.map_or(Value::NULL, bytes)
}

/// `?, ?, ?`, and their values.
fn list(ids: &[i64]) -> (String, Vec<Value>) {
    (vec!["?"; ids.len()].join(", "), ids.iter().map(|id| Value::Int(*id)).collect())
}

impl Outbox {
    /// Writes messages in a transaction of the caller. If that is rolled back, there are no messages. Returns their ids; `None` for a message
    /// whose dedup key is known.
    pub async fn write_mysql(
        &self,
        transaction: &mut Transaction<'_>,
        messages: &[Message],
    ) -> Result<Vec<Option<i64>>, OutboxError> {
        checked(messages)?;
        let mut ids = Vec::with_capacity(messages.len());
        for message in messages {
            if let Some(key) = &message.dedup_key {
                let params = params! { "outbox" => bytes(&self.name), "key" => bytes(key) };
                transaction.exec_drop(DEDUP, params).await.map_err(classify)?;
                if transaction.affected_rows() == 0 {
                    ids.push(None);
                    continue;
                }
            }
            let params = params! {
                "outbox" => bytes(&self.name),
                "topic" => bytes(&message.topic),
                "key" => maybe(message.key.as_deref()),
                "payload" => &message.payload,
                "headers" => message.headers_json(),
                "trace" => maybe(message.trace.as_deref()),
                "delivery_id" => bytes(&Uuid::new_v4().to_string()),
                "delay" => message.delay.map_or(0, micros),
                "life" => message.lifetime.map(micros),
            };
            transaction.exec_drop(WRITE, params).await.map_err(classify)?;
            ids.push(transaction.last_insert_id().and_then(|id| i64::try_from(id).ok()));
        }
        Ok(ids)
    }
}

async fn settle(
    transaction: &mut Transaction<'_>,
    settlement: &Settlement,
    keeps: bool,
) -> Result<(), OutboxError> {
    if !settlement.delivered.is_empty() {
        let (marks, values) = list(&settlement.delivered);
        if keeps {
            let sql = format!(
                "insert ignore into lineclear_outbox_delivered \
                 (id, outbox, topic, msg_key, payload, headers, trace, delivery_id, created_at, attempts, delivered_at) \
                 select id, outbox, topic, msg_key, payload, headers, trace, delivery_id, created_at, attempts + 1, utc_timestamp(6) \
                 from lineclear_outbox_message where id in ({marks})"
            );
            transaction.exec_drop(sql, Params::Positional(values.clone())).await.map_err(classify)?;
        }
        let sql = format!("delete from lineclear_outbox_message where id in ({marks})");
        transaction.exec_drop(sql, Params::Positional(values)).await.map_err(classify)?;
    }
    for failed in &settlement.failed {
        fail(transaction, failed).await?;
    }
    Ok(())
}

async fn fail(transaction: &mut Transaction<'_>, failed: &Failed) -> Result<(), OutboxError> {
    let sql = "update lineclear_outbox_message set ready = 0, \
         due_at = if(:delay is null, '9999-01-01', utc_timestamp(6) + interval coalesce(:delay, 0) microsecond), \
         attempts = coalesce(:attempts, attempts), retrying = (:delay is not null), \
         last_error = coalesce(:error, last_error), failed_at = if(:error is null, failed_at, utc_timestamp(6)), \
         dead_at = if(:delay is null, utc_timestamp(6), null) where id = :id";
    let params = params! {
        "id" => failed.id,
        "attempts" => failed.attempts,
        "error" => failed.error.as_deref(),
        "delay" => failed.retry_in.map(micros),
    };
    transaction.exec_drop(sql, params).await.map_err(classify)
}

async fn read(
    transaction: &mut Transaction<'_>,
    request: &BatchRequest,
) -> Result<Vec<Fetched>, OutboxError> {
    let params = params! { "outbox" => bytes(&request.outbox), "most" => PROMOTE_MAX };
    let due: Vec<i64> = transaction.exec(DUE, params).await.map_err(classify)?;
    if !due.is_empty() {
        let (marks, values) = list(&due);
        let sql =
            format!("update lineclear_outbox_message set ready = 1, retrying = 0 where id in ({marks})");
        transaction.exec_drop(sql, Params::Positional(values)).await.map_err(classify)?;
    }
    let promoted = due.into_iter().min();
    let low = promoted.map_or(request.low, |first| first.min(request.low));
    let (marks, held) = list(&request.held);
    let not_held =
        if request.held.is_empty() { String::new() } else { format!(" and m.id not in ({marks})") };
    let mut found = [Vec::new(), Vec::new()];
    for (found, (place, ids)) in
        found.iter_mut().zip([(" and m.id >= ?".to_owned(), vec![Value::Int(low)]), within(&request.gaps)])
    {
        if ids.is_empty() {
            continue;
        }
        let sql = format!("{FETCH}{place}{not_held} order by m.id limit ?");
        let values =
            [vec![bytes(&request.outbox)], ids, held.clone(), vec![Value::Int(request.limit)]].concat();
        let rows: Vec<Row> = transaction.exec(sql, Params::Positional(values)).await.map_err(classify)?;
        *found = rows.into_iter().map(fetched).collect::<Result<_, _>>()?;
    }
    let [messages, in_gaps] = found;
    Ok(request.answer(messages, in_gaps))
}

/// A condition for ids in these ranges, and its values.
fn within(ranges: &[IdRange]) -> (String, Vec<Value>) {
    let any = vec!["m.id between ? and ?"; ranges.len()].join(" or ");
    (
        format!(" and ({any})"),
        ranges.iter().flat_map(|(first, last)| [Value::Int(*first), Value::Int(*last)]).collect(),
    )
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn column<T: mysql_async::prelude::FromValue>(row: &mut Row, name: &str) -> Result<T, OutboxError> {
    let missing = || OutboxError::failed(format!("the server's answer has no column {name}"));
    row.take_opt(name).ok_or_else(missing)?.map_err(OutboxError::failed)
}

fn fetched(mut row: Row) -> Result<Fetched, OutboxError> {
    let row = &mut row;
    let attempts: u32 = column(row, "attempts")?;
    let headers: Option<Vec<u8>> = column(row, "headers")?;
    let behind: Option<i64> = column(row, "behind_us")?;
    let expired: i64 = column(row, "expired")?;
    Ok(Fetched {
        delivery: Delivery {
            id: column(row, "id")?,
            delivery_id: read_id(&text(column(row, "delivery_id")?)),
            topic: text(column(row, "topic")?),
            key: column::<Option<Vec<u8>>>(row, "msg_key")?.map(text),
            payload: text(column(row, "payload")?),
            headers: read_headers(headers.map(text).as_deref()),
            trace: column::<Option<Vec<u8>>>(row, "trace")?.map(text),
            attempt: attempts.saturating_add(1),
            created_at: time(column(row, "created_us")?),
            epoch: Epoch::new(0),
        },
        expired: expired != 0,
        behind: behind.map(|behind| Duration::from_micros(u64::try_from(behind).unwrap_or(0))),
    })
}

/// What `show` reads besides.
const CONTENT: &str = ", payload, headers ";
const NO_CONTENT: &str = ", null as payload, null as headers ";
const VIEW: [&str; 2] = [
    "select id, outbox, topic, msg_key, delivery_id, attempts, last_error, \
     if(dead_at is not null, 'dead', if(ready, 'ready', 'waiting')) as state, \
     timestampdiff(microsecond, '1970-01-01', created_at) as created_us, \
     timestampdiff(microsecond, '1970-01-01', coalesce(dead_at, due_at)) as at_us",
    "from lineclear_outbox_message",
];
const VIEW_DELIVERED: [&str; 2] = [
    "select id, outbox, topic, msg_key, delivery_id, attempts, null as last_error, \
     'delivered' as state, timestampdiff(microsecond, '1970-01-01', created_at) as created_us, \
     timestampdiff(microsecond, '1970-01-01', delivered_at) as at_us",
    "from lineclear_outbox_delivered",
];

fn view(mut row: Row) -> Result<MessageView, OutboxError> {
    let row = &mut row;
    let state = text(column(row, "state")?);
    Ok(MessageView {
        id: column(row, "id")?,
        outbox: text(column(row, "outbox")?),
        state: MessageState::from_word(&state).unwrap_or(MessageState::Waiting),
        topic: text(column(row, "topic")?),
        key: column::<Option<Vec<u8>>>(row, "msg_key")?.map(text),
        payload: column::<Option<Vec<u8>>>(row, "payload")?.map(text),
        headers: column::<Option<Vec<u8>>>(row, "headers")?.map(text),
        delivery_id: read_id(&text(column(row, "delivery_id")?)),
        attempts: column(row, "attempts")?,
        last_error: column::<Option<Vec<u8>>>(row, "last_error")?.map(text),
        created_at: time(column(row, "created_us")?),
        at: time(column(row, "at_us")?),
    })
}

impl Store for MysqlStore {
    fn prepare(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.on(async |connection| {
            // If the tables exist, the right to create them is not needed.
            let made: Option<i64> = connection.query_first(MADE).await.map_err(classify)?;
            if made == Some(3) {
                return Ok(());
            }
            for table in TABLES {
                connection.query_drop(table).await.map_err(classify)?;
            }
            Ok(())
        }))
    }

    fn exists(&self) -> StoreFuture<'_, bool> {
        Box::pin(self.on(async |connection| {
            let made: Option<i64> = connection.query_first(MADE).await.map_err(classify)?;
            Ok(made == Some(3))
        }))
    }

    fn names(&self, most: i64) -> StoreFuture<'_, Vec<String>> {
        Box::pin(self.on(async move |connection| {
            let names: Vec<Vec<u8>> = connection.exec(NAMES, (most,)).await.map_err(classify)?;
            Ok(names.into_iter().map(text).collect())
        }))
    }

    fn dead_ids<'a>(&'a self, outbox: &'a str, after: i64, most: i64) -> StoreFuture<'a, Vec<i64>> {
        Box::pin(self.on(async move |connection| {
            let sql = "select id from lineclear_outbox_message where outbox = ? and dead_at is not null and id > ? order by id limit ?";
            connection.exec(sql, (bytes(outbox), after, most)).await.map_err(classify)
        }))
    }

    fn waits<'a>(&'a self, outbox: &'a str, low: i64) -> StoreFuture<'a, bool> {
        Box::pin(self.on(async move |connection| {
            let params = params! { "outbox" => bytes(outbox), "low" => low };
            let waits: Option<i64> = connection.exec_first(WAITS, params).await.map_err(classify)?;
            Ok(waits == Some(1))
        }))
    }

    fn settle_and_fetch<'a>(
        &'a self,
        held: &'a Fence,
        request: &'a BatchRequest,
    ) -> StoreFuture<'a, Option<Vec<Fetched>>> {
        Box::pin(self.on(async move |connection| {
            // Without gap locks, with which programs that write messages would wait for the runner.
            let mut options = TxOpts::default();
            options.with_isolation_level(IsolationLevel::ReadCommitted);
            let mut transaction = connection.start_transaction(options).await.map_err(classify)?;
            if !fence(&mut transaction, held).await? {
                transaction.rollback().await.map_err(classify)?;
                return Ok(None);
            }
            settle(&mut transaction, &request.settlement, request.keeps).await?;
            let fetched = match request.limit {
                0 => Vec::new(),
                _ => read(&mut transaction, request).await?,
            };
            transaction.commit().await.map_err(classify)?;
            Ok(Some(fetched))
        }))
    }

    /// The server does not say which transactions are open, but shows rows that they have not committed. A row follows the number that was drawn for
    /// it within moments: only numbers are looked at that were passed a while ago.
    fn complete<'a>(
        &'a self,
        request: &'a BatchRequest,
        [_, drawn]: [i64; 2],
        _: &'a mut Mark,
    ) -> StoreFuture<'a, i64> {
        Box::pin(self.on(async move |connection| {
            let (place, ids) = within(&[(0, drawn)]);
            let (gaps, in_gaps) = within(&request.gaps);
            if in_gaps.is_empty() {
                return Ok(0);
            }
            let mut options = TxOpts::default();
            options.with_isolation_level(IsolationLevel::ReadUncommitted);
            let mut transaction = connection.start_transaction(options).await.map_err(classify)?;
            let sql = format!(
                "select m.id from lineclear_outbox_message m force index (outbox_ready) \
                 where m.outbox = ? and m.ready = 1{place}{gaps} order by m.id limit 1"
            );
            let values = [vec![bytes(&request.outbox)], ids, in_gaps].concat();
            let first: Option<i64> =
                transaction.exec_first(sql, Params::Positional(values)).await.map_err(classify)?;
            transaction.commit().await.map_err(classify)?;
            Ok(first.map_or(drawn, |first| first - 1))
        }))
    }

    fn clean<'a>(&'a self, outbox: &'a str, kept: Kept) -> StoreFuture<'a, u64> {
        Box::pin(self.on(async move |connection| {
            let mut removed = 0;
            for (rows, age) in [
                ("outbox_delivered where outbox = ? and delivered_at", kept.delivered),
                ("outbox_dedup where outbox = ? and created_at", kept.dedup_keys),
                ("outbox_message where outbox = ? and dead_at", kept.dead),
            ] {
                let sql = format!(
                    "delete from lineclear_{rows} < utc_timestamp(6) - interval ? microsecond limit ?"
                );
                connection.exec_drop(sql, (bytes(outbox), micros(age), CLEAN_MAX)).await.map_err(classify)?;
                removed += connection.affected_rows();
            }
            Ok(removed)
        }))
    }

    fn counts<'a>(&'a self, outbox: &'a str, most: i64) -> StoreFuture<'a, Counts> {
        Box::pin(self.on(async move |connection| {
            let mut numbers = [0; 3];
            for (number, which) in
                numbers.iter_mut().zip(["ready = 1", "ready = 0 and dead_at is null", "dead_at is not null"])
            {
                let sql = format!(
                    "select count(*) from (select 1 from lineclear_outbox_message where outbox = ? and {which} limit ?) counted"
                );
                let count: Option<u64> = connection.exec_first(sql, (bytes(outbox), most)).await.map_err(classify)?;
                *number = count.unwrap_or(0);
            }
            let sql = "select timestampdiff(microsecond, due_at, utc_timestamp(6)) from lineclear_outbox_message \
                       where outbox = ? and ready = 1 order by id limit 1";
            let lag: Option<i64> = connection.exec_first(sql, (bytes(outbox),)).await.map_err(classify)?;
            let lag = Duration::from_micros(lag.and_then(|lag| u64::try_from(lag).ok()).unwrap_or(0));
            Ok(Counts { ready: numbers[0], waiting: numbers[1], dead: numbers[2], lag })
        }))
    }

    fn list<'a>(
        &'a self,
        outbox: &'a str,
        state: MessageState,
        before: Option<i64>,
        most: i64,
    ) -> StoreFuture<'a, Vec<MessageView>> {
        Box::pin(self.on(async move |connection| {
            let (view_sql, which) = match state {
                MessageState::Ready => (VIEW, "ready = 1"),
                MessageState::Waiting => (VIEW, "ready = 0 and dead_at is null"),
                MessageState::Dead => (VIEW, "dead_at is not null"),
                MessageState::Delivered => (VIEW_DELIVERED, "true"),
            };
            let [columns, table] = view_sql;
            let sql = format!("{columns}{NO_CONTENT}{table} where outbox = ? and {which} and id < ? order by id desc limit ?");
            let params = (bytes(outbox), before.unwrap_or(i64::MAX), most);
            let rows: Vec<Row> = connection.exec(sql, params).await.map_err(classify)?;
            rows.into_iter().map(view).collect()
        }))
    }

    fn show(&self, id: i64) -> StoreFuture<'_, Option<MessageView>> {
        Box::pin(self.on(async move |connection| {
            for [columns, table] in [VIEW, VIEW_DELIVERED] {
                let sql = format!("{columns}{CONTENT}{table} where id = ?");
                let row: Option<Row> = connection.exec_first(sql, (id,)).await.map_err(classify)?;
                if let Some(row) = row {
                    return view(row).map(Some);
                }
            }
            Ok(None)
        }))
    }

    fn replay<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64> {
        if ids.is_empty() {
            return Box::pin(async { Ok(0) });
        }
        Box::pin(self.on(async move |connection| {
            let (marks, listed) = list(ids);
            let sql = format!(
                "update lineclear_outbox_message set ready = 1, due_at = utc_timestamp(6), attempts = 0, dead_at = null, expires_at = null \
                 where outbox = ? and dead_at is not null and id in ({marks})"
            );
            let mut values = vec![bytes(outbox)];
            values.extend(listed);
            connection.exec_drop(sql, Params::Positional(values)).await.map_err(classify)?;
            Ok(connection.affected_rows())
        }))
    }

    fn discard<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64> {
        if ids.is_empty() {
            return Box::pin(async { Ok(0) });
        }
        Box::pin(self.on(async move |connection| {
            let (marks, listed) = list(ids);
            let sql = format!("delete from lineclear_outbox_message where outbox = ? and dead_at is not null and id in ({marks})");
            let mut values = vec![bytes(outbox)];
            values.extend(listed);
            connection.exec_drop(sql, Params::Positional(values)).await.map_err(classify)?;
            Ok(connection.affected_rows())
        }))
    }
}
