//! `--server`, `--token` and `--request-timeout`.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use clap::Args;
use lineclear_model::duration::format as format_duration;
use lineclear_model::secret::without_passwords;

use super::ApiClient;
use crate::config::parse_duration;
use crate::failure::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server responds within 30 seconds, if only with an error.
const REQUEST_TIMEOUT: &str = "40s";
const VARIABLE: &str = "LINECLEAR_SERVER";
const INSECURE: &str = "LINECLEAR_INSECURE_HTTP";

#[derive(Args, Clone)]
pub(crate) struct ServerArgs {
    /// URL of the server, or LINECLEAR_SERVER [default: this machine, on the port that `serve` would use here]
    // Not read by clap: --db overrides the variable and does not conflict with it.
    #[arg(long, value_name = "URL", help_heading = "Target")]
    server: Option<String>,
    /// Token of the server; prefer LINECLEAR_TOKEN, which other users of this machine cannot see
    #[arg(
        long,
        env = "LINECLEAR_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Target"
    )]
    token: Option<String>,
    /// Send the token to another machine over http:// without TLS, or LINECLEAR_INSECURE_HTTP=true: the network can read it
    #[arg(long, help_heading = "Target")]
    insecure_http: bool,
    /// How long to wait for each response of the server
    #[arg(
        long,
        env = "LINECLEAR_REQUEST_TIMEOUT",
        value_name = "TIME",
        default_value = REQUEST_TIMEOUT,
        value_parser = parse_duration,
        help_heading = "Target"
    )]
    request_timeout: Duration,
}

impl ServerArgs {
    /// The arguments of a command line without flags.
    pub(super) fn local() -> ServerArgs {
        ServerArgs {
            server: None,
            token: variable("LINECLEAR_TOKEN"),
            insecure_http: false,
            request_timeout: CONNECT_TIMEOUT,
        }
    }

    /// The server named by the flag, ignoring the variable.
    pub(crate) fn flag(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The server named by the flag or the variable.
    pub(crate) fn named(&self) -> Option<String> {
        self.server.clone().or_else(|| variable(VARIABLE))
    }

    /// Whether requests carry a token.
    pub(super) fn has_token(&self) -> bool {
        self.token.as_deref().is_some_and(|token| !token.is_empty())
    }

    /// A client of the server at this URL.
    pub(crate) fn client(&self, url: &str) -> Result<ApiClient, Failure> {
        let base = url.trim_end_matches('/').to_owned();
        let parsed = reqwest::Url::parse(&base).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
        let Some(parsed) = parsed else {
            return Err(Failure::usage(format!(
                "--server: {:?} is not a URL such as http://127.0.0.1:7171",
                shown(&base)
            )));
        };
        self.check_plain(&parsed)?;
        let client = reqwest::Client::builder()
            .user_agent(concat!("lineclear/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| Failure::failed(error.to_string()))?;
        Ok(ApiClient::Server { client, base, token: self.token.clone(), timeout: self.request_timeout })
    }

    /// Refuses to send a secret to another machine without TLS.
    fn check_plain(&self, url: &reqwest::Url) -> Result<(), Failure> {
        let has_secret = self.has_token() || url.password().is_some();
        let host = url.host_str().unwrap_or_default();
        let is_accepted = self.insecure_http || variable(INSECURE).as_deref() == Some("true");
        if !has_secret || url.scheme() == "https" || is_this_machine(host) || is_accepted {
            return Ok(());
        }
        let why = format!("the token is not sent to {host} over http://: the network between could read it");
        Err(Failure::usage(why)
            .hint("use https://, or a tunnel to this machine; --insecure-http sends it all the same"))
    }
}

/// Whether a connection to this host stays on this machine.
fn is_this_machine(host: &str) -> bool {
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        // Only an address of this machine can be bound to.
        Ok(address) => address.is_loopback() || UdpSocket::bind((address, 0)).is_ok(),
        Err(_) => host == "localhost",
    }
}

/// A URL without its password, for messages.
fn shown(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(parsed) if parsed.has_host() && parsed.password().is_none() => without_passwords(url).into_owned(),
        Ok(mut parsed) if parsed.has_host() => match parsed.set_password(None) {
            Ok(()) => without_passwords(parsed.as_str().trim_end_matches('/')).into_owned(),
            Err(()) => "the server".to_owned(),
        },
        // Not a URL, such as `user:password@host`.
        _ => url.rsplit_once('@').map_or_else(|| url.to_owned(), |(_, host)| format!("…@{host}")),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(super) fn timed_out(base: &str, timeout: Duration) -> Failure {
    Failure::coded(7, format!("{} did not respond within {}", shown(base), format_duration(timeout))).hint(
        "`lineclear health` shows whether the server hangs; --request-timeout waits longer, --db needs no server",
    )
}

pub(super) fn unreachable(base: &str, error: &reqwest::Error) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let code = if error.is_timeout() { 7 } else { 6 };
    Failure::coded(code, format!("cannot reach {}: {cause}", shown(base))).hint(
        "check that the server is running (`lineclear serve`) and --server is right; --db needs no server",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_this_machine() {
        for yes in ["localhost", "127.0.0.1", "127.3.2.1", "[::1]", "0.0.0.0"] {
            assert!(is_this_machine(yes), "{yes}");
        }
        // 192.0.2.0/24 and 2001:db8::/32 are for documentation.
        for no in ["192.0.2.1", "[2001:db8::1]", "localhost.example.com", "evil-localhost", ""] {
            assert!(!is_this_machine(no), "{no}");
        }
    }
}
