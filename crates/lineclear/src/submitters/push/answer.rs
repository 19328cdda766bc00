//! What an answer of a worker means for the job, and for the breakers of its host and its URL.

use std::time::Duration;

use lineclear_model::outcome_object::parse_outcome;
use lineclear_model::payload::OUTPUT_BYTES_MAX;
use lineclear_model::{Failure, Outcome};
use lineclear_tls::with_causes;
use serde::Deserialize;

use crate::outbound::client::{is_overloaded, read_body, retry_after};
use crate::submitters::push::endpoints::OpenCall;
use crate::submitters::push::{RETRIES, RETRY_PAUSE, RETRY_PAUSE_MAX};
use crate::submitters::{Accepted, Submission, Unreachable};

/// Most bytes of an answer: an output, an error, and white space.
const BODY_BYTES_MAX: usize = 4 * OUTPUT_BYTES_MAX;
/// Most characters of a text that is no outcome.
const EXCERPT_CHARS: usize = 200;

/// How a call ended.
pub(super) struct Answered {
    pub(super) about_job: AboutJob,
    about_worker: AboutWorker,
}

/// What an answer means for the job.
pub(super) enum AboutJob {
    /// The worker has decided about the job.
    Submission(Submission),
    /// No worker has the job.
    NotTaken(NotTaken),
}

/// What an answer means for those who call next.
#[derive(Clone, Copy)]
enum AboutWorker {
    /// The worker answers, errors of the application included.
    Well,
    /// The host answers, but this URL takes no jobs.
    WrongUrl,
    /// The host is down, or cannot serve calls for now.
    HostFailed,
}

/// Why a worker did not take a job.
pub(super) struct NotTaken {
    why: String,
    retry_after: Option<Duration>,
    /// Whether another worker may take it at once.
    pub(super) elsewhere: bool,
    /// Whether the same worker may take it soon.
    soon: bool,
}

impl NotTaken {
    /// How long to wait for the next call, if it is worth it.
    pub(super) fn pause(&self, retries: u32) -> Option<Duration> {
        if !self.soon || retries >= RETRIES {
            return None;
        }
        let pause = self.retry_after.unwrap_or_else(|| jittered(RETRY_PAUSE * 4_u32.pow(retries)));
        (pause <= RETRY_PAUSE_MAX).then_some(pause)
    }

    /// Of two workers that did not take the job, the one that may take it sooner.
    pub(super) fn or_sooner(self, other: Option<NotTaken>) -> NotTaken {
        let rank = |one: &NotTaken| (!one.soon, one.retry_after.unwrap_or_default());
        match other {
            Some(other) if rank(&other) < rank(&self) => other,
            _ => self,
        }
    }
}

/// Three to five quarters of it, so that calls that failed together are not repeated together.
fn jittered(pause: Duration) -> Duration {
    pause / 4 * 3 + pause / 2 * (getrandom::u32().unwrap_or_default() % 1_000) / 1_000
}

impl From<NotTaken> for Submission {
    fn from(not_taken: NotTaken) -> Submission {
        let unreachable = Unreachable::new(not_taken.why);
        Submission::Unreachable(match not_taken.retry_after {
            Some(after) => unreachable.retry_in(after),
            None => unreachable,
        })
    }
}

impl Answered {
    fn new(about_job: AboutJob, about_worker: AboutWorker) -> Answered {
        Answered { about_job, about_worker }
    }

    /// Tells the breakers.
    pub(super) fn judge(self, call: OpenCall) -> AboutJob {
        let (wait, why) = match &self.about_job {
            AboutJob::NotTaken(not_taken) => (not_taken.retry_after, not_taken.why.as_str()),
            AboutJob::Submission(Submission::Done(Outcome::Failed(failure))) => {
                (None, failure.message.as_str())
            }
            AboutJob::Submission(_) => (None, ""),
        };
        match self.about_worker {
            AboutWorker::Well => call.success(),
            AboutWorker::WrongUrl => call.wrong_url(wait, why),
            AboutWorker::HostFailed => call.failure(wait, why),
        }
        self.about_job
    }
}

/// The error type of a job whose worker hung up.
const LOST: &str = "connection_lost";
/// The error type of a job whose worker answered something else than an outcome.
const BAD_ANSWER: &str = "bad_answer";

fn failed(error_type: &str, why: impl Into<String>) -> AboutJob {
    AboutJob::Submission(Submission::Done(Outcome::Failed(Failure::new(error_type, why))))
}

