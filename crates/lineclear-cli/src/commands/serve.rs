//! `lineclear serve` and `lineclear work`: a node, with or without the HTTP API.

mod door;
mod log;
#[cfg(feature = "otlp")]
mod otlp;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lineclear::node::{Builder, Signals, StartError};
use lineclear::{Client, Lineclear, Node, NodeOptions};
use lineclear_http::{HttpOptions, ServeError, Server, ShownLocks};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Flags, roles, span};
use crate::failure::{Failure, say};
use crate::kinds;

const SERVE_EXAMPLES: &str = "Examples:
  lineclear serve
  lineclear serve --db postgres://scheduler@db.internal/app --port 8080
  lineclear serve --roles planner,cleaner --manifests orders.toml
  LINECLEAR_DB=postgres://scheduler@db.internal/app lineclear serve
  lineclear serve --bind 0.0.0.0 --auth token
  lineclear serve --bind 10.0.0.7 --auth proxy --proxy-peers 10.0.0.5 --proxy-scope operate

A second terminal with the same --db and another --port is a second node.
Settings: flag > LINECLEAR_* > ./lineclear.toml > the user's own file > default (`lineclear config show --origin`).";

const WORK_EXAMPLES: &str = "Examples:
  lineclear work --db postgres://scheduler@db.internal/app
  lineclear work --slots 32 --shutdown-grace 5m";

/// Bounds of histograms, in seconds: from a statement to a long job.
const BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0];
const UPKEEP: Duration = Duration::from_secs(5);
/// How long statements that nobody waits for may go on when we end.
const STATEMENTS: Duration = Duration::from_secs(2);

/// Settings that both have.
#[derive(Args)]
struct Common {
    /// postgres://user@host/database?schema=lineclear, or a SQLite file [default: lineclear.db]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// Jobs to run at once [default: cores × 4]
    #[arg(long, value_name = "N")]
    slots: Option<String>,
    /// Without renewal for so long, a job is given to another node [default: 30s]
    #[arg(long, value_name = "TIME")]
    lease: Option<String>,
    /// How often the node says that it is alive [default: 10s]
    #[arg(long, value_name = "TIME")]
    heartbeat: Option<String>,
    /// How often it looks for work when nobody nudges it [default: 1s]
    #[arg(long, value_name = "TIME")]
    poll: Option<String>,
    /// How long handlers may go on when it stops [default: 30s]
    #[arg(long, value_name = "TIME")]
    shutdown_grace: Option<String>,
    /// Programs that jobs of the kind command may run, by their whole path [default: none]
    #[arg(long, value_name = "PROGRAMS")]
    commands: Option<String>,
    /// error, warn, info, debug, trace or off [default: info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// A collector of traces, such as http://127.0.0.1:4318; spans go there by OTLP
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// This file, instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct Serve {
    #[command(flatten)]
    common: Common,
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "IP")]
    bind: Option<String>,
    /// The port to listen on; 0 takes a free one [default: 7171]
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    #[command(flatten)]
    door: door::Door,
    /// What the node does: planner, dispatcher, workers, cleaner [default: all]
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
    /// Files with manifests to declare at the start
    #[arg(long, value_name = "FILES")]
    manifests: Option<String>,
}

#[derive(Args)]
#[command(after_help = WORK_EXAMPLES)]
pub(crate) struct Work {
    #[command(flatten)]
    common: Common,
}

impl Common {
    fn flags(&self) -> Flags {
        let all = [
            ("db", &self.db),
            ("slots", &self.slots),
            ("lease", &self.lease),
            ("heartbeat", &self.heartbeat),
            ("poll", &self.poll),
            ("shutdown_grace", &self.shutdown_grace),
            ("commands", &self.commands),
            ("log", &self.log),
            ("log_format", &self.log_format),
            ("otlp", &self.otlp),
        ];
        all.into_iter().filter_map(|(name, value)| value.clone().map(|value| (name, value))).collect()
    }
}

/// Whether a server could have these settings.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    options(config)?;
    door::limits(config)?;
    kinds::check(config)
}

/// Whether it may listen where it would.
pub(crate) fn listens(config: &Config) -> Result<(), Failure> {
    let (bind, access) = (config.address()?, door::access(config)?);
    let http = HttpOptions { bind, access, ..HttpOptions::default() };
    http.check().map_err(|error| Failure::usage(error.to_string()))
}

impl Serve {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut flags = self.common.flags();
        let more =
            [("bind", self.bind), ("port", self.port), ("roles", self.roles), ("manifests", self.manifests)];
        flags.extend(more.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
        flags.extend(self.door.flags());
        let config = Config::read(&flags, self.common.config)?;
        let (bind, access, limits) = (config.address()?, door::access(&config)?, door::limits(&config)?);
        let base_path = config.text("base_path").to_owned();
        let http = HttpOptions { bind, access, limits, base_path, ..HttpOptions::default() };
        // Before anything is done to the database.
        http.check().map_err(|error| Failure::usage(error.to_string()))?;
        block_on(async { run(&config, Some(HttpOptions { locks: Some(locks(&config)?), ..http })).await })
    }
}

