//! The server that is asked, and as whom.

use std::time::Duration;

use clap::Args;
use lineclear_model::duration::format as in_words;

use super::Api;
use crate::config::span;
use crate::failure::Failure;

const CONNECT: Duration = Duration::from_secs(5);
/// A server answers within 30 seconds, if only that it cannot.
const ANSWER: &str = "40s";
const VARIABLE: &str = "LINECLEAR_SERVER";

/// Which server.
#[derive(Args, Clone)]
pub(crate) struct Server {
    /// The server, also in LINECLEAR_SERVER [default: that of this machine, on the port that `serve` would take from here]
    // Not read by clap: --db is stronger than the variable, and no contradiction to it.
    #[arg(long, value_name = "URL", help_heading = "Where")]
    server: Option<String>,
    /// A token of the server; better in LINECLEAR_TOKEN, where other users of this machine do not see it
    #[arg(
        long,
        env = "LINECLEAR_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Where"
    )]
    token: Option<String>,
    /// How long to wait for each answer of the server
    #[arg(
        long,
        env = "LINECLEAR_REQUEST_TIMEOUT",
        value_name = "TIME",
        default_value = ANSWER,
        value_parser = span,
        help_heading = "Where"
    )]
    request_timeout: Duration,
}

impl Server {
    /// As with no flag at all.
    pub(super) fn of_this_machine() -> Server {
        Server { server: None, token: said("LINECLEAR_TOKEN"), request_timeout: CONNECT }
    }

    /// The one that was named on the command line, and not by a variable.
    pub(crate) fn flag(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The one that was named.
    pub(crate) fn named(&self) -> Option<String> {
        self.server.clone().or_else(|| said(VARIABLE))
    }

    /// To ask this one.
    pub(crate) fn at(&self, url: &str) -> Result<Api, Failure> {
        let base = url.trim_end_matches('/').to_owned();
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(Failure::usage(format!("--server: {base:?} is no URL like http://127.0.0.1:7171")));
        }
        let client = reqwest::Client::builder()
            .user_agent(concat!("lineclear/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Api::Server { client, base, token: self.token.clone(), answer_within: self.request_timeout })
    }
}

fn said(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// It is there, and does not answer.
pub(super) fn too_late(base: &str, within: Duration) -> Failure {
    Failure::coded(7, format!("{base} did not answer within {}", in_words(within))).hint(
        "does the server hang? `lineclear health` asks it; --request-timeout waits longer, --db needs no server",
    )
}

/// Nobody answered.
pub(super) fn no_answer(base: &str, error: &reqwest::Error) -> Failure {
    let mut why: &dyn std::error::Error = error;
    while let Some(cause) = why.source() {
        why = cause;
    }
    let code = if error.is_timeout() { 7 } else { 6 };
    Failure::coded(code, format!("no answer from {base}: {why}"))
        .hint("is the server running (`lineclear serve`), and is --server right? --db works without one")
}
