//! The kind `http`: a job that calls a URL.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lineclear::Lineclear;
//! use lineclear::outbound::{Outbound, Reach, http};
//!
//! let outbound = Outbound::new(Reach::default(), Default::default())?;
//! let node = Lineclear::builder().state(outbound).kind(http::KIND, http::run);
//! # drop(node);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use lineclear_model::secret::{MARKER, SecretPlace, Secrets, without_value};
use lineclear_model::{Outcome, Payload};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::handler::{
    Cancel, ClusterId, Done, HandlerError, Input, IntoOutcome, JobInfo, Permanent, RetryIn, State,
};
use crate::outbound::client::{Answer, Call, CallError, Outbound, call_id};
use crate::outbound::reach::Reach;
use crate::secrets::{Mask, UsedSecrets};

/// The name under which a server registers it.
pub const KIND: &str = "http";

/// How long a call takes at most unless its job says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
const HEADERS_MAX: usize = 50;
/// Shortest wait for a host that is not called.
const SNOOZE_MIN: Duration = Duration::from_millis(100);
/// Shortest value that is masked where a server repeats it.
const ECHO_BYTES_MIN: usize = 4;
/// A URL that may always be called.
const ANY_URL: &str = "https://example.com/";
/// The error about a call whose URL has a secret.
const HIDDEN_URL: &str = "with its secrets, this is no call that may be made";
/// Bytes of an answer that are kept, so that the output of a job is not too large.
const KEPT: usize = 8 * 1024;

/// The input of a job.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    url: Text,
    /// Default: POST.
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Text>,
    /// Sent as it is written.
    #[serde(default)]
    body: Option<Box<RawValue>>,
    /// Statuses that count as success. Default: 200 to 299.
    #[serde(default)]
    success: Option<Vec<u16>>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// A string, or its parts, some of which may be secrets: `["Bearer ", {"$secret": "api-token"}]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum Text {
    Whole(String),
    Parts(Vec<String>),
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        match text {
            Text::Whole(text) => text,
            Text::Parts(parts) => parts.concat(),
        }
    }
}

/// The output of a job.
#[derive(Debug, Serialize)]
pub struct Answered {
    status: u16,
    body: String,
}

/// Checks an input before it is saved; the error says what is wrong with it.
pub fn check(reach: &Reach, input: &Payload) -> Result<(), String> {
    // The message leaves the invalid value out: it may be a secret.
    let request: Request = input.read().map_err(|error| without_value(&error.to_string()))?;
    let url = String::from(request.url.clone());
    // Where the URL begins with a secret, it is checked when the call is made.
    let request = if url.starts_with(MARKER) {
        Request { url: Text::Whole(ANY_URL.to_owned()), ..request }
    } else {
        request
    };
    request.call(reach, "0".to_owned(), 0).map(drop)
}

