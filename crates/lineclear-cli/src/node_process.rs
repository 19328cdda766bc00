//! The process of a node: what `serve` and `work` have in common.

mod log;
#[cfg(feature = "otlp")]
mod otlp;
mod probes;
mod wait_for_db;

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lineclear::node::{Builder, Signals, StartError};
use lineclear::outbound::Breakers;
use lineclear::{Client, Lineclear, Node, NodeOptions};
use lineclear_http::HttpOptions;
use lineclear_model::doctor::database;

use crate::config::{Config, Flags, parse_duration, roles};
use crate::failure::Failure;
use crate::kinds;
use crate::outboxes::Outboxes;
use crate::output::print_stderr;
use crate::submitters::Submitters;
use probes::Probes;
use wait_for_db::{Wait, Waited};

/// Settings of every node.
#[derive(Args)]
pub(crate) struct NodeArgs {
    /// postgres://user@host/database?schema=lineclear, or a SQLite file [default: lineclear.db]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// Maximum number of jobs to run at once [default: cores × 4]
    #[arg(long, value_name = "N")]
    slots: Option<String>,
    /// Hand a job to another node after this time without renewal [default: 30s]
    #[arg(long, value_name = "TIME")]
    lease: Option<String>,
    /// Interval at which the node reports that it is alive [default: 10s]
    #[arg(long, value_name = "TIME")]
    heartbeat: Option<String>,
    /// Poll interval when no notification arrives [default: 1s]
    #[arg(long, value_name = "TIME")]
    poll: Option<String>,
    /// Time for running handlers to finish on shutdown [default: 30s]
    #[arg(long, value_name = "TIME")]
    shutdown_grace: Option<String>,
    /// How long to wait for a database that is away; 0 exits at once [default: 10m]
    #[arg(long, value_name = "TIME")]
    wait_for_db: Option<String>,
    /// Programs that jobs of the kind command may run, by their absolute path [default: none]
    #[arg(long, value_name = "PROGRAMS")]
    commands: Option<String>,
    /// Variables that commands get besides the usual ones, such as PGHOST,AWS_* [default: none]
    #[arg(long, value_name = "NAMES")]
    command_env: Option<String>,
    /// User that runs commands; needs root [default: the server's user]
    #[arg(long, value_name = "USER")]
    command_user: Option<String>,
    /// Limits of commands, such as cpu=10m,memory=2G,files=256,processes=64,file_size=1G [default: the server's]
    #[arg(long, value_name = "LIMITS")]
    command_limits: Option<String>,
    /// Folder of secrets that inputs name, one file each [default: $CREDENTIALS_DIRECTORY]
    #[arg(long, value_name = "FOLDER")]
    secrets_dir: Option<String>,
    /// error, warn, info, debug, trace or off [default: info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Send traces to this OTLP collector, such as http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Read this file instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl NodeArgs {
    pub(crate) fn flags(&self) -> Flags {
        let all = [
            ("db", &self.db),
            ("slots", &self.slots),
            ("lease", &self.lease),
            ("heartbeat", &self.heartbeat),
            ("poll", &self.poll),
            ("shutdown_grace", &self.shutdown_grace),
            ("wait_for_db", &self.wait_for_db),
            ("commands", &self.commands),
            ("command_env", &self.command_env),
            ("command_user", &self.command_user),
            ("command_limits", &self.command_limits),
            ("secrets_dir", &self.secrets_dir),
            ("log", &self.log),
            ("log_format", &self.log_format),
            ("otlp", &self.otlp),
        ];
        all.into_iter().filter_map(|(name, value)| value.clone().map(|value| (name, value))).collect()
    }
}

