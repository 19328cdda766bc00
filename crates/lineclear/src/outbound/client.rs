//! One call: what it sends, how long it may take, and how much of the answer is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lineclear_model::secret::SecretName;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Url, redirect};

use crate::outbound::reach::{Names, Reach};
use crate::outbound::sign;
use crate::outbound::sign::Secret;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read; the rest is dropped.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// The longest `retry-after` of a server that we follow.
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

/// The answer of a server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// When it wants to be called again.
    pub retry_after: Option<Duration>,
    /// The beginning of its body.
    pub body: String,
}

/// Calls other servers, signed if there are secrets.
#[derive(Clone)]
pub struct Outbound {
    client: reqwest::Client,
    reach: Arc<Reach>,
    secrets: BTreeMap<String, Vec<Secret>>,
    secret_hosts: BTreeMap<SecretName, Vec<String>>,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// A call to make.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// The same for every attempt, so that a receiver recognizes a repeated call.
    pub(crate) id: String,
    /// When it is made, in seconds.
    pub(crate) timestamp: i64,
    pub(crate) body: Vec<u8>,
    pub(crate) timeout: Duration,
}

impl Outbound {
    /// Makes calls within `reach`, signed with the secrets of their host, if it has any. A host that can check a signature can
    /// also make one, so hosts must not share secrets.
    pub fn new(reach: Reach, secrets: BTreeMap<String, Vec<Secret>>) -> Result<Outbound, CallError> {
        let reach = Arc::new(reach);
        let client = reqwest::Client::builder()
            .user_agent(concat!("lineclear/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            // Redirects, and proxies of the environment, would lead to URLs that were not checked.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .dns_resolver(Names(reach.clone()))
            .build()
            .map_err(CallError::Client)?;
        Ok(Outbound { client, reach, secrets, secret_hosts: BTreeMap::new() })
    }

    /// To which hosts a call may send the secrets that its input names: `api.example.com`, `api.example.com:8443` for this port alone, or
    /// `http://api.internal` for calls in the clear. Other secrets are sent nowhere: otherwise the author of a job could have them sent to a server of their own.
    pub fn secret_hosts(mut self, hosts: BTreeMap<SecretName, Vec<String>>) -> Outbound {
        self.secret_hosts = hosts;
        self
    }

    /// Whether a call to this URL may contain this secret.
    pub(crate) fn may_send(&self, secret: &SecretName, url: &Url) -> bool {
        let scheme = if url.scheme() == "https" { "" } else { "http://" };
        let host = format!("{scheme}{}", url.host_str().unwrap_or_default());
        let with_port = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
        let allows = |allowed: &String| [&host, &with_port].iter().any(|is| allowed.eq_ignore_ascii_case(is));
        self.secret_hosts.get(secret).is_some_and(|hosts| hosts.iter().any(allows))
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
        // An answer that breaks off in its body is still an answer.
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

/// Seconds, or a date: that is compared with the server's `date` header, if there is one.
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
    // Zero would hammer the server; the job's own backoff is better.
    (seconds > 0).then(|| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_sent_to_its_hosts_and_in_the_clear_only_if_they_say_so() {
        let secret = SecretName::new("a").unwrap();
        let hosts = ["api.example.com", "x.example.com:8443", "http://plain.example.com"].map(str::to_owned);
        let outbound = Outbound::new(Reach::default(), BTreeMap::new()).unwrap();
        let outbound = outbound.secret_hosts([(secret.clone(), hosts.into())].into());
        let may = |secret: &SecretName, url: &str| outbound.may_send(secret, &url.parse().unwrap());
        for url in [
            "https://api.example.com/",
            "https://API.example.com:444/x",
            "https://x.example.com:8443/",
            "http://plain.example.com/",
        ] {
            assert!(may(&secret, url), "{url}");
            assert!(!may(&SecretName::new("b").unwrap(), url), "{url}");
        }
        for url in [
            "http://api.example.com/",
            "https://plain.example.com/",
            "https://x.example.com/",
            "https://api.example.com.evil.com/",
            "https://evil.com/?api.example.com",
            "https://sub.api.example.com/",
        ] {
            assert!(!may(&secret, url), "{url}");
        }
    }

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
