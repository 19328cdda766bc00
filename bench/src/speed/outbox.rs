//! The outbox: messages to a sink that does nothing, compared with bare statements that read and delete as many rows in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lineclear::outbox::{Delivery, DeliveryError, Outbox, OutboxOptions};
use lineclear_lock::RunnerState;
use lineclear_measure::{interleave, median};
use lineclear_testkit::fresh_postgres;
use tokio::sync::Notify;
use tokio_postgres::Client;

use super::announce;
use crate::measure::{grouped, spread};
use crate::report::{Bound, Unit};
use crate::scratch_db::connect;
use crate::{Database, Figure, Scale};

const MESSAGES: u32 = 50_000;
/// Messages that are delivered, and that wait, in the table that is not empty.
const OTHERS: u32 = 1_000_000;
const ROUNDS: u32 = 5;
/// Of the bare statements.
const LEAST: f64 = 0.4;
/// Of the same outbox without others.
const LEAST_FULL: f64 = 0.9;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    if database == Database::Sqlite {
        return Ok(Vec::new());
    }
    let (messages, others) = (scale.of(MESSAGES), scale.of(OTHERS));
    announce(database, messages, "messages are delivered alternately by an outbox and by bare statements");
    let server = fresh_postgres().await;
    let client = connect(server.url()).await?;
    client
        .batch_execute("create table bare (id bigint generated always as identity primary key, topic text not null, key text, payload json not null)")
        .await?;
    let at = |schema: &str| format!("{}?schema={schema}", server.url());
    let (empty, full) = (Outbox::open(&at("empty")).await?, Outbox::open(&at("full")).await?);
    // Half of the others are ready, behind those that are measured. Those that are delivered are kept, so that no cleaning is measured.
    let delivered = format!(
        "insert into \"full\".outbox_delivered (id, outbox, topic, key, payload, delivery_id, created_at, attempts, delivered_at)
         select -n, 'main', 'order.placed', 'k' || n % 100, '{{\"order\": 1}}', gen_random_uuid(), now(), 1, now() + interval '1 day' from generate_series(1, {others}) n;
         insert into \"full\".outbox_message (topic, key, payload, ready, due_at)
         select 'order.placed', 'w' || n % 100, '{{\"order\": 1}}', false, now() + interval '1 day' from generate_series(1, {others} / 2) n;
         vacuum analyze \"full\".outbox_delivered"
    );
    for statement in delivered.split(';') {
        client.batch_execute(statement).await?;
    }
    let measured = interleave(3, scale.rounds(ROUNDS), async |side| match side {
        0 => bare(&client, messages).await,
        1 => by_outbox(&client, "empty", &empty, messages, 0).await,
        _ => by_outbox(&client, "full", &full, messages, others / 2).await,
    })
    .await?;
    let name = |what: &str| format!("deliver {} messages {what}", grouped(messages));
    let floor = Figure::new(
        database,
        name("to a no-op sink: bare select and delete → outbox"),
        Unit::JobsPerSecond,
        Some(median(&measured[0])),
        median(&measured[1]),
    );
    let with = Figure::new(
        database,
        name(&format!("beside {} delivered and as many that wait", grouped(others))),
        Unit::JobsPerSecond,
        Some(median(&measured[1])),
        median(&measured[2]),
    );
    Ok(vec![
        floor.bound(Some(Bound::AtLeast(LEAST))).note(spread(&measured[0], &measured[1])),
        with.bound(Some(Bound::AtLeast(LEAST_FULL))).note(spread(&measured[1], &measured[2])),
    ])
}

fn insert(into: &str, count: u32) -> String {
    format!(
        "insert into {into} (topic, key, payload) select 'order.placed', 'k' || n % 100, '{{\"order\": 1}}' from generate_series(1, {count}) n"
    )
}

fn rate(count: u32, begun: Instant) -> f64 {
    f64::from(count) / begun.elapsed().as_secs_f64()
}

/// The floor: reads and deletes in batches of the runner's window, each in a transaction.
async fn bare(client: &Client, messages: u32) -> Result<f64> {
    client.batch_execute(&insert("bare", messages)).await?;
    client.batch_execute("vacuum analyze bare").await?;
    let read =
        client.prepare("select id, topic, key, payload::text from bare order by id limit 1000").await?;
    let delete = client.prepare("delete from bare where id = any ($1)").await?;
    let begun = Instant::now();
    let mut left = messages;
    while left > 0 {
        client.batch_execute("begin").await?;
        let ids: Vec<i64> = client.query(&read, &[]).await?.iter().map(|row| row.get(0)).collect();
        client.execute(&delete, &[&ids]).await?;
        client.batch_execute("commit").await?;
        left = left.saturating_sub(u32::try_from(ids.len())?);
    }
    Ok(rate(messages, begun))
}

async fn by_outbox(
    client: &Client,
    schema: &str,
    outbox: &Outbox,
    messages: u32,
    behind: u32,
) -> Result<f64> {
    let table = format!("\"{schema}\".outbox_message");
    client.batch_execute(&format!("delete from {table} where ready")).await?;
    client.batch_execute(&insert(&table, messages)).await?;
    let last: i64 = client.query_one(&format!("select max(id) from {table}"), &[]).await?.get(0);
    if behind > 0 {
        client.batch_execute(&insert(&table, behind)).await?;
    }
    client.batch_execute(&format!("vacuum analyze {table}")).await?;
    let (count, done) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let sink = {
        let (count, done) = (count.clone(), done.clone());
        move |_: Delivery| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == messages {
                done.notify_one();
            }
            std::future::ready(Ok::<(), DeliveryError>(()))
        }
    };
    let runner = outbox.start_with(OutboxOptions::default(), sink).await?;
    // From the moment the lock is won, before anything is read: bare statements need no lock.
    runner.status().wait_for(|status| status.state == RunnerState::Running).await?;
    let begun = Instant::now();
    done.notified().await;
    // To the moment the last one of those that are measured is recorded. Others may be behind them. In the order of the index: a
    // question that reads the whole table would be measured, too.
    let left = format!(
        "select coalesce((select id from {table} where ready and outbox >= 'main' order by outbox, id limit 1) <= {last}, false)"
    );
    while client.query_one(&left, &[]).await?.get(0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let rate = rate(messages, begun);
    runner.stop().await?;
    ensure!(count.load(Ordering::Relaxed) >= messages, "all were delivered");
    Ok(rate)
}
