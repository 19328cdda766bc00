//! The log of a node: lines to standard error, and traces to a collector if one is configured.

use std::io::IsTerminal;

use lineclear::logs::JobLogs;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, registry};

use crate::config::Config;
use crate::failure::Failure;
use crate::kinds;

/// The target of the connection pool's lines.
const POOL: &str = "deadpool";

/// Ends the traces when it is dropped.
#[cfg(feature = "otlp")]
pub(super) type TracesGuard = Option<super::otlp::Traces>;
#[cfg(not(feature = "otlp"))]
pub(super) type TracesGuard = ();

/// Starts logging. The settings were checked before.
pub(super) fn start(config: &Config) -> Result<TracesGuard, Failure> {
    let level: LevelFilter = config.text("log").parse().unwrap_or(LevelFilter::INFO);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match config.text("log_format") {
        "json" => lines.json().with_target(true).boxed(),
        _ => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    // Output of commands is logged with their jobs only: it may be secret.
    let ours = Targets::new().with_default(level).with_target(kinds::TARGET, LevelFilter::OFF);
    // The pool has lines for each connection that breaks; the node says that the database is lost.
    let ours = if level < LevelFilter::DEBUG { ours.with_target(POOL, LevelFilter::OFF) } else { ours };
    let mut layers = vec![lines.with_filter(ours).boxed(), JobLogs::new().boxed()];
    let guard = traces(config.text("otlp"), &mut layers)?;
    // A second start in one process keeps the first subscriber.
    let _ = registry().with(layers).try_init();
    Ok(guard)
}

type Layers = Vec<Box<dyn Layer<Registry> + Send + Sync>>;

#[cfg(feature = "otlp")]
fn traces(endpoint: &str, layers: &mut Layers) -> Result<TracesGuard, Failure> {
    if endpoint.is_empty() {
        return Ok(None);
    }
    let (guard, layer) = super::otlp::layer(endpoint)?;
    layers.push(layer.boxed());
    Ok(Some(guard))
}

#[cfg(not(feature = "otlp"))]
fn traces(endpoint: &str, _: &mut Layers) -> Result<TracesGuard, Failure> {
    if endpoint.is_empty() {
        Ok(())
    } else {
        Err(Failure::usage("otlp: this binary was built without the feature otlp"))
    }
}