/// Reads the answer to a call.
pub(super) async fn read(sent: Result<reqwest::Response, reqwest::Error>, has_callback: bool) -> Answered {
    let mut response = match sent {
        Ok(response) => response,
        Err(error) => return unanswered(error),
    };
    let (status, after) = (response.status().as_u16(), retry_after(response.headers()));
    let (body, is_whole) = read_body(&mut response, BODY_BYTES_MAX).await;
    if matches!(status, 200 | 202) && !is_whole && body.len() < BODY_BYTES_MAX {
        let why = "the connection ended within the answer; the job may have run";
        return Answered::new(failed(LOST, why), AboutWorker::HostFailed);
    }
    Answered::new(about_job(status, after, &body, has_callback), about_worker(status))
}

/// As for the kind `http`: every answer but these few shows that the host works.
fn about_worker(status: u16) -> AboutWorker {
    match status {
        status if is_overloaded(status) => AboutWorker::HostFailed,
        300..=399 | 401 | 403 | 404 | 405 | 425 => AboutWorker::WrongUrl,
        _ => AboutWorker::Well,
    }
}

fn about_job(status: u16, retry_after: Option<Duration>, body: &[u8], has_callback: bool) -> AboutJob {
    let said = format!("status {status}{}", excerpt(body));
    let not_taken = |elsewhere: bool, soon: bool, hint: &str| {
        let why = format!("{said}{hint}");
        AboutJob::NotTaken(NotTaken { why, retry_after, elsewhere, soon })
    };
    match status {
        200 if body.len() >= BODY_BYTES_MAX => {
            let why = format!("the answer must have at most {BODY_BYTES_MAX} bytes");
            let failure = Failure::new(BAD_ANSWER, why).permanent();
            AboutJob::Submission(Submission::Done(Outcome::Failed(failure)))
        }
        200 => match parse_outcome(body) {
            Ok(outcome) => AboutJob::Submission(Submission::Done(outcome)),
            Err(why) => failed(BAD_ANSWER, format!("the answer must be an outcome object: {why}")),
        },
        202 if !has_callback => failed(
            BAD_ANSWER,
            "the worker accepted the job (202) but cannot report: set `callback_url` to the URL of this server, or answer 200 with the outcome",
        ),
        202 => AboutJob::Submission(Submission::Accepted(accepted(body))),
        300..=399 => not_taken(true, false, "; redirects are not followed: configure the URL itself"),
        400 | 413 | 415 | 422 => AboutJob::Submission(Submission::Refused(said)),
        429 | 502 | 503 => not_taken(true, true, ""),
        401 | 403 | 404 | 405 => not_taken(true, false, ""),
        425 => not_taken(false, false, ""),
        // With 408 and 504 a gateway gave up waiting for a worker that may have run the job, as with a lost answer.
        408 | 500.. => failed(&format!("status_{status}"), said),
        _ => {
            let why = format!(
                "status {status} is no answer of a worker: 200 with the outcome, or 202{}",
                excerpt(body)
            );
            failed(BAD_ANSWER, why)
        }
    }
}

/// A call without an answer. Before it was sent, nothing has happened; after that, the job may have run.
fn unanswered(error: reqwest::Error) -> Answered {
    let (is_connect, is_builder) = (error.is_connect(), error.is_builder());
    let why = with_causes(&error.without_url());
    if is_connect || is_builder {
        let not_taken = NotTaken { why, retry_after: None, elsewhere: true, soon: false };
        let about_worker = if is_connect { AboutWorker::HostFailed } else { AboutWorker::WrongUrl };
        return Answered::new(AboutJob::NotTaken(not_taken), about_worker);
    }
    let why = format!("no answer, and the job may have run: {why}");
    Answered::new(failed(LOST, why), AboutWorker::HostFailed)
}

/// The worker has the job, whatever else it says.
fn accepted(body: &[u8]) -> Accepted {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Body {
        id: Option<String>,
        lease_ms: Option<u64>,
    }
    let Body { id, lease_ms } = match body.trim_ascii() {
        [] => Body::default(),
        body => serde_json::from_slice(body).unwrap_or_else(|error| {
            tracing::warn!(%error, "the worker accepted a job with an answer that cannot be read");
            Body::default()
        }),
    };
    let accepted = id.into_iter().fold(Accepted::new(), Accepted::external_id);
    lease_ms.map(Duration::from_millis).into_iter().fold(accepted, Accepted::lease)
}

/// The beginning of a text, for people.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).take(EXCERPT_CHARS).collect();
    if line.is_empty() { line } else { format!(": {line}") }
}
