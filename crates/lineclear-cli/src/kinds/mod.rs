//! Kinds that need no Rust: what a server can run as it comes.

mod allowed;
mod command;
mod guards;
mod output;

use std::time::Duration;

use lineclear::node::Builder;

pub(crate) use allowed::Allowed;
pub(crate) use output::TARGET;

/// Adds the kinds that the settings of a server allow.
pub(crate) fn add(builder: Builder, allowed: Allowed, lease: Duration) -> Builder {
    if allowed.is_empty() {
        return builder;
    }
    builder.state(command::Commands::new(allowed, lease)).kind(command::KIND, command::run)
}
