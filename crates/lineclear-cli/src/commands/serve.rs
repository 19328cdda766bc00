//! `lineclear serve`: a node with the HTTP API and the dashboard.

mod listener_args;

use std::net::TcpListener;
use std::time::Duration;

use clap::Args;
use lineclear::Node;
use lineclear_http::{DatabaseLocks, HttpOptions, ServeError, Server};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::failure::Failure;
use crate::kinds;
use crate::node_process::{self, NodeArgs};
use crate::output::print_stderr;
use crate::runtime::block_on_all_cores;
use listener_args::ListenerArgs;

const EXAMPLES: &str = "Examples:
  lineclear serve
  lineclear serve --db postgres://scheduler@db.internal/app --port 8080
  lineclear serve --roles planner,cleaner --manifests manifests.toml
  LINECLEAR_DB=postgres://scheduler@db.internal/app lineclear serve
  lineclear serve --bind 0.0.0.0 --auth token
  lineclear serve --bind 10.0.0.7 --auth token --trusted-proxies 10.0.0.5
  lineclear serve --bind 10.0.0.7 --auth proxy --trusted-proxies 10.0.0.5 --proxy-secret-file /etc/lineclear/proxy-secret

A second terminal with the same --db and another --port is a second node.
Settings: flag > LINECLEAR_* > ./lineclear.toml > the user's own file > default (`lineclear config show --origin`).";

/// Bounds of histograms, in seconds: from a statement to a long job.
const BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0];
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    #[command(flatten)]
    node: NodeArgs,
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "IP")]
    bind: Option<String>,
    /// Port to listen on; 0 picks a free one [default: 7171]
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    #[command(flatten)]
    listener: ListenerArgs,
    /// Roles of the node: planner, dispatcher, workers, cleaner [default: all]
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
    /// Manifest files to declare at the start
    #[arg(long, value_name = "FILES")]
    manifests: Option<String>,
}

/// Checks the settings as a server would.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    node_process::options(config)?;
    listener_args::limits(config)?;
    kinds::check(config)
}

/// Checks whether a server may listen on the configured address.
pub(crate) fn check_listener(config: &Config) -> Result<(), Failure> {
    let (bind, access) = (config.address()?, listener_args::access(config)?);
    let trusted_proxies = listener_args::trusted_proxies(config)?;
    let http = HttpOptions { bind, access, trusted_proxies, ..HttpOptions::default() };
    http.check().map_err(|error| Failure::usage(error.to_string()))?;
    listener_args::check_open_commands(config).map(drop)
}

impl Serve {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut flags = self.node.flags();
        let more =
            [("bind", self.bind), ("port", self.port), ("roles", self.roles), ("manifests", self.manifests)];
        flags.extend(more.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
        flags.extend(self.listener.flags());
        let config = Config::read(&flags, self.node.config)?;
        let (bind, access, limits) =
            (config.address()?, listener_args::access(&config)?, listener_args::limits(&config)?);
        let base_path = config.text("base_path").to_owned();
        let trusted_proxies = listener_args::trusted_proxies(&config)?;
        let http = HttpOptions { bind, access, trusted_proxies, limits, base_path, ..HttpOptions::default() };
        // Before anything is done to the database.
        http.check().map_err(|error| Failure::usage(error.to_string()))?;
        let has_open_commands = listener_args::check_open_commands(&config)?;
        let http = HttpOptions { limits: listener_args::fit_open_files(http.limits), ..http };
        block_on_all_cores(async {
            let http = HttpOptions { locks: Some(locks(&config)?), ..http };
            let metrics = metrics();
            let waiting = Some(http.clone());
            node_process::run(&config, waiting, async |node, listener| {
                if has_open_commands {
                    tracing::warn!("every user of this machine can run the allowed commands as the user of this server (allow_open_commands)");
                }
                let stop = CancellationToken::new();
                let serving = serve(http, listener, node, metrics, &stop).await?;
                // The server stops last, so that probes learn that the node is stopping.
                Ok(async move || {
                    stop.cancel();
                    drop(serving.await);
                })
            })
            .await
        })
    }
}

/// The registry of locks, which nodes and `lineclear lock` write into the same database.
fn locks(config: &Config) -> Result<DatabaseLocks, Failure> {
    let bad = |error: lineclear_lock::LockError| config.bad("db", &error.to_string());
    DatabaseLocks::new(config.text("db")).map_err(bad)
}

/// The recorder behind `/metrics`.
fn metrics() -> Option<PrometheusHandle> {
    let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).ok()?;
    let handle = builder.install_recorder().ok()?;
    let upkeep = handle.clone();
    tokio::spawn(async move {
        // Samples accumulate until `/metrics` is read, which may never happen.
        let mut tick = tokio::time::interval(UPKEEP_EVERY);
        loop {
            tick.tick().await;
            upkeep.run_upkeep();
        }
    });
    Some(handle)
}

/// The failure of a server that cannot listen.
pub(crate) fn cannot_serve(error: ServeError) -> Failure {
    match &error {
        ServeError::Access(_) => Failure::usage(error.to_string()),
        ServeError::Bind { .. } => Failure::failed(error.to_string())
            .hint("another server may be running there; choose another --port, or --port 0 for a free one"),
        _ => Failure::failed(error.to_string()),
    }
}

async fn serve(
    options: HttpOptions,
    listener: Option<TcpListener>,
    node: &Node,
    metrics: Option<PrometheusHandle>,
    stop: &CancellationToken,
) -> Result<tokio::task::JoinHandle<std::io::Result<()>>, Failure> {
    let (access, base_path) = (options.access.clone(), options.base_path.clone());
    let server = match listener {
        Some(listener) => Server::on(listener, options, node.client(), metrics).await,
        None => Server::bind(options, node.client(), metrics).await,
    };
    let server = server.map_err(cannot_serve)?;
    print_stderr(&format!(
        "dashboard  http://{0}{1}/\nAPI  http://{0}{1}/api/v1\n",
        server.address(),
        base_path
    ));
    listener_args::warn_if_no_token(&access, node.store()).await;
    Ok(tokio::spawn(server.run(stop.clone().cancelled_owned())))
}
