//! What a server writes about itself: lines to standard error, and spans to a collector if one is named.

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

/// Ends what [`start`] began.
#[cfg(feature = "otlp")]
pub(super) type Ends = Option<super::otlp::Traces>;
#[cfg(not(feature = "otlp"))]
pub(super) type Ends = ();

/// From now on, until the answer is dropped. Settings were checked before.
pub(super) fn start(config: &Config) -> Result<Ends, Failure> {
    let level: LevelFilter = config.text("log").parse().unwrap_or(LevelFilter::INFO);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match config.text("log_format") {
        "json" => lines.json().with_target(true).boxed(),
        _ => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    // What commands write is kept with their jobs, and may be secret.
    let ours = Targets::new().with_default(level).with_target(kinds::TARGET, LevelFilter::OFF);
    let mut layers = vec![lines.with_filter(ours).boxed(), JobLogs::new().boxed()];
    let ends = traces(config.text("otlp"), &mut layers)?;
    // A second start in one process keeps the first.
    let _ = registry().with(layers).try_init();
    Ok(ends)
}

type Layers = Vec<Box<dyn Layer<Registry> + Send + Sync>>;

#[cfg(feature = "otlp")]
fn traces(endpoint: &str, layers: &mut Layers) -> Result<Ends, Failure> {
    if endpoint.is_empty() {
        return Ok(None);
    }
    let (ends, layer) = super::otlp::layer(endpoint)?;
    layers.push(layer.boxed());
    Ok(Some(ends))
}

#[cfg(not(feature = "otlp"))]
fn traces(endpoint: &str, _: &mut Layers) -> Result<Ends, Failure> {
    if endpoint.is_empty() { Ok(()) } else { Err(Failure::usage("this binary was built without OTLP")) }
}
