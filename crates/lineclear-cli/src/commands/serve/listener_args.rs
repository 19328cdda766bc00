//! Flags and settings of the listener: authentication and limits.

use clap::Args;
use lineclear::Store;
use lineclear_http::{Access, ListenerLimits, TrustedProxy};
use lineclear_model::Scopes;

use crate::config::{Config, Flags, at_least_one, networks};
use crate::failure::Failure;
use crate::kinds;
use crate::output::print_stderr;

/// Number of tokens to read when looking for a live one.
const TOKENS_READ: u32 = 1_000;

#[derive(Args)]
pub(super) struct ListenerArgs {
    /// Path under which a proxy serves it, such as /lineclear [default: none]
    #[arg(long, value_name = "PATH")]
    base_path: Option<String>,
    /// Authentication: none (on a loopback address only), token or proxy [default: none]
    #[arg(long, value_name = "MODE")]
    auth: Option<String>,
    /// Run --commands although --auth is none: every user of this machine can run them as the server's user
    #[arg(long)]
    allow_open_commands: bool,
    /// With --auth proxy: networks of the trusted proxy, such as 10.0.0.5 or 10.0.0.0/8
    #[arg(long, value_name = "NETWORKS")]
    proxy_peers: Option<String>,
    /// With --auth proxy: header with the name of the user [default: X-Forwarded-User]
    #[arg(long, value_name = "HEADER")]
    proxy_user_header: Option<String>,
    /// With --auth proxy: header with lineclear-read, lineclear-operate or lineclear-admin
    #[arg(long, value_name = "HEADER")]
    proxy_scopes_header: Option<String>,
    /// With --auth proxy: scope of every user if there is no such header [default: read]
    #[arg(long, value_name = "SCOPE")]
    proxy_scope: Option<String>,
    /// Maximum number of connections [default: 1024]
    #[arg(long, value_name = "N")]
    connections: Option<String>,
    /// Maximum number of connections from one address [default: 64]
    #[arg(long, value_name = "N")]
    connections_per_address: Option<String>,
    /// Maximum requests per second of one address, token or user, unless --auth is none; 0 is unlimited [default: 5000]
    #[arg(long, value_name = "N")]
    rate: Option<String>,
}

impl ListenerArgs {
    pub(super) fn flags(self) -> Flags {
        let all = [
            ("base_path", self.base_path),
            ("auth", self.auth),
            ("allow_open_commands", self.allow_open_commands.then(|| "true".to_owned())),
            ("proxy_peers", self.proxy_peers),
            ("proxy_user_header", self.proxy_user_header),
            ("proxy_scopes_header", self.proxy_scopes_header),
            ("proxy_scope", self.proxy_scope),
            ("connections", self.connections),
            ("connections_per_address", self.connections_per_address),
            ("rate", self.rate),
        ];
        all.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
    }
}

pub(super) fn access(config: &Config) -> Result<Access, Failure> {
    match config.text("auth") {
        "token" => Ok(Access::Tokens),
        "proxy" => {
            let peers =
                networks(config.text("proxy_peers")).map_err(|why| config.bad("proxy_peers", &why))?;
            let scopes = Scopes::parse(config.text("proxy_scope"));
            let scopes_header = Some(config.text("proxy_scopes_header")).filter(|name| !name.is_empty());
            Ok(Access::TrustedProxy(TrustedProxy {
                peers,
                user_header: config.text("proxy_user_header").to_owned(),
                scopes_header: scopes_header.map(str::to_owned),
                scopes: scopes.map_err(|bad| config.bad("proxy_scope", &bad.to_string()))?,
            }))
        }
        _ => Ok(Access::OpenOnLoopback),
    }
}

/// Without authentication, every user of this machine can enqueue jobs, and so run the commands as the server's user. Returns whether that is
/// so, if the settings accept it.
pub(super) fn check_open_commands(config: &Config) -> Result<bool, Failure> {
    if config.text("auth") != "none" || !kinds::allow_commands(config) {
        return Ok(false);
    }
    if config.text("allow_open_commands") == "true" {
        return Ok(true);
    }
    let why = "every user of this machine could run them as the user of this server, because auth = none requires no token";
    Err(config.bad("commands", why).hint(
        "set auth = token (--auth token) and create one: lineclear token create NAME --scope operate; or accept it with --allow-open-commands",
    ))
}

pub(super) fn limits(config: &Config) -> Result<ListenerLimits, Failure> {
    let count = |name: &str| at_least_one(config.text(name)).map_err(|why| config.bad(name, &why));
    Ok(ListenerLimits {
        connections: count("connections")?,
        connections_per_address: count("connections_per_address")?,
        rate: config.text("rate").parse().map_err(|_| config.bad("rate", "not a number"))?,
        ..ListenerLimits::default()
    })
}

/// Warns if tokens are required and none is live.
pub(super) async fn warn_if_no_token(access: &Access, store: &Store) {
    if *access != Access::Tokens {
        return;
    }
    match store.tokens(None, TOKENS_READ).await {
        Ok(page) if page.items.iter().any(|token| token.is_live()) || page.next.is_some() => {}
        Ok(_) => print_stderr(
            "WARNING  no token is live, so every request is refused. Create the first one with the same --db:\n         \
             lineclear token create NAME --scope admin\n",
        ),
        Err(error) => print_stderr(&format!("WARNING  cannot read the tokens: {error}\n")),
    }
}
