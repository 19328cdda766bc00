//! HTTP push: each job is a signed call to a worker, which answers with the outcome, or accepts the job and reports later.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lineclear::Lineclear;
//! use lineclear::submitters::HttpPush;
//!
//! let billing = HttpPush::new("https://billing.internal/jobs")?
//!     .secrets(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?])
//!     .max_concurrent_dispatch(32);
//! let node = Lineclear::builder().submitter("billing", billing).submit_to("billing", ["invoice", "refund"]).start().await?;
//! # node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! The URL comes from the program or the server's settings and not from data, so it may lead anywhere.

mod answer;
mod endpoints;
mod request;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use lineclear_model::Outcome;
use reqwest::Url;
use tokio::time::sleep;

use crate::outbound::{BreakerState, Breakers, CallError, Secret, client};
use crate::submitters::push::answer::{AboutJob, NotTaken};
use crate::submitters::push::endpoints::{Endpoints, OpenCall};
use crate::submitters::push::request::Request;
use crate::submitters::{
    CAPACITY, Submission, SubmitFuture, SubmittedJob, Submitter, SubmitterStatus, Unreachable,
};

/// How often a call is repeated while the job waits in it.
const RETRIES: u32 = 2;
/// The first pause between such calls; the next one is four times as long.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause for which a job waits in its call. For a longer one it goes back to the queue.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long an idle connection is kept: shorter than servers keep theirs, so that no call is sent into a closed one.
const IDLE: Duration = Duration::from_secs(1);

/// The URL or the client of a push submitter is of no use.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadPush(String);

/// Sends jobs to workers by HTTP.
#[derive(Clone)]
pub struct HttpPush {
    client: reqwest::Client,
    endpoints: Arc<Endpoints>,
    secrets: Arc<[Secret]>,
    is_unsigned: bool,
    max_concurrent_dispatch: u32,
    timeout: Duration,
    callback: Option<Arc<str>>,
    /// The cluster whose jobs it sends. A clone has one of its own: it may join another cluster.
    cluster: OnceLock<Arc<str>>,
}

impl fmt::Debug for HttpPush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPush").field("target", &self.endpoints.shown()).finish_non_exhaustive()
    }
}

impl HttpPush {
    /// Longest call. A job that takes longer is accepted with 202, and reports later.
    pub const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
    /// Most calls at once on a node.
    pub const CONCURRENT_MAX: u32 = 10_000;

    /// Sends jobs to this URL.
    pub fn new(url: &str) -> Result<HttpPush, BadPush> {
        HttpPush::to_any_of([url])
    }

