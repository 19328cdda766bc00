//! What a server writes about itself, to standard error.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

/// From now on. Settings were checked before.
pub(super) fn start(level: &str, format: &str) {
    let level: LevelFilter = level.parse().unwrap_or(LevelFilter::INFO);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let layer = match format {
        "json" => lines.json().with_target(true).boxed(),
        _ => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    // A second start in one process keeps the first.
    let _ = registry().with(layer.with_filter(level)).try_init();
}
