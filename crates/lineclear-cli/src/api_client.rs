//! Client of the HTTP API: over HTTP to a server, or in process through the same routes on a database.

mod json;
mod response;
mod server;
mod target;

use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use lineclear_http::InProcessApi;

pub(crate) use json::Json;
pub(crate) use response::{Response, ResponseStream};
pub(crate) use server::ServerArgs;
pub(crate) use target::ApiTarget;

/// Paths of a server outside of the API.
const PROBES: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// Where requests go.
pub(crate) enum ApiClient {
    Server {
        client: reqwest::Client,
        base: String,
        token: Option<String>,
        /// How long a response, or its next chunk, may take.
        timeout: Duration,
    },
    /// The routes of the API in this process, on a database.
    InProcess(InProcessApi),
}

impl ApiClient {
    pub(crate) async fn get(&self, path: &str) -> Result<Json, Failure> {
        self.request("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Result<Json, Failure> {
        self.request("POST", path, Some(body)).await
    }

    /// Posts JSON text exactly as given.
    pub(crate) async fn post_text(&self, path: &str, body: String) -> Result<Json, Failure> {
        self.stream("POST", path, Some(body.into_bytes()), &[]).await?.read_all().await?.json()
    }

    /// Sends a request; a status of 300 or above is a failure.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Json, Failure> {
        self.send(method, path, body).await?.json()
    }

    /// Sends a request and returns the response, whatever its status.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Response, Failure> {
        let bytes = body.map(|body| body.to_string().into_bytes());
        self.stream(method, path, bytes, &[]).await?.read_all().await
    }

    /// Sends a request and returns the response to be read chunk by chunk.
    pub(crate) async fn stream(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
        headers: &[(&str, &str)],
    ) -> Result<ResponseStream, Failure> {
        let mut all: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if body.is_some() {
            all.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let path = if path.starts_with("/api/") || PROBES.contains(&path) {
            path.to_owned()
        } else {
            format!("/api/v1/{}", path.trim_start_matches('/'))
        };
        match self {
            ApiClient::InProcess(api) => {
                let reply = api.send(method, &path, &all, body.unwrap_or_default()).await;
                reply
                    .map(ResponseStream::InProcess)
                    .map_err(|error| Failure::usage(format!("{method} {path}: {error}")))
            }
            ApiClient::Server { client, base, token, timeout } => {
                let method = method
                    .parse()
                    .map_err(|_| Failure::usage(format!("{method:?} is not an HTTP method")))?;
                let mut request =
                    client.request(method, format!("{base}{path}")).body(body.unwrap_or_default());
                for (name, value) in all {
                    request = request.header(name, value);
                }
                if let Some(token) = token {
                    request = request.bearer_auth(token);
                }
                // A server that hangs accepts the request and never responds.
                let sent = tokio::time::timeout(*timeout, request.send()).await;
                let sent = sent.map_err(|_| server::timed_out(base, *timeout))?;
                let response = sent.map_err(|error| server::unreachable(base, &error))?;
                Ok(ResponseStream::Server { response, base: base.clone(), timeout: *timeout })
            }
        }
    }

    /// Waits until the audit log is written.
    pub(crate) async fn finish(self) {
        if let ApiClient::InProcess(api) = self {
            api.finish().await;
        }
    }
}

/// Encodes text as one segment of a path.
pub(crate) fn path_segment(text: &str) -> String {
    let unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(|byte| if unreserved(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// `?a=b&c=d`, without the pairs that have no value.
pub(crate) fn query_string(pairs: &[(&str, Option<String>)]) -> String {
    let given: Vec<String> = pairs
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", path_segment(value.as_deref()?))))
        .collect();
    if given.is_empty() { String::new() } else { format!("?{}", given.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_segment_of_a_path() {
        assert_eq!(path_segment("nightly.etl-1"), "nightly.etl-1");
        assert_eq!(path_segment("a/../b?c#d é"), "a%2F..%2Fb%3Fc%23d%20%C3%A9");
        assert_eq!(
            query_string(&[("q", Some("state:dead a&b".into())), ("x", None)]),
            "?q=state%3Adead%20a%26b"
        );
        assert_eq!(query_string(&[("x", None)]), "");
    }
}
