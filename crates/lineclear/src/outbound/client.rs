//! One call: what it sends, how long it may take, and how much of the answer is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Url, redirect};

use crate::outbound::reach::{Names, Reach};
use crate::outbound::sign;
use crate::outbound::sign::Secret;

/// How long a server may take to take the call.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read; the rest is cut off.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// A server that wants to be called later is believed up to here.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Why there is no answer. URLs are left out: they may have secrets in them.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The client could not be made.
    #[error("calls cannot be made: {0}")]
    Client(#[source] reqwest::Error),
    /// The server did not answer.
    #[error("no answer: {0}")]
    NoAnswer(#[source] reqwest::Error),
}

/// What a server said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// When it wants to be called again.
    pub retry_after: Option<Duration>,
    /// The beginning of what it said.
    pub body: String,
}

/// Calls other servers, signed if there are secrets.
#[derive(Clone)]
pub struct Outbound {
    client: reqwest::Client,
    reach: Arc<Reach>,
    secrets: BTreeMap<String, Vec<Secret>>,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// A call to be.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// The same whenever the call is made again, so that a receiver can tell.
    pub(crate) id: String,
    /// When it is made, in seconds.
    pub(crate) timestamp: i64,
    pub(crate) body: Vec<u8>,
    pub(crate) timeout: Duration,
}

impl Outbound {
    /// Within this reach. Calls are signed with the secrets of their host, if it has any: who can check a signature can also make
    /// it, so hosts must not share them.
    pub fn new(reach: Reach, secrets: BTreeMap<String, Vec<Secret>>) -> Result<Outbound, CallError> {
        let reach = Arc::new(reach);
        let client = reqwest::Client::builder()
            .user_agent(concat!("lineclear/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            // Where a server sends us, and where the environment does, was not looked at.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .dns_resolver(Names(reach.clone()))
            .build()
            .map_err(CallError::Client)?;
        Ok(Outbound { client, reach, secrets })
    }

    /// What it may reach.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    pub(crate) async fn call(&self, call: Call) -> Result<Answer, CallError> {
        let Call { method, url, mut headers, id, timestamp, body, timeout } = call;
        let secrets = url.host_str().and_then(|host| self.secrets.get(host)).map(Vec::as_slice);
        let signature = sign::signature(secrets.unwrap_or_default(), &id, timestamp, &body);
        let signed = [
            ("webhook-id", Some(id)),
            ("webhook-timestamp", Some(timestamp.to_string())),
            ("webhook-signature", signature),
        ];
        for (name, value) in signed {
            if let Some(Ok(value)) = value.map(|value| value.parse()) {
                headers.insert(name, value);
            }
        }
        let mut response = self
            .client
            .request(method, url)
            .headers(headers)
            .timeout(timeout)
            .body(body)
            .send()
            .await
            .map_err(|error| CallError::NoAnswer(error.without_url()))?;
        let retry_after = retry_after(response.headers());
        let mut body = Vec::new();
        // Who answers and then stops in the middle has answered.
        while body.len() < BODY_BYTES_MAX
            && let Ok(Some(piece)) = response.chunk().await
        {
            body.extend_from_slice(&piece);
        }
        body.truncate(BODY_BYTES_MAX);
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer { status: response.status().as_u16(), retry_after, body })
    }
}

/// Seconds, or a moment: then by the clock of who says it, if it shows that one.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let moment = |text| jiff::fmt::rfc2822::parse(text).ok().map(|moment| moment.timestamp());
    let said = text(RETRY_AFTER)?;
    let seconds = match said.parse() {
        Ok(seconds) => seconds,
        Err(_) => {
            let now = text(DATE).and_then(moment).unwrap_or_else(jiff::Timestamp::now);
            u64::try_from(moment(said)?.as_second().checked_sub(now.as_second())?).ok()?
        }
    };
    // Zero would be a hammer; the job's own pause is better.
    (seconds > 0).then(|| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_in_seconds_or_until_a_moment_of_the_others_clock() {
        let said = |after: &str, date: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, after.parse().unwrap());
            if let Some(date) = date {
                headers.insert(DATE, date.parse().unwrap());
            }
            retry_after(&headers).map(|pause| pause.as_secs())
        };
        let date = Some("Wed, 21 Oct 2015 07:28:00 GMT");
        assert_eq!(said("120", None), Some(120));
        assert_eq!(said("Wed, 21 Oct 2015 07:29:30 GMT", date), Some(90));
        assert_eq!(said("Wed, 21 Oct 2015 09:29:30 GMT", date), Some(3_600), "an hour at most");
        // Over, by their clock or ours; no hammer; no such thing.
        assert_eq!(said("Wed, 21 Oct 2015 07:27:00 GMT", date), None);
        assert_eq!(said("Wed, 21 Oct 2015 07:29:30 GMT", None), None);
        for nonsense in ["0", "-5", "soon", "1e9", "99999999999999999999"] {
            assert_eq!(said(nonsense, date), None, "{nonsense}");
        }
    }
}
