//! Flags and settings of the listener: authentication and limits.

use clap::Args;
use lineclear::Store;
use lineclear_http::{Access, ListenerLimits, ProxySecret, ProxyUsers, TrustedProxies};
use lineclear_model::Scopes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{Config, Flags, at_least_one, networks, read_private};
use crate::failure::Failure;
use crate::kinds;
use crate::output::print_stderr;

/// Number of tokens to read when looking for a live one.
const TOKENS_READ: u32 = 1_000;
/// Open files besides connections: the database, probes, and connections that are being closed.
const OTHER_FILES: usize = 512;
/// Requests may wait at least so many, however few files the process may open.
const POLLS_MIN: usize = 64;
/// Connections on a machine that allows few open files.
const CONNECTIONS_MIN: usize = 64;

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
    /// Networks of proxies in front of the server, such as 10.0.0.5 or 10.0.0.0/8 [default: none]
    #[arg(long, value_name = "NETWORKS", alias = "proxy-peers")]
    trusted_proxies: Option<String>,
    /// File with the secret that proxies send as X-Lineclear-Proxy-Secret, or LINECLEAR_PROXY_SECRET; --auth proxy and proxies on this
    /// machine need it
    #[arg(long, value_name = "FILE")]
    proxy_secret_file: Option<String>,
    /// With --auth proxy: header with the name of the user [default: X-Forwarded-User]
    #[arg(long, value_name = "HEADER")]
    proxy_user_header: Option<String>,
    /// With --auth proxy: header with groups, such as lineclear-read,lineclear-operate
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
    /// Maximum number of concurrent requests of one token or user, unless --auth is none [default: 256]
    #[arg(long, value_name = "N")]
    requests_per_principal: Option<String>,
    /// Maximum number of event streams, and of live pages, of one token or user, unless --auth is none [default: 64]
    #[arg(long, value_name = "N")]
    streams_per_principal: Option<String>,
    /// Maximum number of requests that wait for work, beside the connections [default: 20000]
    #[arg(long, value_name = "N")]
    polls: Option<String>,
    /// Maximum number of requests of one token or user that wait for work, unless --auth is none [default: 10000]
    #[arg(long, value_name = "N")]
    polls_per_principal: Option<String>,
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
            ("trusted_proxies", self.trusted_proxies),
            ("proxy_secret_file", self.proxy_secret_file),
            ("proxy_user_header", self.proxy_user_header),
            ("proxy_scopes_header", self.proxy_scopes_header),
            ("proxy_scope", self.proxy_scope),
            ("connections", self.connections),
            ("connections_per_address", self.connections_per_address),
            ("requests_per_principal", self.requests_per_principal),
            ("streams_per_principal", self.streams_per_principal),
            ("polls", self.polls),
            ("polls_per_principal", self.polls_per_principal),
            ("rate", self.rate),
        ];
        all.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
    }
}

pub(super) fn access(config: &Config) -> Result<Access, Failure> {
    match config.text("auth") {
        "token" => Ok(Access::Tokens),
        "proxy" => {
            let scopes = Scopes::parse(config.text("proxy_scope"));
            let scopes_header = Some(config.text("proxy_scopes_header")).filter(|name| !name.is_empty());
            Ok(Access::ProxyUsers(ProxyUsers {
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

/// The proxies in front of the server, and their secret.
pub(super) fn trusted_proxies(config: &Config) -> Result<TrustedProxies, Failure> {
    let networks =
        networks(config.text("trusted_proxies")).map_err(|why| config.bad("trusted_proxies", &why))?;
    let secret = match (config.text("proxy_secret"), config.text("proxy_secret_file")) {
        ("", "") => None,
        (text, "") => Some(ProxySecret::new(text).map_err(|why| config.bad("proxy_secret", &why))?),
        ("", file) => {
            let bad = |why: &str| config.bad("proxy_secret_file", why);
            let text = read_private(file).map_err(|why| bad(&why))?;
            Some(ProxySecret::new(text.trim_end()).map_err(|why| bad(&format!("its content {why}")))?)
        }
        _ => return Err(config.bad("proxy_secret_file", "set this or proxy_secret, not both")),
    };
    Ok(TrustedProxies { networks, secret })
}

/// Raises the limit of open files to what connections and waiting requests need; where the system does not allow it, lowers those
/// that wait, and then the connections.
pub(super) fn fit_open_files(limits: ListenerLimits) -> ListenerLimits {
    let needed = limits.connections.saturating_add(OTHER_FILES) as u64;
    let wanted = needed.saturating_add(limits.polls as u64);
    let found = getrlimit(Resource::Nofile);
    if found.current.is_some_and(|current| current < wanted) {
        let current = Some(found.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        // Fails only where the system has a limit of its own; then the old one holds.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..found });
    }
    let allowed = getrlimit(Resource::Nofile).current.and_then(|allowed| usize::try_from(allowed).ok());
    let polls = allowed.map_or(limits.polls, |allowed| {
        limits.polls.min(allowed.saturating_sub(limits.connections + OTHER_FILES)).max(POLLS_MIN)
    });
    let limits = ListenerLimits { polls, ..limits };
    match allowed.filter(|allowed| (*allowed as u64) < needed) {
        Some(allowed) => {
            let connections =
                allowed.saturating_sub(OTHER_FILES).max(CONNECTIONS_MIN).min(limits.connections);
            print_stderr(&format!(
                "WARNING  the process may open {allowed} files, too few for {} connections; it takes {connections} (ulimit -Hn, LimitNOFILE=)\n",
                limits.connections
            ));
            ListenerLimits { connections, ..limits }
        }
        None => limits,
    }
}

pub(super) fn limits(config: &Config) -> Result<ListenerLimits, Failure> {
    let count = |name: &str| at_least_one(config.text(name)).map_err(|why| config.bad(name, &why));
    Ok(ListenerLimits {
        connections: count("connections")?,
        connections_per_address: count("connections_per_address")?,
        requests_per_principal: count("requests_per_principal")?,
        streams_per_principal: count("streams_per_principal")?,
        polls: count("polls")?,
        polls_per_principal: count("polls_per_principal")?,
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
