//! riverqueue, the Rust client of River: https://docs.rs/riverqueue
//!
//! It keeps completed jobs for a day. Its own benchmark (`riverqueue bench`) fetches every 2 ms, and polls every 20 ms.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use peer_harness::{Bulk, Peer, Request, Runs, Verb, locked_version};
use riverqueue::migrate::PostgresMigrator;
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::sqlx::{self, PgPool};
use riverqueue::{BoxError, Client, Job, JobArgs, QueueConfig, RunHandle, WorkContext, WorkOutcome, Workers};
use serde::{Deserialize, Serialize};

/// A connection for each of sixteen callers, and some for the worker.
const CONNECTIONS: u32 = 24;
/// Of its quick start.
const WORKERS_OF_DOCUMENTATION: usize = 10;
const WORKERS: usize = 5_000;
const WORKERS_IDLE: usize = 100;
const FETCH: Duration = Duration::from_millis(2);
const POLL: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "mail.send")]
struct Mail {
    to: String,
}

struct River {
    pool: PgPool,
    client: Client,
    best: bool,
    workers: usize,
}

fn mail() -> Mail {
    Mail { to: "ops".to_owned() }
}

fn workers(request: &Request) -> usize {
    match (request.best(), request.verb) {
        (false, _) => WORKERS_OF_DOCUMENTATION,
        (true, Verb::Latency) => WORKERS_IDLE,
        (true, _) => WORKERS,
    }
}

impl Peer for River {
    type Workers = RunHandle;

    fn version() -> Result<String> {
        locked_version(include_str!("../Cargo.lock"), "riverqueue")
    }

    fn describe(request: &Request) -> String {
        let Bulk { callers, batch } = Self::bulk(request);
        let worker = if request.best() {
            format!(
                "{WORKERS} workers ({WORKERS_IDLE} for the latency), fetch cooldown 2 ms, poll interval 20 ms"
            )
        } else {
            format!("{WORKERS_OF_DOCUMENTATION} workers")
        };
        format!("{worker}; bulk: `insert_many` with {batch} jobs, {callers} at a time")
    }

    fn bulk(request: &Request) -> Bulk {
        // A round trip per row: a larger call is no faster.
        Bulk { callers: if request.best() { 8 } else { 1 }, batch: 1_000 }
    }

    async fn connect(request: &Request) -> Result<River> {
        let options = PgPoolOptions::new();
        let options = if request.best() { options.max_connections(CONNECTIONS) } else { options };
        let pool = options.connect(&request.url).await?;
        let client = Client::builder(pool.clone()).build()?;
        Ok(River { pool, client, best: request.best(), workers: workers(request) })
    }

    async fn setup(&self) -> Result<()> {
        PostgresMigrator::new(self.pool.clone()).migrate_up().await?;
        Ok(())
    }

    async fn enqueue(&self) -> Result<()> {
        self.client.insert(mail()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, jobs: usize) -> Result<()> {
        self.client.insert_many(vec![mail(); jobs]).await?;
        Ok(())
    }

    async fn start(&self, runs: Arc<Runs>) -> Result<RunHandle> {
        let mut workers = Workers::new();
        workers.add_fn(move |_: WorkContext, _: Job<Mail>| {
            runs.begin();
            async { Ok::<_, BoxError>(WorkOutcome::Complete) }
        })?;
        let (builder, queue) =
            (Client::builder(self.pool.clone()).workers(workers), QueueConfig::new(self.workers));
        let client = if self.best {
            builder.fetch_cooldown(FETCH).queue("default", queue.with_fetch_poll_interval(POLL)).build()?
        } else {
            builder.queue("default", queue).build()?
        };
        Ok(client.start()?)
    }

    async fn stop(mut workers: RunHandle) -> Result<()> {
        workers.stop().await?;
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let query = "select count(*) from river_job where state <> 'completed'";
        let left: i64 = sqlx::query_scalar(query).fetch_one(&self.pool).await?;
        Ok(u64::try_from(left)?)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    peer_harness::run::<River>(std::env::args().skip(1)).await
}
