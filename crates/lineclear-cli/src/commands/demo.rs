//! `lineclear demo`: a small cluster that runs, fails and recovers.

mod chaos;
mod cluster;
mod kinds;
mod node;
mod manifests;
mod orders;
mod event_log;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use lineclear::node::Signals;
use lineclear::store::{ChangeSource, EnqueueResult};
use lineclear::{Lineclear, Node, NodeOptions, Role};
use lineclear_http::{DatabaseLocks, HttpOptions, Server};
use tokio_util::sync::CancellationToken;

use crate::config::parse_duration;
use crate::failure::Failure;
use crate::runtime::block_on_all_cores;

use chaos::{Chaos, Seen};
use cluster::Cluster;
use event_log::EventLog;
pub(crate) use node::DemoNode;
use orders::Orders;

const EXAMPLES: &str = "Examples:
  lineclear demo
  lineclear demo --for 60s --port 0 --json-log
  lineclear demo --nodes 5 --chaos --rate 20
  lineclear demo --db postgres://postgres@localhost/demo

Within a minute a job completes, another fails and is retried, another becomes a dead letter, orders become e-mails through an outbox,
and the nodes that lead and that deliver the outbox are killed and others take over. Ctrl-C ends the demo and removes everything.";

/// How often to read which node leads.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// How often an order is placed.
const ORDER_EVERY: Duration = Duration::from_secs(3);
/// Runners that are read: one for each node.
const RUNNERS_MAX: u32 = 100;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Number of nodes, each a process
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=16))]
    nodes: u8,
    /// PostgreSQL URL or SQLite file [default: a temporary file]
    #[arg(long, value_name = "URL", env = "LINECLEAR_DEMO_DB", hide_env_values = true)]
    db: Option<String>,
    /// Port of the HTTP API; 0 picks a free one
    #[arg(long, default_value_t = lineclear_http::PORT)]
    port: u16,
    /// End after this time, such as 60s
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
    /// Kill nodes again and again
    #[arg(long)]
    chaos: bool,
    /// Additional jobs per second
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    rate: u32,
    /// Seed of the random choices of --chaos
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON lines
    #[arg(long)]
    json_log: bool,
}

impl Demo {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on_all_cores(self.run_demo())
    }

    async fn run_demo(self) -> Result<(), Failure> {
        let mut signals =
            Signals::new().map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::failed(format!("cannot create a temporary folder: {error}")))?;
        let file = folder.path().join("demo.db").display().to_string();
        let db = self.db.clone().unwrap_or(file);
        let node = start_observer(&db).await?;
        let locks = DatabaseLocks::new(&db).map_err(|error| Failure::failed(error.to_string()))?;
        let registry = locks.registry().clone();
        let (address, serving, ended) = serve(&node, self.port, locks).await?;
        let mut log = EventLog::new(self.json_log);
        let store = match self.db {
            Some(_) => node.store().options().to_string(),
            None => "temporary SQLite file".to_owned(),
        };
        log.note(&format!(
            "lineclear {} · {store} · {} nodes, each a process",
            env!("CARGO_PKG_VERSION"),
            self.nodes
        ));
        log.note(&format!("dashboard  http://{address}/"));
        log.note(&format!("API  http://{address}/api/v1   try: curl http://{address}/api/v1/jobs"));
        let mut orders = Orders::open(&db).await.map_err(Failure::failed)?;
        let mut cluster = Cluster::start(&db, self.nodes)?;
        let mut chaos = Chaos::new(self.chaos, self.seed);
        let end = self.time.map(|time| Instant::now() + time);
        let mut next_order = tokio::time::interval(ORDER_EVERY);
        let (mut poll, mut last_enqueue) = (tokio::time::interval(POLL_EVERY), Instant::now());
        loop {
            tokio::select! {
                () = signals.next() => break,
                Some(event) = cluster.next() => log.job(event),
                _ = next_order.tick() => match orders.place().await {
                    Ok(order) => log.order(order),
                    // The database may be busy for a moment.
                    Err(why) => log.note(&why),
                },
                _ = poll.tick() => {
                    let leader = registry.lease("planner").await.ok().and_then(|leases| leases.into_iter().next());
                    let runners = registry.runners(RUNNERS_MAX).await.unwrap_or_default();
                    chaos.act(&mut cluster, &Seen { leader, runners }, &mut log)?;
                    last_enqueue = self.enqueue_more(&node, last_enqueue).await?;
                }
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
        }
        log.note("stopping: nodes finish their running jobs");
        cluster.stop().await;
        orders.remove().await.map_err(Failure::failed)?;
        ended.cancel();
        drop(serving.await);
        node.stop().await;
        log.summary();
        Ok(())
    }

    /// Enqueues as many jobs as `--rate` demands since the last time.
    async fn enqueue_more(&self, node: &Node, since: Instant) -> Result<Instant, Failure> {
        let now = Instant::now();
        let due = (now - since).as_secs_f64() * f64::from(self.rate);
        if due < 1.0 {
            return Ok(if self.rate == 0 { now } else { since });
        }
        let jobs = vec![kinds::extra(); due as usize];
        let made = node.client().enqueue_jobs(jobs).await?;
        debug_assert!(made.iter().all(|one| one.result == EnqueueResult::Inserted));
        Ok(now)
    }
}

/// Declares the manifests, and starts a node that serves the API and runs no jobs.
async fn start_observer(db: &str) -> Result<Node, Failure> {
    let options = NodeOptions {
        roles: vec![Role::Cleaner],
        heartbeat: Duration::from_secs(1),
        ..NodeOptions::default()
    };
    let builder = Lineclear::builder().store(db).options(options).name("observer");
    let node = builder.start().await.map_err(|error| Failure::failed(error.to_string()))?;
    node.store().upsert_manifests(manifests::all()?, ChangeSource::Declaration).await?;
    node.client().enqueue_jobs(vec![kinds::permanent_failure()]).await?;
    Ok(node)
}

type Serving = tokio::task::JoinHandle<std::io::Result<()>>;

async fn serve(
    node: &Node,
    port: u16,
    locks: DatabaseLocks,
) -> Result<(SocketAddr, Serving, CancellationToken), Failure> {
    let bind = SocketAddr::from(([127, 0, 0, 1], port));
    let options = HttpOptions { bind, locks: Some(locks), ..HttpOptions::default() };
    let server = Server::bind(options, node.client(), None).await.map_err(|error| {
        Failure::failed(error.to_string()).hint("choose another port with --port, or --port 0 for a free one")
    })?;
    let (address, ended) = (server.address(), CancellationToken::new());
    Ok((address, tokio::spawn(server.run(ended.clone().cancelled_owned())), ended))
}
