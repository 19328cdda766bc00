//! Kinds that need no Rust: what a server can run as it comes.

mod allowed;
mod command;
mod guards;
mod output;

use lineclear::node::Builder;
use lineclear::outbound::{Outbound, Reach, Secret, http};

use crate::config::{Config, networks, span};
use crate::failure::Failure;

pub(crate) use allowed::Allowed;
pub(crate) use output::TARGET;

/// Adds the kinds that the settings of a server allow.
pub(crate) fn add(builder: Builder, config: &Config) -> Result<Builder, Failure> {
    let bad = |name: &'static str| move |why: String| config.bad(name, &why);
    let reach = Reach {
        plain: config.text("http_plain") == "true",
        ports: ports(config.text("http_ports")).map_err(bad("http_ports"))?,
        networks: networks(config.text("http_networks")).map_err(bad("http_networks"))?,
    };
    let secrets = secrets(config.text("http_secrets")).map_err(bad("http_secrets"))?;
    let outbound =
        Outbound::new(reach.clone(), secrets).map_err(|error| Failure::failed(error.to_string()))?;
    let builder =
        builder.state(outbound).kind_checked(http::KIND, move |input| http::check(&reach, input), http::run);
    let allowed = Allowed::parse(config.text("commands")).map_err(bad("commands"))?;
    if allowed.is_empty() {
        return Ok(builder);
    }
    let lease = span(config.text("lease")).map_err(bad("lease"))?;
    Ok(builder.state(command::Commands::new(allowed, lease)).kind(command::KIND, command::run))
}

/// `8080,8443`
pub(crate) fn ports(text: &str) -> Result<Vec<u16>, String> {
    let port = |word: &str| word.parse().map_err(|_| format!("{word:?} is no port"));
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(port).collect()
}

/// One, or two while they are changed.
pub(crate) fn secrets(text: &str) -> Result<Vec<Secret>, String> {
    let secret = |word: &str| word.parse().map_err(|bad: lineclear::outbound::BadSecret| bad.to_string());
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(secret).collect()
}
