//! `--server`, `--token` and `--request-timeout`.

use std::time::Duration;

use clap::Args;
use lineclear_model::duration::format as format_duration;

use super::ApiClient;
use crate::config::parse_duration;
use crate::failure::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server responds within 30 seconds, if only with an error.
const REQUEST_TIMEOUT: &str = "40s";
const VARIABLE: &str = "LINECLEAR_SERVER";

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
        ServerArgs { server: None, token: variable("LINECLEAR_TOKEN"), request_timeout: CONNECT_TIMEOUT }
    }

    /// The server named by the flag, ignoring the variable.
    pub(crate) fn flag(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The server named by the flag or the variable.
    pub(crate) fn named(&self) -> Option<String> {
        self.server.clone().or_else(|| variable(VARIABLE))
    }

    /// A client of the server at this URL.
    pub(crate) fn client(&self, url: &str) -> Result<ApiClient, Failure> {
        let base = url.trim_end_matches('/').to_owned();
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(Failure::usage(format!(
                "--server: {base:?} is not a URL such as http://127.0.0.1:7171"
            )));
        }
        let client = reqwest::Client::builder()
            .user_agent(concat!("lineclear/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| Failure::failed(error.to_string()))?;
        Ok(ApiClient::Server { client, base, token: self.token.clone(), timeout: self.request_timeout })
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(super) fn timed_out(base: &str, timeout: Duration) -> Failure {
    Failure::coded(7, format!("{base} did not respond within {}", format_duration(timeout))).hint(
        "`lineclear health` shows whether the server hangs; --request-timeout waits longer, --db needs no server",
    )
}

pub(super) fn unreachable(base: &str, error: &reqwest::Error) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let code = if error.is_timeout() { 7 } else { 6 };
    Failure::coded(code, format!("cannot reach {base}: {cause}")).hint(
        "check that the server is running (`lineclear serve`) and --server is right; --db needs no server",
    )
}
