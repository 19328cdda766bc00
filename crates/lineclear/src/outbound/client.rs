//! One call: what it sends, how long it may take, and how much of the answer is kept.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lineclear_model::secret::SecretName;
use lineclear_tls::with_causes;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Url, redirect};

use crate::outbound::breaker::{BreakerState, BreakerStatus, Breakers, Permit, host_of};
use crate::outbound::reach::{Names, Reach, Unreachable};
use crate::outbound::sign;
use crate::outbound::sign::Secret;
use crate::store::JobId;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read; the rest is dropped.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// The longest `retry-after` of a server that we follow.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// The shortest time without an answer that counts against a host: the author of a job chooses how long to wait for it.
pub(crate) const SILENCE_MIN: Duration = Duration::from_secs(1);

/// Why there is no answer. URLs are left out: they may have secrets in them.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The client could not be made.
    #[error("calls cannot be made: {0}")]
    Client(#[source] reqwest::Error),
    /// The server did not answer.
    #[error("no answer: {0}")]
    NoAnswer(#[source] reqwest::Error),
    /// The host has failed too often; it is called again after this time.
    #[error("{host} is not called for now: its last calls failed")]
    Suspended {
        /// The host.
        host: String,
        /// How long to wait.
        retry_in: Duration,
    },
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
    breakers: Breakers,
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
        let client = client().dns_resolver(Names(reach.clone())).build().map_err(CallError::Client)?;
        let (secret_hosts, breakers) = (BTreeMap::new(), Breakers::default());
        Ok(Outbound { client, reach, secrets, secret_hosts, breakers })
    }

    /// Shares the breakers of hosts with others who call them.
    pub fn breakers(mut self, breakers: Breakers) -> Outbound {
        self.breakers = breakers;
        self
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

    /// The hosts that are not called for now, or are tried again, by name.
    pub(crate) fn suspended_hosts(&self) -> Vec<BreakerStatus> {
        let mut hosts = self.breakers.list();
        hosts.retain(|host| host.state != BreakerState::Closed);
        hosts
    }

    /// What it may reach.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Makes a call, unless the breaker of its host is open.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer, CallError> {
        let (host, timeout) = (host_of(&call.url), call.timeout);
        let permit =
            self.breakers.admit(&host).map_err(|retry_in| CallError::Suspended { host, retry_in })?;
        let answer = self.send(call).await;
        judge(permit, &answer, timeout);
        answer
    }

    async fn send(&self, call: Call) -> Result<Answer, CallError> {
        let Call { method, url, mut headers, id, timestamp, body, timeout } = call;
        let secrets = url.host_str().and_then(|host| self.secrets.get(host)).map(Vec::as_slice);
        sign_headers(&mut headers, secrets.unwrap_or_default(), &id, timestamp, &body);
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
        let (body, _) = read_body(&mut response, BODY_BYTES_MAX).await;
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer { status: response.status().as_u16(), retry_after, body })
    }
}

/// A client that calls the given URLs and no others.
pub(crate) fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("lineclear/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        // Redirects, and proxies of the environment, would lead to URLs that were not checked.
        .redirect(redirect::Policy::none())
        .no_proxy()
}

/// What calls of a job are called: `job-<cluster>-<job>`. A worker without the database does not know its cluster.
pub(crate) fn call_id(cluster: Option<&str>, job: JobId) -> String {
    cluster.map_or_else(|| format!("job-{job}"), |cluster| format!("job-{cluster}-{job}"))
}

/// Adds the headers of Standard Webhooks.
pub(crate) fn sign_headers(
    headers: &mut HeaderMap,
    secrets: &[Secret],
    id: &str,
    timestamp: i64,
    body: &[u8],
) {
    let signed = [
        ("webhook-id", Some(id.to_owned())),
        ("webhook-timestamp", Some(timestamp.to_string())),
        ("webhook-signature", sign::signature(secrets, id, timestamp, body)),
    ];
    for (name, value) in signed {
        if let Some(Ok(value)) = value.map(|value| value.parse()) {
            headers.insert(name, value);
        }
    }
}

/// The beginning of a body, and whether it is whole.
pub(crate) async fn read_body(response: &mut reqwest::Response, bytes_max: usize) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => return (body, true),
            // An answer that breaks off in its body is still an answer.
            Err(_) => return (body, false),
        }
        if body.len() > bytes_max {
            body.truncate(bytes_max);
            return (body, false);
        }
    }
}

/// Statuses of a server, or of a proxy before it, that cannot serve calls for now.
pub(crate) fn is_overloaded(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

/// Tells the breaker how a call ended. Every other answer, errors of the application included, shows that the host works.
fn judge(permit: Permit, answer: &Result<Answer, CallError>, timeout: Duration) {
    match answer {
        Ok(answer) if is_overloaded(answer.status) => {
            permit.because(&format!("status {}", answer.status)).failure(answer.retry_after);
        }
        Ok(_) => permit.success(),
        Err(CallError::NoAnswer(error)) if is_refused_name(error) => drop(permit),
        Err(CallError::NoAnswer(error)) if error.is_timeout() && timeout < SILENCE_MIN => drop(permit),
        Err(error) => permit.because(&with_causes(error)).failure(None),
    }
}

/// Whether the name was not resolved: this is about the URL and not about a server.
fn is_refused_name(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<Unreachable>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Seconds, or a date: that is compared with the server's `date` header, if there is one.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
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
