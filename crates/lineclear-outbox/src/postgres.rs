//! An outbox in PostgreSQL.

mod partitions;

use std::time::{Duration, SystemTime};

use lineclear_lock::postgres::{PostgresTarget, fence};
use lineclear_lock::{Epoch, Fence};
use tokio::sync::Mutex;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Row};

use crate::delivery::{Delivery, read_headers, read_id};
use crate::error::OutboxError;
use crate::events::Mark;
use crate::inspect::{Counts, MessageState, MessageView};
use crate::message::{Message, micros};
use crate::outbox::{Outbox, checked};
use crate::store::{
    BatchRequest, CLEAN_MAX, Failed, Fetched, Kept, PROMOTE_MAX, Settlement, Store, StoreFuture,
};

/// No statement of a runner may take longer: its lock would end meanwhile.
const SESSION: &str =
    "set statement_timeout = '30s'; set lock_timeout = '5s'; set idle_in_transaction_session_timeout = '60s'";

macro_rules! statement {
    ($self:expr, $name:literal) => {
        sql(include_str!(concat!("../sql/postgres/", $name, ".sql")), $self.target.schema())
    };
}

pub(crate) fn sql(text: &str, schema: &str) -> String {
    text.replace("{schema}", &format!("\"{schema}\""))
}

/// The tables in a schema of a database.
#[derive(Debug)]
pub(crate) struct PostgresStore {
    pub(crate) target: PostgresTarget,
    /// None while it is in use: a connection whose answer was not read is not used again.
    pub(crate) connection: Mutex<Option<Client>>,
}

impl PostgresStore {
    pub(crate) fn new(url: &str) -> Result<PostgresStore, OutboxError> {
        Ok(PostgresStore { target: PostgresTarget::new(url)?, connection: Mutex::default() })
    }

    /// This connection if it is open, or a new one.
    pub(crate) async fn connected(&self, before: Option<Client>) -> Result<Client, OutboxError> {
        if let Some(client) = before.filter(|client| !client.is_closed()) {
            return Ok(client);
        }
        let client = self.target.connect("lineclear-outbox").await?;
        client.batch_execute(SESSION).await.map_err(classify)?;
        Ok(client)
    }

    pub(crate) async fn on<T>(
        &self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, OutboxError>,
    ) -> Result<T, OutboxError> {
        let mut slot = self.connection.lock().await;
        let mut client = self.connected(slot.take()).await?;
        let done = work(&mut client).await;
        // After an error its state is unknown.
        if done.is_ok() {
            *slot = Some(client);
        }
        done
    }
}

impl PostgresStore {
    /// Creates tables, unless the statement `exists` says that they are there: then the right to create them is not needed.
    pub(crate) async fn create(&self, exists: &str, tables: &str) -> Result<(), OutboxError> {
        self.on(async |client| {
            let exists = sql(exists, self.target.schema());
            if query(client, &exists, &[]).await?.first().is_some_and(|row| row.get("made")) {
                return Ok(());
            }
            let schema = format!("select to_regnamespace('{}') is not null as made", self.target.schema());
            let has_schema = query(client, &schema, &[]).await?.first().is_some_and(|row| row.get("made"));
            let create = if has_schema { "" } else { "create schema if not exists {schema};" };
            // One process at a time, under the number that locks and the scheduler use, too.
            let all = format!("begin; select pg_advisory_xact_lock(1818520683); {create} {tables}; commit");
            client.batch_execute(&sql(&all, self.target.schema())).await.map_err(classify)
        })
        .await
    }
}

type Params<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// Unavailable: another try may succeed.
pub(crate) fn classify(error: tokio_postgres::Error) -> OutboxError {
    let Some(state) = error.code() else { return OutboxError::unavailable(error) };
    let is_transient = ["08", "40", "53", "57"].iter().any(|class| state.code().starts_with(class));
    // An aborted transaction: statements are sent before the answer of the one that failed, which is the cause, is there.
    let others = [SqlState::LOCK_NOT_AVAILABLE, SqlState::IN_FAILED_SQL_TRANSACTION];
    if is_transient || others.contains(state) {
        return OutboxError::unavailable(error);
    }
    OutboxError::failed(error)
}

async fn query(client: &impl GenericClient, sql: &str, params: &Params<'_>) -> Result<Vec<Row>, OutboxError> {
    client.query_typed(sql, params).await.map_err(classify)
}

