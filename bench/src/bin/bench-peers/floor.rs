//! The floor: a queue of two tables and three statements, without handlers, leases, retries, limits or names of kinds.
//!
//! What a queue that keeps history cannot do much faster on this machine.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use peer_harness::{Bulk, INPUT, Peer, Request, Runs, Verb};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

const SETUP: &str = "
    create schema floor;
    create table floor.job (id bigint generated always as identity primary key, input text not null,
                            taken boolean not null default false);
    create index on floor.job (id) where not taken;
    create table floor.done (id bigint not null, input text not null, done_at timestamptz not null default now())";
const INSERT: &str = "insert into floor.job (input) values ($1)";
const INSERT_MANY: &str = "insert into floor.job (input) select unnest($1::text[])";
const TAKE: &str = "
    update floor.job set taken = true
    where  id = any (array (select id from floor.job where not taken order by id limit 500 for update skip locked))
    returning id";
const FINISH: &str = "
    with gone as (delete from floor.job where id = any ($1) returning id, input)
    insert into floor.done (id, input) select id, input from gone";

/// Connections that enqueue, and that work.
const PRODUCERS: usize = 16;
const WORKERS: usize = 4;
/// How long a worker without jobs waits, when nothing wakes it.
const POLL: Duration = Duration::from_millis(1);
const POLL_IF_WOKEN: Duration = Duration::from_secs(1);

pub(crate) struct Floor {
    producers: Vec<Producer>,
    turn: AtomicUsize,
    url: String,
    /// Jobs are announced for the latency alone: a NOTIFY costs a commit of its own.
    notify: bool,
}

struct Producer {
    client: Client,
    one: Statement,
    many: Statement,
}

impl Peer for Floor {
    type Workers = JoinSet<Result<()>>;

    fn version() -> Result<String> {
        Ok("PostgreSQL alone".to_owned())
    }

    fn describe(request: &Request) -> String {
        let Bulk { callers, batch } = Self::bulk(request);
        format!("{WORKERS} connections take 500 jobs per statement; bulk: {batch} rows, {callers} at a time")
    }

    fn bulk(request: &Request) -> Bulk {
        Bulk { callers: if request.best() { 4 } else { 1 }, batch: 1_000 }
    }

    async fn connect(request: &Request) -> Result<Floor> {
        let floor = Floor {
            producers: Vec::new(),
            turn: AtomicUsize::new(0),
            url: request.url.clone(),
            notify: request.verb == Verb::Latency,
        };
        if request.verb == Verb::Setup {
            return Ok(floor);
        }
        let mut producers = Vec::new();
        for _ in 0..PRODUCERS {
            let client = crate::server::connect(&floor.url).await?;
            let (one, many) = (client.prepare(INSERT).await?, client.prepare(INSERT_MANY).await?);
            producers.push(Producer { client, one, many });
        }
        Ok(Floor { producers, ..floor })
    }

    async fn setup(&self) -> Result<()> {
        Ok(crate::server::connect(&self.url).await?.batch_execute(SETUP).await?)
    }

    async fn enqueue(&self) -> Result<()> {
        let producer = self.producer();
        producer.client.execute(&producer.one, &[&INPUT]).await?;
        if self.notify {
            producer.client.batch_execute("notify floor").await?;
        }
        Ok(())
    }

    async fn enqueue_many(&self, jobs: usize) -> Result<()> {
        let producer = self.producer();
        producer.client.execute(&producer.many, &[&vec![INPUT; jobs]]).await?;
        Ok(())
    }

    async fn start(&self, runs: Arc<Runs>) -> Result<JoinSet<Result<()>>> {
        let mut workers = JoinSet::new();
        let mut wakes = if self.notify { Some(listen(&self.url, &mut workers).await?) } else { None };
        // One connection suffices for the latency.
        for _ in 0..if self.notify { 1 } else { WORKERS } {
            let (url, runs, wake) = (self.url.clone(), runs.clone(), wakes.take());
            workers.spawn(work(url, runs, wake));
        }
        Ok(workers)
    }

    async fn stop(mut workers: JoinSet<Result<()>>) -> Result<()> {
        workers.shutdown().await;
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        crate::server::number(&self.url, "select count(*) from floor.job").await
    }
}

impl Floor {
    fn producer(&self) -> &Producer {
        &self.producers[self.turn.fetch_add(1, Ordering::Relaxed) % self.producers.len()]
    }
}

async fn work(url: String, runs: Arc<Runs>, wake: Option<Arc<Notify>>) -> Result<()> {
    let client = crate::server::connect(&url).await?;
    // A plan that is made on an empty table is slow on a full one.
    client.batch_execute("set plan_cache_mode = force_custom_plan").await?;
    let (take, finish) = (client.prepare(TAKE).await?, client.prepare(FINISH).await?);
    loop {
        let ids: Vec<i64> = client.query(&take, &[]).await?.iter().map(|row| row.get(0)).collect();
        if ids.is_empty() {
            match &wake {
                Some(wake) => drop(tokio::time::timeout(POLL_IF_WOKEN, wake.notified()).await),
                None => tokio::time::sleep(POLL).await,
            }
            continue;
        }
        ids.iter().for_each(|_| runs.begin());
        client.execute(&finish, &[&ids]).await?;
    }
}

/// Wakes whenever a notification arrives.
async fn listen(url: &str, tasks: &mut JoinSet<Result<()>>) -> Result<Arc<Notify>> {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
    let wake = Arc::new(Notify::new());
    let waker = wake.clone();
    tasks.spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message?, AsyncMessage::Notification(_)) {
                waker.notify_one();
            }
        }
        Ok(())
    });
    client.batch_execute("listen floor").await.context("listening")?;
    tasks.spawn(async move {
        // The connection ends with its client.
        std::future::pending::<()>().await;
        drop(client);
        Ok(())
    });
    Ok(wake)
}
