//! Callbacks of one claim: steps, progress, logs, and whether the worker still has the job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear::remote::{RecorderError, RemoteRun, StepFuture, StepRecorder};
use lineclear::store::{ClaimRef, FencedWrite, StepRecord};
use lineclear_model::Payload;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::endpoint::pushed::Pushed;
use crate::pull::{finished, recorder_error};
use crate::wire::api::{Api, CallError};
use crate::wire::job::trusted_until;
use crate::wire::log::LineObject;
use crate::wire::step::{FinishedStep, StepName, StepObject};
use crate::wire::{SKIPPED, STALE};

/// How long a callback may take.
const CALL: Duration = Duration::from_secs(10);
/// How often progress and logs are reported.
const REPORT: Duration = Duration::from_secs(1);
/// Lines in one call.
const LINES_MAX: usize = 1_000;

/// What a server answers.
#[derive(Deserialize)]
struct Answer {
    status: String,
    cancel: Option<bool>,
    lease_ms: Option<u64>,
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct ProgressObject {
    fraction: f64,
    text: String,
}

#[derive(Serialize)]
struct Lines {
    lines: Vec<LineObject>,
}

/// The callbacks of a claim.
pub(super) struct Callback {
    api: Api,
    lease: Duration,
}

impl Callback {
    /// `None`: the server has told no URL.
    pub(super) fn new(http: &reqwest::Client, pushed: &Pushed, lease: Duration) -> Option<Callback> {
        let (url, token) = (pushed.callback.as_deref()?, pushed.job.claim.token.as_deref()?);
        Some(Callback { api: Api::new(http.clone(), url, Some(token)).ok()?, lease })
    }

    /// Reports, and renews the lease, until the handler has ended, and its last lines are sent.
    pub(super) async fn report(&self, run: &RemoteRun, ended: &CancellationToken) {
        let mut renewed_at = Instant::now();
        let mut lease = self.lease;
        let pause = REPORT.min(lease / 10).max(Duration::from_millis(10));
        while tokio::time::timeout(pause, ended.cancelled()).await.is_err() {
            if renewed_at.elapsed() >= lease / 3 {
                renewed_at = Instant::now();
                lease = self.renew(run).await.unwrap_or(lease);
            }
            self.progress(run).await;
            self.logs(run).await;
        }
        self.logs(run).await;
    }

    /// Learns whether the worker still has the job. Without an answer it goes on: the call that brought it is open.
    async fn renew(&self, run: &RemoteRun) -> Option<Duration> {
        let asked_at = Instant::now();
        let answer: Result<Answer, CallError> = self.api.post("/renew", &Nothing {}, CALL).await;
        match answer {
            Ok(answer) => {
                let lease = answer.lease_ms.map(Duration::from_millis);
                if let Some(lease) = lease.filter(|_| answer.status != SKIPPED) {
                    run.trust(trusted_until(asked_at, lease));
                }
                if answer.cancel == Some(true) {
                    run.cancel();
                }
                lease
            }
            Err(CallError::Refused { code, .. }) if code == STALE => {
                run.lose();
                None
            }
            Err(error) => {
                tracing::debug!(job.id = %run.claim().job, %error, "the lease of a pushed job was not renewed");
                None
            }
        }
    }

    async fn progress(&self, run: &RemoteRun) {
        let Some(progress) = run.new_progress() else { return };
        let body = ProgressObject { fraction: progress.fraction, text: progress.text };
        let answer: Result<Answer, CallError> = self.api.post("/progress", &body, CALL).await;
        if answer.is_ok_and(|answer| answer.status == SKIPPED) {
            run.progress_again();
        }
    }

    /// Sends new log lines.
    async fn logs(&self, run: &RemoteRun) {
        if !run.has_log() {
            return;
        }
        let lines = run.drain_log();
        let from = lines.len().saturating_sub(LINES_MAX);
        let body = Lines { lines: lines[from..].iter().map(LineObject::of).collect() };
        let answer: Result<Answer, CallError> = self.api.post("/logs", &body, CALL).await;
        match answer {
            Err(CallError::Unreachable { .. }) => run.log_again(lines),
            Ok(_) | Err(CallError::Refused { .. }) => run.log_written(),
        }
    }
}

/// Records steps by callbacks. Without them, no step can be recorded.
pub(super) fn steps(callback: Option<&Callback>) -> Arc<dyn StepRecorder> {
    match callback {
        Some(callback) => Arc::new(CallbackSteps(callback.api.clone())),
        None => Arc::new(NoCallback),
    }
}

struct CallbackSteps(Api);

impl StepRecorder for CallbackSteps {
    fn finished(&self, _: ClaimRef, step: String) -> StepFuture<Option<Payload>> {
        let api = self.0.clone();
        Box::pin(async move {
            let step = StepName { job: None, no: None, name: step };
            let answer: FinishedStep = api.post("/steps/read", &step, CALL).await.map_err(recorder_error)?;
            finished(answer)
        })
    }

    fn record(&self, _: ClaimRef, step: StepRecord) -> StepFuture<FencedWrite> {
        let api = self.0.clone();
        Box::pin(async move {
            let answer: Result<Answer, CallError> = api.post("/steps", &StepObject::of(step), CALL).await;
            match answer {
                Ok(_) => Ok(FencedWrite::Recorded),
                Err(CallError::Refused { code, .. }) if code == STALE => Ok(FencedWrite::Stale),
                Err(error) => Err(recorder_error(error)),
            }
        })
    }
}

struct NoCallback;

impl NoCallback {
    fn error() -> RecorderError {
        let why = "the server has told no URL for callbacks; set `callback_url` of the submitter, because the job has steps";
        RecorderError::Refused(why.to_owned())
    }
}

impl StepRecorder for NoCallback {
    fn finished(&self, _: ClaimRef, _: String) -> StepFuture<Option<Payload>> {
        Box::pin(async { Err(NoCallback::error()) })
    }

    fn record(&self, _: ClaimRef, _: StepRecord) -> StepFuture<FencedWrite> {
        Box::pin(async { Err(NoCallback::error()) })
    }
}
