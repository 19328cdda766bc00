//! The HTTP API, as commands ask it: of a server, or straight on a database through the same routes.

mod json;
mod place;
mod reply;
mod server;

use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use lineclear_http::Local;

pub(crate) use json::Json;
pub(crate) use place::At;
pub(crate) use reply::{Answer, Stream};
pub(crate) use server::Server;

/// What a server answers beside the API.
const BESIDE: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// Whom commands ask.
pub(crate) enum Api {
    /// A server.
    Server {
        client: reqwest::Client,
        base: String,
        token: Option<String>,
        /// How long an answer, or the next piece of it, may take.
        answer_within: Duration,
    },
    /// Nobody but ourselves.
    Here(Local),
}

impl Api {
    pub(crate) async fn get(&self, path: &str) -> Result<Json, Failure> {
        self.ask("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Result<Json, Failure> {
        self.ask("POST", path, Some(body)).await
    }

    /// The same with JSON that is sent as it is written.
    pub(crate) async fn post_text(&self, path: &str, body: String) -> Result<Json, Failure> {
        self.stream("POST", path, Some(body.into_bytes()), &[]).await?.whole().await?.json()
    }

    /// Asks; what is refused is a failure that says so.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Json, Failure> {
        self.ask_anyway(method, path, body).await?.json()
    }

    /// Asks; what is refused is an answer.
    pub(crate) async fn ask_anyway(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answer, Failure> {
        let bytes = body.map(|body| body.to_string().into_bytes());
        self.stream(method, path, bytes, &[]).await?.whole().await
    }

    /// Asks; the answer is read piece by piece.
    pub(crate) async fn stream(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
        headers: &[(&str, &str)],
    ) -> Result<Stream, Failure> {
        let mut all: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if body.is_some() {
            all.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let path = if path.starts_with("/api/") || BESIDE.contains(&path) {
            path.to_owned()
        } else {
            format!("/api/v1/{}", path.trim_start_matches('/'))
        };
        match self {
            Api::Here(local) => {
                let reply = local.ask(method, &path, &all, body.unwrap_or_default()).await;
                reply.map(Stream::Here).map_err(|error| Failure::usage(format!("{method} {path}: {error}")))
            }
            Api::Server { client, base, token, answer_within } => {
                let method =
                    method.parse().map_err(|_| Failure::usage(format!("{method:?} is no method")))?;
                let mut request =
                    client.request(method, format!("{base}{path}")).body(body.unwrap_or_default());
                for (name, value) in all {
                    request = request.header(name, value);
                }
                if let Some(token) = token {
                    request = request.bearer_auth(token);
                }
                // A server that hangs takes the request, and says nothing.
                let within = *answer_within;
                let sent = tokio::time::timeout(within, request.send()).await;
                let sent = sent.map_err(|_| server::too_late(base, within))?;
                let answer = sent.map_err(|error| server::no_answer(base, &error))?;
                Ok(Stream::Server { answer, base: base.clone(), within })
            }
        }
    }

    /// Waits until what was done is written down.
    pub(crate) async fn finish(self) {
        if let Api::Here(local) = self {
            local.finish().await;
        }
    }
}

/// A piece of a path: whatever is in it, it is one piece.
pub(crate) fn piece(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// `?a=b&c=d`, without those that are not there.
pub(crate) fn query(pairs: &[(&str, Option<String>)]) -> String {
    let said: Vec<String> = pairs
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", piece(value.as_deref()?))))
        .collect();
    if said.is_empty() { String::new() } else { format!("?{}", said.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_is_one_piece_of_a_path() {
        assert_eq!(piece("nightly.etl-1"), "nightly.etl-1");
        assert_eq!(piece("a/../b?c#d é"), "a%2F..%2Fb%3Fc%23d%20%C3%A9");
        assert_eq!(query(&[("q", Some("state:dead a&b".into())), ("x", None)]), "?q=state%3Adead%20a%26b");
        assert_eq!(query(&[("x", None)]), "");
    }
}