impl Outbox {
    /// Writes messages in a transaction of the caller. If that is rolled back, there are no messages. Returns their ids; `None` for a message
    /// whose dedup key is known.
    pub async fn write_postgres(
        &self,
        transaction: &impl GenericClient,
        messages: &[Message],
    ) -> Result<Vec<Option<i64>>, OutboxError> {
        self.check_is_whole()?;
        checked(messages)?;
        let target = PostgresTarget::new(&self.url)?;
        let sql = sql(include_str!("../sql/postgres/outbox_write.sql"), target.schema());
        let name = &*self.name;
        let topics: Vec<&str> = messages.iter().map(|message| &*message.topic).collect();
        let keys: Vec<Option<&str>> = messages.iter().map(|message| message.key.as_deref()).collect();
        let payloads: Vec<&str> = messages.iter().map(|message| &*message.payload).collect();
        let headers: Vec<Option<String>> = messages.iter().map(Message::headers_json).collect();
        let traces: Vec<Option<&str>> = messages.iter().map(|message| message.trace.as_deref()).collect();
        let dedup: Vec<Option<&str>> = messages.iter().map(|message| message.dedup_key.as_deref()).collect();
        let delays: Vec<Option<i64>> = messages.iter().map(|message| message.delay.map(micros)).collect();
        let lives: Vec<Option<i64>> = messages.iter().map(|message| message.lifetime.map(micros)).collect();
        let texts = Type::TEXT_ARRAY;
        let params: &Params<'_> = &[
            (&name, Type::TEXT),
            (&topics, texts.clone()),
            (&keys, texts.clone()),
            (&payloads, texts.clone()),
            (&headers, texts.clone()),
            (&traces, texts.clone()),
            (&dedup, texts),
            (&delays, Type::INT8_ARRAY),
            (&lives, Type::INT8_ARRAY),
        ];
        let mut ids = vec![None; messages.len()];
        for row in query(transaction, &sql, params).await? {
            let place: i64 = row.get("place");
            if let Some(slot) = usize::try_from(place - 1).ok().and_then(|place| ids.get_mut(place)) {
                *slot = Some(row.get("id"));
            }
        }
        Ok(ids)
    }
}

impl PostgresStore {
    async fn settle(
        &self,
        client: &impl GenericClient,
        settlement: &Settlement,
        keeps: bool,
    ) -> Result<(), OutboxError> {
        if !settlement.delivered.is_empty() {
            let sql =
                if keeps { statement!(self, "outbox_deliver") } else { statement!(self, "outbox_forget") };
            query(client, &sql, &[(&settlement.delivered, Type::INT8_ARRAY)]).await?;
        }
        if settlement.failed.is_empty() {
            return Ok(());
        }
        let failed = &settlement.failed;
        let ids: Vec<i64> = failed.iter().map(|failed| failed.id).collect();
        let attempt =
            |failed: &Failed| failed.attempts.map(|attempts| i32::try_from(attempts).unwrap_or(i32::MAX));
        let attempts: Vec<Option<i32>> = failed.iter().map(attempt).collect();
        // PostgreSQL has no zero bytes in text.
        let errors: Vec<Option<String>> = failed
            .iter()
            .map(|failed| failed.error.as_ref().map(|error| error.replace('\0', "\u{fffd}")))
            .collect();
        let delays: Vec<Option<i64>> = failed.iter().map(|failed| failed.retry_in.map(micros)).collect();
        let params: &Params<'_> = &[
            (&ids, Type::INT8_ARRAY),
            (&attempts, Type::INT4_ARRAY),
            (&errors, Type::TEXT_ARRAY),
            (&delays, Type::INT8_ARRAY),
        ];
        query(client, &statement!(self, "outbox_fail"), params).await.map(drop)
    }

    async fn read(
        &self,
        outbox: Option<&str>,
        state: &str,
        before: i64,
        most: i64,
        id: Option<i64>,
    ) -> Result<Vec<MessageView>, OutboxError> {
        let params: &Params<'_> = &[
            (&outbox, Type::TEXT),
            (&state, Type::TEXT),
            (&before, Type::INT8),
            (&most, Type::INT8),
            (&id, Type::INT8),
        ];
        let sql = statement!(self, "outbox_list");
        let rows = self.on(async |client| query(client, &sql, params).await).await?;
        Ok(rows.iter().map(view).collect())
    }
}

