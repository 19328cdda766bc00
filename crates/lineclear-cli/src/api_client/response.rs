//! Responses of the API.

use std::time::Duration;

use lineclear_http::Reply;
use serde_json::Value;

use super::Json;
use super::server::timed_out;
use crate::failure::Failure;

/// Largest response that is read as a whole.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// A stream of events without data for this long is broken.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// A response that is read chunk by chunk.
pub(crate) enum ResponseStream {
    Server {
        response: reqwest::Response,
        base: String,
        /// How long the next chunk may take.
        timeout: Duration,
    },
    InProcess(Reply),
}

/// A response that was read to its end.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The bytes as received.
    pub(crate) body: Vec<u8>,
}

impl ResponseStream {
    pub(crate) fn status(&self) -> u16 {
        match self {
            ResponseStream::Server { response, .. } => response.status().as_u16(),
            ResponseStream::InProcess(reply) => reply.status,
        }
    }

    /// Whether it is a stream of events, which does not end by itself.
    pub(crate) fn is_event_stream(&self) -> bool {
        let content_type = match self {
            ResponseStream::Server { response, .. } => {
                response.headers().get("content-type").and_then(|it| it.to_str().ok())
            }
            ResponseStream::InProcess(reply) => {
                reply.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str())
            }
        };
        content_type.is_some_and(|it| it.starts_with("text/event-stream"))
    }

    /// Allows the pauses of a stream of events: the server sends a comment every 15 seconds.
    pub(crate) fn allow_pauses(self) -> ResponseStream {
        match self {
            ResponseStream::Server { response, base, .. } => {
                ResponseStream::Server { response, base, timeout: SILENCE_MAX }
            }
            in_process => in_process,
        }
    }

    /// The next chunk; `None` at the end.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match self {
            ResponseStream::Server { response, base, timeout } => {
                let chunk = tokio::time::timeout(*timeout, response.chunk()).await;
                let chunk = chunk.map_err(|_| timed_out(base, *timeout))?;
                let cut_off = |error: reqwest::Error| {
                    Failure::coded(6, format!("the response was cut off: {}", error.without_url()))
                };
                chunk.map(|chunk| chunk.map(|bytes| bytes.to_vec())).map_err(cut_off)
            }
            ResponseStream::InProcess(reply) => Ok(reply.next_chunk().await),
        }
    }

    /// Reads it to its end.
    pub(crate) async fn read_all(mut self) -> Result<Response, Failure> {
        let status = self.status();
        let mut body = Vec::new();
        while let Some(chunk) = self.next_chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > BYTES_MAX {
                return Err(Failure::failed(format!("the response has more than {BYTES_MAX} bytes")));
            }
        }
        Ok(Response { status, body })
    }
}

impl Response {
    /// The body as JSON. A refusal is a failure, and so is a body that is no JSON: read as an object without fields, it would make a
    /// caller wait for ever for a state that never comes.
    pub(crate) fn json(self) -> Result<Json, Failure> {
        if self.status >= 300 {
            return Err(self.failure());
        }
        if self.body.is_empty() {
            return Ok(Json::default());
        }
        self.read().map_err(|why| {
            Failure::failed(format!("the response is not JSON: {why}")).hint(
                "check that --server names a Lineclear server; `lineclear api` prints responses unchanged",
            )
        })
    }

    fn read(&self) -> Result<Json, String> {
        let text = std::str::from_utf8(&self.body).map_err(|error| error.to_string())?;
        Json::parse(text.to_owned()).map_err(|error| error.to_string())
    }

    /// A refusal as a failure, with its exit code.
    pub(crate) fn failure(&self) -> Failure {
        // Proxies do not refuse in JSON.
        let body = self.read().unwrap_or_default();
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let (code, detail) = (text("code").unwrap_or_default(), text("detail"));
        let exit = match (self.status, code) {
            (_, "stored_data") => 11,
            (400 | 405 | 413 | 415 | 422, _) => 2,
            (401 | 403, _) => 4,
            (404, _) => 3,
            (409 | 412, _) => 5,
            (502 | 503, _) => 6,
            (408 | 504, _) => 7,
            _ => 1,
        };
        let detail =
            detail.map_or_else(|| format!("the server responded with status {}", self.status), str::to_owned);
        let pointer = body.pointer("/errors/0/pointer").and_then(Value::as_str);
        let message = match pointer {
            Some(pointer) if !detail.contains(pointer) => format!("{pointer}: {detail}"),
            _ => detail,
        };
        let failure = Failure::coded(exit, message);
        match exit {
            4 if self.status == 401 => failure
                .hint("set LINECLEAR_TOKEN and LINECLEAR_SERVER; `lineclear token create` creates a token"),
            _ => failure,
        }
    }
}