/// The options of the node, checked.
pub(crate) fn options(config: &Config) -> Result<NodeOptions, Failure> {
    let time = |name: &str| parse_duration(config.text(name)).map_err(|why| config.bad(name, &why));
    let lease = time("lease")?;
    let options = NodeOptions {
        roles: roles(config.text("roles")).map_err(|why| config.bad("roles", &why))?,
        slots: config.text("slots").parse().map_err(|_| config.bad("slots", "not a number"))?,
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

/// Starts a node, calls `started`, runs the node until a signal stops it, then calls what `started` returned. While the node waits for
/// its database, a server with the options `waiting` answers probes; `started` gets its listener.
pub(crate) async fn run<S, F>(
    config: &Config,
    waiting: Option<HttpOptions>,
    started: S,
) -> Result<(), Failure>
where
    S: AsyncFnOnce(&Node, Option<TcpListener>) -> Result<F, Failure>,
    F: AsyncFnOnce(),
{
    let options = options(config)?;
    let _traces = log::start(config)?;
    // Listening begins here: a signal during the start lets the node start and stop in order.
    let mut signals =
        Signals::new().map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
    let grace = options.shutdown_grace;
    let submitters =
        Submitters::parse(config.text("submitter")).map_err(|why| config.bad("submitter", &why))?;
    let push_secrets = submitters.read_secrets(config, &kinds::sources(config)).await?;
    let outboxes = Outboxes::parse(config.text("outbox")).map_err(|why| config.bad("outbox", &why))?;
    let webhook_secrets = outboxes.read_secrets(config).await?;
    let breakers = Breakers::default();
    let builder = || -> Result<Builder, Failure> {
        let mut builder = Lineclear::builder().store(config.text("db")).options(options.clone());
        builder = kinds::add(builder, config, &breakers)?;
        builder = submitters.add(builder, &push_secrets, &breakers)?;
        for file in config.text("manifests").split(',').filter(|file| !file.trim().is_empty()) {
            builder = builder.manifests_from(file.trim());
        }
        Ok(builder)
    };
    let mut probes = Probes::new(waiting);
    let Some(node) = start(config, builder, &mut probes, &mut signals).await? else { return Ok(()) };
    print_stderr(&format!("node {} of {}\n", node.id(), node.store().options()));
    warn_of_exposed_files(&node);
    let runners = outboxes.start(config, &node, &webhook_secrets).await?;
    let stopped = started(&node, probes.listener.take()).await?;
    // Only now, so that a probe is answered at every moment.
    drop(probes);
    let reporting = tokio::spawn(report_shutdown(node.client(), grace));
    let client = node.client();
    // While the node finishes its jobs, other nodes deliver messages.
    let handing_over = tokio::spawn(async move {
        client.stopping().await;
        crate::outboxes::stop(runners).await;
    });
    node.run_until(signals).await;
    reporting.abort();
    drop(handing_over.await);
    stopped().await;
    Ok(())
}

/// A SQLite file that was made by hand, or copied, may be open to other users.
fn warn_of_exposed_files(node: &Node) {
    let check = database::permissions("", &node.store().exposed_files());
    if let Some(remedy) = check.remedy {
        tracing::warn!("{}; run: {remedy}", check.message);
    }
}

/// Starts a node; `None` if a signal ended its wait for the database.
async fn start(
    config: &Config,
    builder: impl Fn() -> Result<Builder, Failure>,
    probes: &mut Probes,
    signals: &mut Signals,
) -> Result<Option<Node>, Failure> {
    let wait = Wait::new(config)?;
    loop {
        let error = match builder()?.start().await {
            Ok(node) => return Ok(Some(node)),
            Err(StartError::Store(error)) => error,
            Err(other) => return Err(Failure::usage(other.to_string())),
        };
        if error.is_away() {
            probes.answer(&wait).await?;
        }
        if let Waited::Stopped = wait.until_back(error, signals, &probes.condition).await? {
            return Ok(None);
        }
        probes.database_is_back();
    }
}

/// Prints every second what a shutdown waits for.
async fn report_shutdown(client: Client, grace: Duration) {
    client.stopping().await;
    let mut left = grace.as_secs();
    while client.running() > 0 {
        let jobs = client.running();
        print_stderr(&format!(
            "stopping: {jobs} still running, up to {left} s; send the signal again to stop at once\n"
        ));
        tokio::time::sleep(Duration::from_secs(1)).await;
        left = left.saturating_sub(1);
    }
}
