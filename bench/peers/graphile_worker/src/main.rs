//! graphile_worker, the Rust port of Graphile Worker: https://docs.rs/graphile_worker
//!
//! It deletes completed jobs. Its own benchmark (`benches/perf_test.rs`) uses a local queue, completions that are batched for 5 ms, and
//! hundreds of jobs at once.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker, WorkerContext,
    WorkerOptions, WorkerUtils,
};
use peer_harness::{Bulk, INPUT, Peer, Request, Runs, Verb, locked_version};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinHandle;

const SCHEMA: &str = "graphile_worker";
/// A connection for each of sixteen callers, and some for the worker.
const CONNECTIONS: u32 = 32;
const CONCURRENCY: usize = 100;
const LOCAL_QUEUE: usize = 2_000;
const BATCH_DELAY: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mail {
    to: String,
}

#[derive(Clone, Debug)]
struct Counter(Arc<Runs>);

impl TaskHandler for Mail {
    const IDENTIFIER: &'static str = "mail.send";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(counter) = context.get_ext::<Counter>() {
            counter.0.begin();
        }
        Ok::<(), String>(())
    }
}

struct GraphileWorker {
    pool: PgPool,
    utils: WorkerUtils,
    /// For many short jobs; its latency is best without.
    wide: bool,
}

impl Peer for GraphileWorker {
    type Workers = (Arc<Worker>, JoinHandle<()>);

    fn version() -> Result<String> {
        locked_version(include_str!("../Cargo.lock"), "graphile_worker")
    }

    fn describe(request: &Request) -> String {
        let Bulk { callers, batch } = Self::bulk(request);
        let worker = if request.best() {
            format!(
                "concurrency {CONCURRENCY}, local queue of {LOCAL_QUEUE}, completions batched for 5 ms; latency: the defaults"
            )
        } else {
            "the defaults of `WorkerOptions`: a job per core and second, or per notification".to_owned()
        };
        format!("{worker}; bulk: `add_raw_jobs` with {batch} jobs, {callers} at a time")
    }

    fn bulk(request: &Request) -> Bulk {
        Bulk { callers: if request.best() { 4 } else { 1 }, batch: 1_000 }
    }

    async fn connect(request: &Request) -> Result<GraphileWorker> {
        let options = PgPoolOptions::new();
        let options = if request.best() { options.max_connections(CONNECTIONS) } else { options };
        let pool = options.connect(&request.url).await?;
        let utils = WorkerUtils::new(pool.clone(), SCHEMA);
        Ok(GraphileWorker { pool, utils, wide: request.best() && request.verb != Verb::Latency })
    }

    async fn setup(&self) -> Result<()> {
        Ok(self.utils.migrate().await?)
    }

    async fn enqueue(&self) -> Result<()> {
        let mail: Mail = serde_json::from_str(INPUT)?;
        self.utils.add_job(mail, JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, jobs: usize) -> Result<()> {
        let job = RawJobSpec {
            identifier: Mail::IDENTIFIER.to_owned(),
            payload: serde_json::from_str(INPUT)?,
            spec: JobSpec::default(),
        };
        self.utils.add_raw_jobs(&vec![job; jobs]).await?;
        Ok(())
    }

    async fn start(&self, runs: Arc<Runs>) -> Result<Self::Workers> {
        let options = WorkerOptions::default()
            .schema(SCHEMA)
            .pg_pool(self.pool.clone())
            .listen_os_shutdown_signals(false)
            .add_extension(Counter(runs))
            .define_job::<Mail>();
        let options = if self.wide {
            options
                .concurrency(CONCURRENCY)
                .complete_job_batch_delay(BATCH_DELAY)
                .local_queue(LocalQueueConfig::default().with_size(LOCAL_QUEUE))
        } else {
            options
        };
        let worker = Arc::new(options.init().await?);
        let running = worker.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = running.run().await {
                eprintln!("the worker has ended: {error}");
            }
        });
        Ok((worker, task))
    }

    async fn stop((worker, task): Self::Workers) -> Result<()> {
        worker.request_shutdown();
        Ok(task.await?)
    }

    async fn left(&self) -> Result<u64> {
        let query = "select count(*) from graphile_worker._private_jobs";
        let left: i64 = sqlx::query_scalar(query).fetch_one(&self.pool).await?;
        Ok(u64::try_from(left)?)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    peer_harness::run::<GraphileWorker>(std::env::args().skip(1)).await
}