impl Request {
    fn call(self, reach: &Reach, id: String, timestamp: i64) -> Result<Call, String> {
        let url = reach.check(&String::from(self.url)).map_err(|why| format!("url: {why}"))?;
        let method = self.method.as_deref().unwrap_or("POST");
        let method = match method {
            "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" => {
                Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?
            }
            other => return Err(format!("method: {other:?} is none of GET, HEAD, POST, PUT, PATCH, DELETE")),
        };
        let timeout = self.timeout_ms.map_or(TIMEOUT, Duration::from_millis);
        if timeout.is_zero() || timeout > TIMEOUT_MAX {
            return Err("timeout_ms: it lies between a millisecond and an hour".to_owned());
        }
        if let Some(bad) = self.success.iter().flatten().find(|status| !(100..=599).contains(*status)) {
            return Err(format!("success: {bad} is no status"));
        }
        let mut headers = headers(self.headers)?;
        let body =
            self.body.map(|json| Box::<str>::from(json).into_string().into_bytes()).unwrap_or_default();
        if !body.is_empty() {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
        Ok(Call { method, url, headers, id, timestamp, body, timeout })
    }
}

fn headers(given: BTreeMap<String, Text>) -> Result<HeaderMap, String> {
    if given.len() > HEADERS_MAX {
        return Err(format!("headers: at most {HEADERS_MAX}"));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let bad = |why: &str| format!("headers: {name:?} {why}");
        let header: HeaderName = name.parse().map_err(|_| bad("is no name of a header"))?;
        let word = header.as_str();
        let ours = ["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "expect"];
        if ours.contains(&word) || word.starts_with("webhook-") || word.starts_with("lineclear-") {
            return Err(bad("is for the server to say"));
        }
        let mut value = HeaderValue::from_str(&String::from(value))
            .map_err(|_| bad("has a value that no header can have"))?;
        // No log of the client shows it.
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Calls the URL of a job. Any other status than a success, and a missing answer, are failures that are retried. While the breaker of
/// its host is open, the job goes back to the queue, and no failure is counted.
pub async fn run(
    Input(request): Input<Request>,
    job: JobInfo,
    cancel: Cancel,
    outbound: State<Outbound>,
    used: UsedSecrets,
    cluster: ClusterId,
) -> Result<Outcome, HandlerError> {
    let success = request.success.clone();
    let mut echoed = secrets_of(&request);
    let now = jiff::Timestamp::now().as_second();
    let has_secret_url = used.places().iter().any(|place| place.pointer.starts_with("/url"));
    let call = request.call(outbound.reach(), call_id(cluster.get(), job.id), now);
    // An error about the URL shows parts of it in another form than the secret, which no mask knows.
    let hide = |why: String| if has_secret_url { HIDDEN_URL.to_owned() } else { why };
    let mut call = call.map_err(|why| Permanent::new(hide(why)))?;
    if let Some(SecretPlace { name, .. }) =
        used.places().iter().find(|place| !outbound.may_send(&place.name, &call.url))
    {
        let why =
            format!("secret {name} may not be sent to this host; name the host in the `hosts` of the secret");
        return Err(Permanent::new(why).into());
    }
    if has_secret_url {
        // A URL escapes its parts in its own way.
        echoed.extend([call.url.path(), call.url.query().unwrap_or_default()].map(str::to_owned));
    }
    echoed.retain(|value| value.len() >= ECHO_BYTES_MIN);
    // The server can fence by the claim number: a lower one is stale.
    let about = [
        ("lineclear-job", Some(job.id.to_string())),
        ("lineclear-claim", Some(job.claim_no.to_string())),
        ("lineclear-attempt", Some(job.attempt.to_string())),
        ("lineclear-tick", job.tick_at.map(|tick| tick.to_string())),
    ];
    for (name, value) in about {
        if let Some(Ok(value)) = value.map(|value| value.parse()) {
            call.headers.insert(name, value);
        }
    }
    let answer = tokio::select! {
        answer = outbound.call(call) => answer,
        () = cancel.requested() => return Err("told to stop before there was an answer".into()),
    };
    let answer = match answer {
        Err(CallError::Suspended { host, retry_in }) => {
            tracing::info!(
                host,
                seconds = retry_in.as_secs_f64(),
                "not called: the last calls of this host failed"
            );
            return Ok(Outcome::Snoozed { after: retry_in.max(SNOOZE_MIN) });
        }
        answer => answer?,
    };
    let done = match &success {
        Some(statuses) => statuses.contains(&answer.status),
        None => (200..=299).contains(&answer.status),
    };
    let answer = Answer { body: shown(answer.body, echoed), ..answer };
    if done {
        Ok(Done(Answered { status: answer.status, body: kept(&answer.body) }).into_outcome())
    } else {
        Err(failed(answer))
    }
}

/// Values of the request that a server must not bring into the history: its headers, and fields of its body with secret names.
fn secrets_of(request: &Request) -> Vec<String> {
    let mut secrets: Vec<String> = request.headers.values().cloned().map(String::from).collect();
    if let Some(body) = &request.body {
        secrets.extend(Secrets::by_name().hidden(body.get()));
    }
    secrets
}

/// Removes secrets that the server echoes, and characters that payloads cannot hold.
fn shown(body: String, secrets: Vec<String>) -> String {
    let hidden = Mask::of_echoes(secrets).text(body);
    hidden.replace(|c: char| c.is_control() && !"\n\t".contains(c), "\u{fffd}")
}

fn failed(answer: Answer) -> HandlerError {
    let said = answer.body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let said: String = said.chars().take(200).collect();
    let error = format!("status {}{}{said}", answer.status, if said.is_empty() { "" } else { ": " });
    match answer.retry_after {
        Some(after) => RetryIn::new(after, error).into(),
        None => error.into(),
    }
}

fn kept(body: &str) -> String {
    let end = (0..=KEPT.min(body.len())).rev().find(|at| body.is_char_boundary(*at)).unwrap_or(0);
    let cut = if end < body.len() { "…" } else { "" };
    format!("{}{cut}", body.get(..end).unwrap_or_default())
}
