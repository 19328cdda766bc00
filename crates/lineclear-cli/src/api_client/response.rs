//! What the API answers.

use std::time::Duration;

use lineclear_http::Reply;
use serde_json::Value;

use super::Json;
use super::server::too_late;
use crate::failure::Failure;

/// Largest answer that is read as a whole.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// A stream that is silent for so long is broken.
const SILENCE: Duration = Duration::from_secs(40);

/// An answer that is read piece by piece.
pub(crate) enum Stream {
    Server {
        answer: reqwest::Response,
        base: String,
        /// How long the next piece may take.
        within: Duration,
    },
    Here(Reply),
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// As it came.
    pub(crate) body: Vec<u8>,
}

impl Stream {
    pub(crate) fn status(&self) -> u16 {
        match self {
            Stream::Server { answer, .. } => answer.status().as_u16(),
            Stream::Here(reply) => reply.status,
        }
    }

    /// Whether it goes on for as long as something happens.
    pub(crate) fn is_of_events(&self) -> bool {
        let content = match self {
            Stream::Server { answer, .. } => {
                answer.headers().get("content-type").and_then(|it| it.to_str().ok())
            }
            Stream::Here(reply) => {
                reply.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str())
            }
        };
        content.is_some_and(|content| content.starts_with("text/event-stream"))
    }

    /// For what goes on while nothing happens: a piece comes every 15 seconds, if only to say that somebody is there.
    pub(crate) fn goes_on(self) -> Stream {
        match self {
            Stream::Server { answer, base, .. } => Stream::Server { answer, base, within: SILENCE },
            here => here,
        }
    }

    /// The next piece; `None`: that was all.
    pub(crate) async fn piece(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match self {
            Stream::Server { answer, base, within } => {
                let piece = tokio::time::timeout(*within, answer.chunk()).await;
                let piece = piece.map_err(|_| too_late(base, *within))?;
                let ended = |error: reqwest::Error| {
                    Failure::coded(6, format!("the answer broke off: {}", error.without_url()))
                };
                piece.map(|piece| piece.map(|bytes| bytes.to_vec())).map_err(ended)
            }
            Stream::Here(reply) => Ok(reply.piece().await),
        }
    }

    /// All of it.
    pub(crate) async fn whole(mut self) -> Result<Answer, Failure> {
        let status = self.status();
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            body.extend_from_slice(&piece);
            if body.len() > BYTES_MAX {
                return Err(Failure::failed("the answer is too long"));
            }
        }
        Ok(Answer { status, body })
    }
}

impl Answer {
    /// What it says. A refusal is a failure, and so is what nobody can read: whoever takes it for an answer without fields waits for ever
    /// for one that never comes.
    pub(crate) fn json(self) -> Result<Json, Failure> {
        if self.status >= 300 {
            return Err(self.failure());
        }
        if self.body.is_empty() {
            return Ok(Json::default());
        }
        self.read().map_err(|why| {
            Failure::failed(format!("the answer is no JSON that can be read: {why}"))
                .hint("is it a server of Lineclear that answers? `lineclear api` prints answers as they are")
        })
    }

    fn read(&self) -> Result<Json, String> {
        let text = std::str::from_utf8(&self.body).map_err(|error| error.to_string())?;
        Json::parse(text.to_owned()).map_err(|error| error.to_string())
    }

    /// A refusal in our words and with our exit code.
    pub(crate) fn failure(&self) -> Failure {
        // Not everybody on the way refuses in JSON.
        let body = self.read().unwrap_or_default();
        let said = |name: &str| body.get(name).and_then(Value::as_str);
        let (code, detail) = (said("code").unwrap_or_default(), said("detail"));
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
        let detail = detail.map_or_else(|| format!("the server answered {}", self.status), str::to_owned);
        let pointer = body.pointer("/errors/0/pointer").and_then(Value::as_str);
        let message = match pointer {
            Some(pointer) if !detail.contains(pointer) => format!("{pointer}: {detail}"),
            _ => detail,
        };
        let failure = Failure::coded(exit, message);
        match exit {
            4 if self.status == 401 => {
                failure.hint("LINECLEAR_TOKEN holds the token; `lineclear token create` makes one")
            }
            _ => failure,
        }
    }
}
