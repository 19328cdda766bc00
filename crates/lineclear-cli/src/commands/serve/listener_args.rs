//! Who may come in, and how many: flags and settings of the listener.

use clap::Args;
use lineclear::Store;
use lineclear_http::{Access, Limits, TrustedProxy};
use lineclear_model::Scopes;

use crate::config::{Config, Flags, at_least_one, networks};
use crate::failure::{Failure, say};

/// Tokens that are looked at to see whether one counts.
const LOOKED_AT: u32 = 1_000;

#[derive(Args)]
pub(super) struct Door {
    /// The path that a proxy has the server under, such as /lineclear [default: none]
    #[arg(long, value_name = "PATH")]
    base_path: Option<String>,
    /// How the server knows who asks: none (on a loopback address only), token or proxy [default: none]
    #[arg(long, value_name = "HOW")]
    auth: Option<String>,
    /// With --auth proxy: networks of the proxy that is believed, such as 10.0.0.5 or 10.0.0.0/8
    #[arg(long, value_name = "NETWORKS")]
    proxy_peers: Option<String>,
    /// With --auth proxy: the header in which it names the user [default: X-Forwarded-User]
    #[arg(long, value_name = "HEADER")]
    proxy_user_header: Option<String>,
    /// With --auth proxy: the header with lineclear-read, lineclear-operate or lineclear-admin in it
    #[arg(long, value_name = "HEADER")]
    proxy_scopes_header: Option<String>,
    /// With --auth proxy: what every user may do if there is no such header [default: read]
    #[arg(long, value_name = "SCOPE")]
    proxy_scope: Option<String>,
    /// Connections at once [default: 1024]
    #[arg(long, value_name = "N")]
    connections: Option<String>,
    /// Connections of one address at once [default: 64]
    #[arg(long, value_name = "N")]
    connections_per_address: Option<String>,
    /// Requests of one address, token or user in a second, where --auth is not none; 0 is any number [default: 5000]
    #[arg(long, value_name = "N")]
    rate: Option<String>,
}

impl Door {
    pub(super) fn flags(self) -> Flags {
        let all = [
            ("base_path", self.base_path),
            ("auth", self.auth),
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

pub(super) fn limits(config: &Config) -> Result<Limits, Failure> {
    let count = |name: &str| at_least_one(config.text(name)).map_err(|why| config.bad(name, &why));
    Ok(Limits {
        connections: count("connections")?,
        connections_per_address: count("connections_per_address")?,
        rate: config.text("rate").parse().map_err(|_| config.bad("rate", "no number"))?,
        ..Limits::default()
    })
}

/// A server that asks for tokens when there is none lets nobody in: that is said, with what to do.
pub(super) async fn say_if_nobody_can_come_in(access: &Access, store: &Store) {
    if *access != Access::Tokens {
        return;
    }
    match store.tokens(None, LOOKED_AT).await {
        Ok(page) if page.items.iter().any(|token| token.is_live()) || page.next.is_some() => {}
        Ok(_) => say(
            "WARNING  there is no token that counts, so nobody can come in. Make the first one with the same --db:\n         \
             lineclear token create NAME --scope admin\n",
        ),
        Err(error) => say(&format!("WARNING  tokens could not be looked at: {error}\n")),
    }
}
