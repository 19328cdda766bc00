//! The event log: appends of many writers, compared with bare inserts into a table with the same columns, and with appends beside a million events;
//! and a subscription that reads it, also with a million events before its checkpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lineclear::outbox::{
    EventLog, ExpectedVersion, HandlerError, NewEvent, Page, PostgresHandler, Start, SubscriptionOptions,
};
use lineclear_measure::{interleave, median};
use lineclear_testkit::fresh_postgres;
use tokio_postgres::Client;

use super::announce;
use crate::measure::{grouped, spread};
use crate::report::{Bound, Unit};
use crate::scratch_db::connect;
use crate::{Database, Figure, Scale};

const WRITERS: u32 = 16;
const APPENDS: u32 = 16_000;
const READ: u32 = 100_000;
/// Events before the checkpoint, in the log that is not empty.
const BEFORE: u32 = 1_000_000;
const ROUNDS: u32 = 5;
/// Of the bare inserts.
const LEAST: f64 = 0.7;
/// Of the same subscription, and of the same appends, without a million other events.
const LEAST_FULL: f64 = 0.9;
const STALL: Duration = Duration::from_secs(600);
/// Streams and subscriptions of each round are new.
static ROUND: AtomicU32 = AtomicU32::new(0);

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    if database == Database::Sqlite {
        return Ok(Vec::new());
    }
    let appends = scale.of(APPENDS / WRITERS) * WRITERS;
    let (read, before) = (scale.of(READ), scale.of(BEFORE));
    announce(database, appends, "events are appended alternately by the log and by bare inserts");
    let server = fresh_postgres().await;
    let client = connect(server.url()).await?;
    client
        .batch_execute(
            "create table bare (position bigint generated always as identity primary key, event_id uuid not null default gen_random_uuid(),
             stream text not null, version bigint not null, type text not null, payload json not null, headers json, trace text,
             created_at timestamptz not null default clock_timestamp(), unique (stream, version))",
        )
        .await?;
    let at = |schema: &str| format!("{}?schema={schema}", server.url());
    let (written, empty, full) = (
        EventLog::open(&at("written")).await?,
        EventLog::open(&at("empty")).await?,
        EventLog::open(&at("full")).await?,
    );
    fill(&client, "full", before).await?;
    let measured = interleave(5, scale.rounds(ROUNDS), async |side| match side {
        0 => write(server.url(), appends, None).await,
        1 => write(server.url(), appends, Some(&written)).await,
        2 => subscribe(&client, "empty", &empty, read).await,
        3 => subscribe(&client, "full", &full, read).await,
        _ => write(server.url(), appends, Some(&full)).await,
    })
    .await?;
    let name = |what: String| format!("events: {what}");
    let append = Figure::new(
        database,
        name(format!("append {} by {WRITERS} writers: bare insert → append", grouped(appends))),
        Unit::JobsPerSecond,
        Some(median(&measured[0])),
        median(&measured[1]),
    );
    let beside = Figure::new(
        database,
        name(format!("… append beside {}", grouped(before))),
        Unit::JobsPerSecond,
        Some(median(&measured[1])),
        median(&measured[4]),
    );
    let alone = Figure::new(
        database,
        name(format!("a subscription reads {} into a no-op handler", grouped(read))),
        Unit::JobsPerSecond,
        None,
        median(&measured[2]),
    );
    let behind = Figure::new(
        database,
        name(format!("… with {} before its checkpoint", grouped(before))),
        Unit::JobsPerSecond,
        Some(median(&measured[2])),
        median(&measured[3]),
    );
    Ok(vec![
        append.bound(Some(Bound::AtLeast(LEAST))).note(spread(&measured[0], &measured[1])),
        beside.bound(Some(Bound::AtLeast(LEAST_FULL))).note(spread(&measured[1], &measured[4])),
        alone.note(format!("{} rounds", measured[2].len())),
        behind.bound(Some(Bound::AtLeast(LEAST_FULL))).note(spread(&measured[2], &measured[3])),
    ])
}

fn rate(count: u32, begun: Instant) -> f64 {
    f64::from(count) / begun.elapsed().as_secs_f64()
}

/// Adds events in one statement: what stands in the log is not what is measured.
async fn fill(client: &Client, schema: &str, count: u32) -> Result<()> {
    client
        .batch_execute(&format!(
            "insert into \"{schema}\".event (stream, version, type, payload)
             select 'order-' || n % 1000, (select coalesce(max(version), 0) from \"{schema}\".event_stream) + n, 'order.placed', '{{\"item\": \"tea\"}}'
             from generate_series(1, {count}) n"
        ))
        .await?;
    client
        .batch_execute(&format!(
            "insert into \"{schema}\".event_stream as s (stream, version) values ('order-0', {count})
             on conflict (stream) do update set version = s.version + excluded.version"
        ))
        .await?;
    client.batch_execute(&format!("vacuum analyze \"{schema}\".event")).await?;
    Ok(())
}

/// Each writer appends to a stream of its own, in transactions of one event.
async fn write(url: &str, appends: u32, log: Option<&EventLog>) -> Result<f64> {
    let mut clients = Vec::new();
    for _ in 0..WRITERS {
        clients.push(connect(url).await?);
    }
    let begun = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for (writer, mut client) in clients.into_iter().enumerate() {
        let log = log.cloned();
        let stream = format!("order-{writer}-{}", ROUND.fetch_add(1, Ordering::Relaxed));
        writers.spawn(async move {
            for version in 1..=i64::from(appends / WRITERS) {
                let transaction = client.transaction().await?;
                match &log {
                    Some(log) => {
                        let event = NewEvent::new("order.placed", &serde_json::json!({"item": "tea"}))?;
                        log.append_postgres(&transaction, &stream, ExpectedVersion::Any, &[event]).await?;
                    }
                    None => {
                        let sql = "insert into bare (stream, version, type, payload) values ($1, $2, 'order.placed', '{\"item\": \"tea\"}')";
                        use tokio_postgres::types::Type;
                        transaction.execute_typed(sql, &[(&stream, Type::TEXT), (&version, Type::INT8)]).await?;
                    }
                }
                transaction.commit().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(rate(appends, begun))
}

/// Counts, and does nothing else.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicI64>);

impl PostgresHandler for Counter {
    async fn handle(
        &self,
        page: &Page,
        _transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<(), HandlerError> {
        self.0.fetch_add(i64::try_from(page.events.len()).unwrap_or(i64::MAX), Ordering::Relaxed);
        Ok(())
    }
}

/// A new subscription reads the events that are added after its checkpoint.
async fn subscribe(client: &Client, schema: &str, log: &EventLog, count: u32) -> Result<f64> {
    let name = format!("reader-{}", ROUND.fetch_add(1, Ordering::Relaxed));
    let start = Start::After(log.head().await?);
    fill(client, schema, count).await?;
    let counter = Counter::default();
    let options = SubscriptionOptions { start, ..SubscriptionOptions::default() };
    let begun = Instant::now();
    let running = log.subscribe_postgres(&name, options, counter.clone()).await?;
    ensure!(log.wait_until_caught_up(&name, STALL).await?, "the subscription did not catch up");
    let rate = rate(count, begun);
    running.stop().await?;
    ensure!(counter.0.load(Ordering::Relaxed) == i64::from(count), "all were handled, once");
    Ok(rate)
}