    /// Sends each job to one of several equal workers: to the one with the fewest open calls. A worker that fails is left out
    /// until it recovers.
    pub fn to_any_of<'a>(urls: impl IntoIterator<Item = &'a str>) -> Result<HttpPush, BadPush> {
        let urls: Vec<Url> = urls.into_iter().map(checked).collect::<Result<_, _>>()?;
        if urls.is_empty() {
            return Err(BadPush("a push submitter needs at least one URL".to_owned()));
        }
        let client = client::client().pool_idle_timeout(IDLE).build();
        let client = client.map_err(|error| BadPush(CallError::Client(error).to_string()))?;
        Ok(HttpPush {
            client,
            endpoints: Arc::new(Endpoints::new(urls, Breakers::default())),
            secrets: Arc::from([]),
            is_unsigned: false,
            max_concurrent_dispatch: CAPACITY,
            timeout: HttpPush::TIMEOUT_MAX,
            callback: None,
            cluster: OnceLock::new(),
        })
    }

    /// Signs each call with each of these secrets. A node does not start without them, unless calls are [`HttpPush::unsigned`]. To rotate: add the new one here, then to the workers; then remove the old
    /// one here, and at last from the workers, which accept it until then.
    pub fn secrets(mut self, secrets: impl IntoIterator<Item = Secret>) -> HttpPush {
        self.secrets = secrets.into_iter().collect();
        self
    }

    /// Calls need no signature: the workers accept calls of everyone who reaches them.
    pub fn unsigned(mut self) -> HttpPush {
        self.is_unsigned = true;
        self
    }

    /// Calls that may be open at once on a node. Default: 16.
    pub fn max_concurrent_dispatch(mut self, calls: u32) -> HttpPush {
        self.max_concurrent_dispatch = calls.clamp(1, HttpPush::CONCURRENT_MAX);
        self
    }

    /// How long a call may take, repetitions included. Default: the timeout of its job; an hour at most.
    pub fn timeout(mut self, timeout: Duration) -> HttpPush {
        self.timeout = timeout.min(HttpPush::TIMEOUT_MAX);
        self
    }

    /// The URL at which workers reach the server, such as `https://jobs.example.com`. Without it they cannot accept a job and
    /// report later.
    pub fn callback(mut self, url: &str) -> Result<HttpPush, BadPush> {
        let url = checked(url)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BadPush("the URL for callbacks must not have a query".to_owned()));
        }
        self.callback = Some(url.as_str().trim_end_matches('/').into());
        Ok(self)
    }

    /// Shares the breakers of hosts with others who call them: other push submitters, and the kind `http` of [`Outbound`](crate::outbound::Outbound::breakers).
    /// Without this it has its own.
    pub fn breakers(mut self, breakers: Breakers) -> HttpPush {
        self.endpoints = Arc::new(self.endpoints.with_breakers(breakers));
        self
    }

    /// Calls until a worker takes the job, or it is better to wait in the queue.
    async fn push(self, job: SubmittedJob, deadline: Instant) -> Submission {
        let cluster = self.cluster.get().map(|cluster| &**cluster);
        let request = match Request::new(&job, cluster, self.callback.as_deref()) {
            Ok(request) => request,
            Err(why) => return Submission::Refused(why),
        };
        let mut retries = 0;
        loop {
            let not_taken = match self.call_each(&request, deadline).await {
                Ok(submission) => return submission,
                Err(not_taken) => not_taken,
            };
            match not_taken.pause(retries).filter(|pause| Instant::now() + *pause < deadline) {
                Some(pause) => sleep(pause).await,
                None => return not_taken.into(),
            }
            retries += 1;
        }
    }

    /// Calls one worker after the other until one takes the job. `Err`: none does; the answer of the one that may take it soonest.
    async fn call_each(&self, request: &Request, deadline: Instant) -> Result<Submission, NotTaken> {
        let (mut tried, mut soonest) = (Vec::new(), None);
        loop {
            let open = match self.endpoints.open_call(&tried, deadline) {
                Ok(open) => open,
                // The other workers are suspended: what the called ones said decides.
                Err(wait) => {
                    let unreachable = Unreachable::new("no call: the last ones failed").retry_in(wait);
                    return soonest.map_or(Ok(Submission::Unreachable(unreachable)), Err);
                }
            };
            tried.push(open.endpoint());
            let not_taken = match self.call(open, request).await {
                AboutJob::Submission(submission) => return Ok(submission),
                AboutJob::NotTaken(not_taken) => not_taken,
            };
            // Another worker may take it at once.
            let goes_on = tried.len() < self.endpoints.len() && not_taken.elsewhere;
            let not_taken = not_taken.or_sooner(soonest);
            if !goes_on {
                return Err(not_taken);
            }
            soonest = Some(not_taken);
        }
    }

    async fn call(&self, open: OpenCall, request: &Request) -> AboutJob {
        let headers = request.headers(&self.secrets, jiff::Timestamp::now().as_second());
        let call = self.client.post(open.url()).headers(headers).body(request.body());
        let answered = answer::read(call.send().await, self.callback.is_some()).await;
        answered.judge(open)
    }
}

/// A URL to call: http or https, and no user in it.
fn checked(text: &str) -> Result<Url, BadPush> {
    let bad = |why: &str| BadPush(format!("{}: {why}", lineclear_model::secret::without_passwords(text)));
    let url: Url = text.parse().map_err(|_| bad("not a URL such as https://billing.internal/jobs"))?;
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none_or(str::is_empty) {
        return Err(bad("not a URL such as https://billing.internal/jobs"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("a URL must not have a user or a password in it; calls are signed with `secrets`"));
    }
    Ok(url)
}

impl Submitter for HttpPush {
    fn check(&self) -> Result<(), String> {
        if self.secrets.is_empty() != self.is_unsigned {
            return Err(
                "set `secrets`, with which workers verify calls; or `unsigned` if they need not".to_owned()
            );
        }
        Ok(())
    }

    fn join(&self, cluster: &str) {
        self.cluster.get_or_init(|| cluster.into());
    }

    /// The node drops the call if the job is cancelled or its lease is lost.
    fn submit(&self, job: SubmittedJob) -> SubmitFuture {
        let deadline = Instant::now() + job.timeout.min(self.timeout);
        let push = self.clone();
        Box::pin(async move {
            match tokio::time::timeout_at(deadline.into(), push.push(job, deadline)).await {
                Ok(submission) => submission,
                Err(_) => Submission::Done(Outcome::TimedOut),
            }
        })
    }

    fn capacity(&self) -> u32 {
        self.endpoints.capacity(self.max_concurrent_dispatch)
    }

    fn status(&self) -> SubmitterStatus {
        let target = format!("push {}", self.endpoints.shown());
        let all = self.endpoints.statuses();
        let suspended: Vec<_> = all.iter().filter(|one| one.state != BreakerState::Closed).collect();
        if suspended.is_empty() {
            return SubmitterStatus::ready(target);
        }
        let words = suspended.iter().map(|one| format!("{}: {}", one.host, one.failures_in_words()));
        let detail = Some(words.collect::<Vec<_>>().join(", "));
        let retry_in = suspended.iter().filter_map(|one| one.retry_in).min();
        let state = if suspended.len() < all.len() {
            format!("{} of {} endpoints suspended", suspended.len(), all.len())
        } else if suspended.iter().any(|one| one.state == BreakerState::HalfOpen) {
            "breaker half-open".to_owned()
        } else {
            "breaker open".to_owned()
        };
        SubmitterStatus::not_ready(target, state, detail, retry_in)
    }
}

#[cfg(test)]
mod tests;