impl Store for PostgresStore {
    fn prepare(&self) -> StoreFuture<'_, ()> {
        let exists = include_str!("../sql/postgres/outbox_is_current.sql");
        let tables = include_str!("../sql/postgres/outbox_schema.sql");
        Box::pin(self.create(exists, tables))
    }

    fn exists(&self) -> StoreFuture<'_, bool> {
        Box::pin(self.on(async |client| {
            let rows = query(client, &statement!(self, "outbox_exists"), &[]).await?;
            Ok(rows.first().is_some_and(|row| row.get("made")))
        }))
    }

    fn set_partitions<'a>(&'a self, outbox: &'a str, partitions: u32) -> StoreFuture<'a, ()> {
        Box::pin(self.change_partitions(outbox, partitions))
    }

    fn partitions<'a>(&'a self, outbox: &'a str) -> StoreFuture<'a, u32> {
        Box::pin(self.read_partitions(outbox))
    }

    fn partitions_to_run<'a>(&'a self, outbox: &'a str) -> StoreFuture<'a, Option<Vec<u32>>> {
        Box::pin(self.read_partitions_to_run(outbox))
    }

    fn names(&self, most: i64) -> StoreFuture<'_, Vec<String>> {
        Box::pin(self.on(async move |client| {
            let rows = query(client, &statement!(self, "outbox_names"), &[(&most, Type::INT8)]).await?;
            Ok(rows.iter().map(|row| row.get("outbox")).collect())
        }))
    }

    fn dead_ids<'a>(&'a self, outbox: &'a str, after: i64, most: i64) -> StoreFuture<'a, Vec<i64>> {
        Box::pin(self.on(async move |client| {
            let params: &Params<'_> = &[(&outbox, Type::TEXT), (&after, Type::INT8), (&most, Type::INT8)];
            let rows = query(client, &statement!(self, "outbox_dead_ids"), params).await?;
            Ok(rows.iter().map(|row| row.get("id")).collect())
        }))
    }

    fn waits<'a>(&'a self, outbox: &'a str, low: i64) -> StoreFuture<'a, bool> {
        Box::pin(self.on(async move |client| {
            let params: &Params<'_> = &[(&outbox, Type::TEXT), (&low, Type::INT8)];
            let rows = query(client, &statement!(self, "outbox_waits"), params).await?;
            Ok(rows.first().is_some_and(|row| row.get("waits")))
        }))
    }

    fn settle_and_fetch<'a>(
        &'a self,
        held: &'a Fence,
        request: &'a BatchRequest,
    ) -> StoreFuture<'a, Option<Vec<Fetched>>> {
        Box::pin(self.on(async move |client| {
            // Without a transaction, each statement would be committed by itself, and no fence would hold it back.
            client.batch_execute("begin").await.map_err(classify)?;
            // Two more round trips: no other statement waits for the answer of the one before it, unless it needs that.
            let fenced = async { Ok::<_, OutboxError>(fence(&*client, held).await?) };
            let settle = self.settle(client, &request.settlement, request.keeps);
            let promote = async {
                if request.limit == 0 {
                    return Ok(None);
                }
                let params: &Params<'_> = &[(&request.outbox, Type::TEXT), (&PROMOTE_MAX, Type::INT8)];
                let rows = query(client, &statement!(self, "outbox_promote"), params).await?;
                Ok(rows.first().and_then(|row| row.get::<_, Option<i64>>("first")))
            };
            // The first error, which is the cause of the others.
            let (is_held, (), promoted) = tokio::try_join!(biased; fenced, settle, promote)?;
            if !is_held {
                client.batch_execute("rollback").await.map_err(classify)?;
                return Ok(None);
            }
            let low = promoted.map_or(request.low, |first| first.min(request.low));
            let fetch = async {
                if request.limit == 0 {
                    return Ok(Vec::new());
                }
                let params: &Params<'_> = &[
                    (&request.outbox, Type::TEXT),
                    (&low, Type::INT8),
                    (&request.held, Type::INT8_ARRAY),
                    (&request.limit, Type::INT8),
                ];
                query(client, &statement!(self, "outbox_fetch"), params).await
            };
            let (first, last): (Vec<i64>, Vec<i64>) = request.gaps.iter().copied().unzip();
            let fetch_gaps = async {
                if first.is_empty() || request.limit == 0 {
                    return Ok(Vec::new());
                }
                let params: &Params<'_> = &[
                    (&request.outbox, Type::TEXT),
                    (&first, Type::INT8_ARRAY),
                    (&last, Type::INT8_ARRAY),
                    (&request.held, Type::INT8_ARRAY),
                    (&request.limit, Type::INT8),
                ];
                query(client, &statement!(self, "outbox_fetch_gaps"), params).await
            };
            let commit = async { client.batch_execute("commit").await.map_err(classify) };
            let (rows, in_gaps, ()) = tokio::try_join!(biased; fetch, fetch_gaps, commit)?;
            let fetched = |rows: Vec<Row>| rows.iter().map(fetched).collect();
            Ok(Some(request.answer(fetched(rows), fetched(in_gaps))))
        }))
    }

    fn complete<'a>(
        &'a self,
        _: &'a BatchRequest,
        [drawn, _]: [i64; 2],
        mark: &'a mut Mark,
    ) -> StoreFuture<'a, i64> {
        Box::pin(self.on(async move |client| {
            let rows = query(client, &statement!(self, "outbox_writers"), &[]).await?;
            mark.observe(drawn, rows.iter().map(|row| row.get("writer")).collect());
            Ok(mark.complete())
        }))
    }

    fn clean<'a>(&'a self, outbox: &'a str, kept: Kept) -> StoreFuture<'a, u64> {
        Box::pin(self.on(async move |client| {
            let ages = [kept.delivered, kept.dedup_keys, kept.dead].map(micros);
            let params: &Params<'_> = &[
                (&outbox, Type::TEXT),
                (&ages[0], Type::INT8),
                (&ages[1], Type::INT8),
                (&ages[2], Type::INT8),
                (&CLEAN_MAX, Type::INT8),
            ];
            let rows = query(client, &statement!(self, "outbox_clean"), params).await?;
            Ok(rows.first().map_or(0, |row| positive(row.get("removed"))))
        }))
    }

    fn counts<'a>(&'a self, outbox: &'a str, most: i64) -> StoreFuture<'a, Counts> {
        Box::pin(self.on(async move |client| {
            let params: &Params<'_> = &[(&outbox, Type::TEXT), (&most, Type::INT8)];
            let rows = query(client, &statement!(self, "outbox_counts"), params).await?;
            let number = |column: &str| rows.first().map_or(0, |row| positive(row.get(column)));
            let lag = Duration::from_micros(number("lag_us"));
            Ok(Counts { ready: number("ready"), waiting: number("waiting"), dead: number("dead"), lag })
        }))
    }

    fn list<'a>(
        &'a self,
        outbox: &'a str,
        state: MessageState,
        before: Option<i64>,
        most: i64,
    ) -> StoreFuture<'a, Vec<MessageView>> {
        Box::pin(self.read(Some(outbox), state.as_str(), before.unwrap_or(i64::MAX), most, None))
    }

    fn show(&self, id: i64) -> StoreFuture<'_, Option<MessageView>> {
        Box::pin(async move { Ok(self.read(None, "", i64::MAX, 1, Some(id)).await?.pop()) })
    }

    fn replay<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64> {
        Box::pin(self.on(async move |client| {
            let params: &Params<'_> = &[(&outbox, Type::TEXT), (&ids, Type::INT8_ARRAY)];
            let sql = statement!(self, "outbox_replay");
            client.execute_typed(&sql, params).await.map_err(classify)
        }))
    }

    fn discard<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64> {
        Box::pin(self.on(async move |client| {
            let params: &Params<'_> = &[(&outbox, Type::TEXT), (&ids, Type::INT8_ARRAY)];
            client.execute_typed(&statement!(self, "outbox_discard"), params).await.map_err(classify)
        }))
    }
}

