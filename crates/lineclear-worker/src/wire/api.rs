//! Calls to a server, and what their responses mean for the caller.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes of a response at most: a thousand jobs with the longest inputs.
const RESPONSE_BYTES_MAX: usize = 300 * 1024 * 1024;
/// The longest `retry-after` that is followed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// There is no answer, or one that means: later. Whether the call was done is not known.
    Unreachable { why: String, retry_after: Option<Duration> },
    /// The server refuses the call.
    Refused { status: u16, code: String, detail: String, body: Vec<u8> },
}

impl CallError {
    fn unreachable(why: impl std::fmt::Display) -> CallError {
        CallError::Unreachable { why: why.to_string(), retry_after: None }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::Unreachable { why, .. } => f.write_str(why),
            CallError::Refused { status, code, detail, .. } => write!(f, "{detail} ({status} {code})"),
        }
    }
}

/// A client that follows no redirect: a token is for one server.
pub(crate) fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .user_agent(concat!("lineclear-worker/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(redirect::Policy::none())
        .build()
}

/// A server, or the callbacks of one claim.
#[derive(Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    base: String,
    bearer: Option<HeaderValue>,
}

impl Api {
    /// `Err`: the token is no header.
    pub(crate) fn new(http: reqwest::Client, base: &str, token: Option<&str>) -> Result<Api, String> {
        let bearer = |token: &str| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
                .map_err(|_| "`token` must have printable characters only".to_owned())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        };
        let bearer = token.map(bearer).transpose()?;
        Ok(Api { http, base: base.trim_end_matches('/').to_owned(), bearer })
    }

    /// Over another connection.
    pub(crate) fn with_client(&self, http: reqwest::Client) -> Api {
        Api { http, ..self.clone() }
    }

    /// Sends JSON, and reads it.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        timeout: Duration,
    ) -> Result<T, CallError> {
        let body = serde_json::to_vec(body).map_err(CallError::unreachable)?;
        self.post_bytes(path, body, timeout).await
    }

    pub(crate) async fn post_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<T, CallError> {
        let (status, body) = self.send(Method::POST, path, body, timeout).await?;
        serde_json::from_slice(&body).map_err(|error| {
            CallError::unreachable(format_args!("the response ({status}) is not that of a server: {error}"))
        })
    }

    pub(crate) async fn delete(&self, path: &str, timeout: Duration) -> Result<(), CallError> {
        self.send(Method::DELETE, path, Vec::new(), timeout).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<(StatusCode, Vec<u8>), CallError> {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).timeout(timeout);
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer.clone());
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body);
        }
        let response = request.send().await.map_err(no_answer)?;
        let (status, retry_after) = (response.status(), retry_after(&response));
        let body = read(response).await?;
        if status.is_success() { Ok((status, body)) } else { Err(error_of(status, retry_after, body)) }
    }
}

fn no_answer(error: reqwest::Error) -> CallError {
    // The URL is that of the configuration, and may have a password.
    let error = error.without_url();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    CallError::unreachable(format_args!("no answer: {error}{cause}"))
}

async fn read(mut response: Response) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(no_answer)? {
        if body.len() + piece.len() > RESPONSE_BYTES_MAX {
            return Err(CallError::unreachable("the response is too long"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// Only a problem with a code is the word of a server; anything else may come from a proxy on the way.
fn error_of(status: StatusCode, retry_after: Option<Duration>, body: Vec<u8>) -> CallError {
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |field: &str| problem[field].as_str().map(str::to_owned);
    let is_final = status.is_client_error() && ![408, 425, 429].contains(&status.as_u16());
    match text("code") {
        Some(code) if is_final => {
            let detail = text("detail").unwrap_or_default();
            CallError::Refused { status: status.as_u16(), code, detail, body }
        }
        _ => {
            let said = text("detail").map(|detail| format!(": {detail}")).unwrap_or_default();
            CallError::Unreachable { why: format!("the server answers {status}{said}"), retry_after }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_problem_of_a_server_is_a_refusal() {
        let error = |status: u16, body: &str| {
            error_of(StatusCode::from_u16(status).expect("a status"), None, body.as_bytes().to_vec())
        };
        let is_refusal =
            |status, body| matches!(error(status, body), CallError::Refused { code, .. } if code == "no");
        let problem = r#"{"code": "no", "detail": "not you"}"#;
        for status in [400, 401, 403, 404, 409, 413, 422] {
            assert!(is_refusal(status, problem), "{status}");
            assert!(!is_refusal(status, "<html>nginx</html>"), "{status} of a proxy");
        }
        for status in [301, 408, 425, 429, 500, 502, 503, 504] {
            assert!(!is_refusal(status, problem), "{status}");
        }
        assert!(error(503, problem).to_string().contains("not you"));
    }
}
