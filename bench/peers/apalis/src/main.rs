//! apalis with apalis-postgres: https://docs.rs/apalis-postgres
//!
//! It keeps completed jobs. Its own example of a fast worker takes large batches without a second lock, and is woken by notifications.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use peer_harness::{Bulk, Peer, Request, Runs, Verb, locked_version};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::runtime::Handle;
use tokio::sync::watch;

const QUEUE: &str = "mail.send";
/// A connection for each of sixteen callers, and some for the workers.
const CONNECTIONS: u32 = 32;
const BATCH: usize = 1_000;
const WORKERS: usize = 4;
/// Without one, a worker that missed a notification waits for its next heartbeat. The default is the documentation's.
const INTERVAL: Duration = Duration::from_millis(100);
const INTERVAL_OF_DOCUMENTATION: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mail {
    to: String,
}

struct Apalis {
    pool: PgPool,
    best: bool,
    latency: bool,
}

fn mail() -> Mail {
    Mail { to: "ops".to_owned() }
}

async fn send(_: Mail, runs: Data<Arc<Runs>>) -> Result<(), BoxDynError> {
    runs.begin();
    Ok(())
}

/// Runs a worker as a program's `main` does: the future of a worker with `parallelize` cannot be spawned.
fn on_a_thread<F: Future<Output = Result<(), WorkerError>>>(
    mut stopped: watch::Receiver<bool>,
    worker: impl FnOnce() -> F + Send + 'static,
) {
    let runtime = Handle::current();
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                ended = worker() => eprintln!("a worker has ended: {ended:?}"),
                _ = stopped.changed() => {}
            }
        });
    });
}

impl Apalis {
    fn storage(&self) -> PostgresStorage<Mail> {
        let config = Config::default().queue(QUEUE);
        let config = if self.best { config.batch_size(BATCH).lock_tasks(false) } else { config };
        PostgresStorage::new(&self.pool).with_config(config)
    }
}

impl Peer for Apalis {
    type Workers = watch::Sender<bool>;

    fn version() -> Result<String> {
        locked_version(include_str!("../Cargo.lock"), "apalis-postgres")
    }

    fn describe(request: &Request) -> String {
        let Bulk { callers, batch } = Self::bulk(request);
        let worker = if request.best() {
            format!(
                "{WORKERS} workers (1 for the latency), `batch_size` {BATCH}, `lock_tasks` off, `with_pubsub`, `poll_with_interval` 100 ms, `parallelize(tokio::spawn)`"
            )
        } else {
            "one worker, the defaults of `Config`, `with_pubsub` and `poll_with_interval` 5 s (alone, it looks at heartbeats only)".to_owned()
        };
        format!("{worker}; bulk: `push_bulk` with {batch} jobs, {callers} at a time")
    }

    fn bulk(request: &Request) -> Bulk {
        Bulk { callers: if request.best() { 4 } else { 1 }, batch: 1_000 }
    }

    async fn connect(request: &Request) -> Result<Apalis> {
        let options = PgPoolOptions::new();
        let options = if request.best() { options.max_connections(CONNECTIONS) } else { options };
        let pool = options.connect(&request.url).await?;
        Ok(Apalis { pool, best: request.best(), latency: request.verb == Verb::Latency })
    }

    async fn setup(&self) -> Result<()> {
        PostgresStorage::setup(&self.pool).await.map_err(|error| anyhow!("{error}"))
    }

    async fn enqueue(&self) -> Result<()> {
        self.storage().push(mail()).await.map_err(|error| anyhow!("{error}"))
    }

    async fn enqueue_many(&self, jobs: usize) -> Result<()> {
        self.storage().push_bulk(vec![mail(); jobs]).await.map_err(|error| anyhow!("{error}"))
    }

    async fn start(&self, runs: Arc<Runs>) -> Result<watch::Sender<bool>> {
        let (stop, stopped) = watch::channel(false);
        if !self.best {
            let storage = self.storage().with_pubsub().poll_with_interval(INTERVAL_OF_DOCUMENTATION);
            on_a_thread(stopped, move || {
                WorkerBuilder::new("mail").backend(storage).data(runs).build(send).run()
            });
            return Ok(stop);
        }
        for number in 0..if self.latency { 1 } else { WORKERS } {
            let storage = self.storage().with_pubsub().poll_with_interval(INTERVAL);
            let runs = runs.clone();
            on_a_thread(stopped.clone(), move || {
                WorkerBuilder::new(format!("mail-{number}"))
                    .backend(storage)
                    .parallelize(tokio::spawn)
                    .data(runs)
                    .build(send)
                    .run()
            });
        }
        Ok(stop)
    }

    async fn stop(stop: watch::Sender<bool>) -> Result<()> {
        stop.send_replace(true);
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let query = "select count(*) from apalis.jobs where status <> 'Done'";
        let left: i64 = sqlx::query_scalar(query).fetch_one(&self.pool).await?;
        Ok(u64::try_from(left)?)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    peer_harness::run::<Apalis>(std::env::args().skip(1)).await
}