fn positive(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(positive(micros))
}

/// Reads a row of `outbox_fetch`. Columns are read by their place, which is much faster than by name.
fn fetched(row: &Row) -> Fetched {
    let attempts: i32 = row.get(7);
    let behind: Option<i64> = row.get(10);
    Fetched {
        delivery: Delivery {
            id: row.get(0),
            delivery_id: read_id(row.get(6)),
            topic: row.get(1),
            key: row.get(2),
            payload: row.get(3),
            headers: read_headers(row.get(4)),
            trace: row.get(5),
            attempt: u32::try_from(attempts).unwrap_or(0).saturating_add(1),
            created_at: row.get(8),
            epoch: Epoch::new(0),
        },
        expired: row.get(9),
        behind: behind.map(|behind| Duration::from_micros(positive(behind))),
    }
}

fn view(row: &Row) -> MessageView {
    let attempts: i32 = row.get("attempts");
    let state: &str = row.get("state");
    MessageView {
        id: row.get("id"),
        outbox: row.get("outbox"),
        state: MessageState::from_word(state).unwrap_or(MessageState::Waiting),
        topic: row.get("topic"),
        key: row.get("key"),
        payload: row.get("payload"),
        headers: row.get("headers"),
        delivery_id: read_id(row.get("delivery_id")),
        attempts: u32::try_from(attempts).unwrap_or(0),
        last_error: row.get("last_error"),
        created_at: time(row.get("created_us")),
        at: time(row.get("at_us")),
    }
}