impl Work {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut flags = self.common.flags();
        flags.insert("roles", "dispatcher,workers".to_owned());
        let config = Config::read(&flags, self.common.config)?;
        block_on(run(&config, None))
    }
}

fn block_on(future: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(future);
    // A statement that nobody waits for any more must not keep us: what it has not committed is not written.
    runtime.shutdown_timeout(STATEMENTS);
    ended
}

/// Who holds which lock, as the nodes and `lineclear lock` write it into the same database.
fn locks(config: &Config) -> Result<ShownLocks, Failure> {
    let bad = |error: lineclear_lock::LockError| config.bad("db", &error.to_string());
    ShownLocks::of(config.text("db")).map_err(bad)
}

fn options(config: &Config) -> Result<NodeOptions, Failure> {
    let time = |name: &str| span(config.text(name)).map_err(|why| config.bad(name, &why));
    let lease = time("lease")?;
    let options = NodeOptions {
        roles: roles(config.text("roles")).map_err(|why| config.bad("roles", &why))?,
        slots: config.text("slots").parse().map_err(|_| config.bad("slots", "no number"))?,
        lease,
        renewal: lease / 3,
        heartbeat: time("heartbeat")?,
        poll: time("poll")?,
        shutdown_grace: time("shutdown_grace")?,
        ..NodeOptions::default()
    };
    options.check().map_err(|bad| config.bad(bad.option, &bad.why))?;
    Ok(options)
}

async fn run(config: &Config, http: Option<HttpOptions>) -> Result<(), Failure> {
    let options = options(config)?;
    let _traces = log::start(config)?;
    // From here on: told to end while it starts, it starts and stops in order.
    let signals =
        Signals::new().map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
    let metrics = if http.is_some() { metrics() } else { None };
    let grace = options.shutdown_grace;
    let mut builder = Lineclear::builder().store(config.text("db")).options(options);
    builder = kinds::add(builder, config)?;
    for file in config.text("manifests").split(',').filter(|file| !file.trim().is_empty()) {
        builder = builder.manifests_from(file.trim());
    }
    let node = start(builder).await?;
    say(&format!("node {} of {}\n", node.id(), node.store().options()));
    let ended = CancellationToken::new();
    let serving = match http {
        Some(options) => Some(serve(options, &node, metrics, &ended).await?),
        None => None,
    };
    let counting = tokio::spawn(count_down(node.client(), grace));
    node.run_until(signals).await;
    counting.abort();
    // Asked to the last: a probe should hear that it is stopping, and not that it is gone.
    ended.cancel();
    if let Some(serving) = serving {
        drop(serving.await);
    }
    Ok(())
}

/// Figures for `/metrics`; a node without one keeps none.
fn metrics() -> Option<PrometheusHandle> {
    let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).ok()?;
    let handle = builder.install_recorder().ok()?;
    let upkeep = handle.clone();
    tokio::spawn(async move {
        // What was measured lies in a heap until somebody looks: nobody may ever do.
        let mut tick = tokio::time::interval(UPKEEP);
        loop {
            tick.tick().await;
            upkeep.run_upkeep();
        }
    });
    Some(handle)
}

async fn start(builder: Builder) -> Result<Node, Failure> {
    builder.start().await.map_err(|error| match error {
        StartError::Store(error) => Failure::from(error),
        other => Failure::usage(other.to_string()),
    })
}

async fn serve(
    options: HttpOptions,
    node: &Node,
    metrics: Option<PrometheusHandle>,
    ended: &CancellationToken,
) -> Result<tokio::task::JoinHandle<std::io::Result<()>>, Failure> {
    let (access, base_path) = (options.access.clone(), options.base_path.clone());
    let server = Server::bind(options, node.client(), metrics).await.map_err(|error| match &error {
        ServeError::Access(_) => Failure::usage(error.to_string()),
        ServeError::Bind { .. } => Failure::failed(error.to_string())
            .hint("is another server running there? choose another with --port, or --port 0 for a free one"),
        _ => Failure::failed(error.to_string()),
    })?;
    say(&format!("dashboard  http://{0}{1}/\nAPI  http://{0}{1}/api/v1\n", server.address(), base_path));
    door::say_if_nobody_can_come_in(&access, node.store()).await;
    Ok(tokio::spawn(server.run(ended.clone().cancelled_owned())))
}

/// Says what a stop waits for.
async fn count_down(client: Client, grace: Duration) {
    client.stopping().await;
    let mut left = grace.as_secs();
    while client.running() > 0 {
        let jobs = client.running();
        say(&format!("stopping: {jobs} still running, up to {left} s; again to stop at once\n"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        left = left.saturating_sub(1);
    }
}
