//! The context of a running job: steps and progress.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lineclear_model::payload::OUTPUT_BYTES_MAX;
use lineclear_model::{Failure, Payload};
use lineclear_tls::with_causes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::handler::extract::{FromJob, JobContext};
use crate::handler::progress_buffer::ProgressBuffer;
use crate::handler::response::HandlerError;
use crate::handler::step::StepError;
use crate::handler::step_recorder::{Recorder, Trouble};
use crate::secrets::Mask;
use crate::store::{ClaimRef, FencedWrite, KEY_BYTES_MAX, ProgressView, StepRecord};

/// Steps of a handler at most. Split more work into jobs.
pub const STEPS_MAX: usize = 1_000;

/// The pause before a step is recorded again when the database, or the server, does not answer.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// The context of a running job. Cheap to clone.
#[derive(Clone)]
pub struct Ctx(Arc<Record>);

struct Record {
    claim: ClaimRef,
    recorder: Recorder,
    cancel: CancellationToken,
    buffer: Arc<ProgressBuffer>,
    /// Names of the steps that this run has started.
    begun: Mutex<HashSet<String>>,
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("claim", &self.0.claim).finish_non_exhaustive()
    }
}

impl FromJob for Ctx {
    fn from_job(job: &JobContext) -> Result<Ctx, Failure> {
        Ok(job.ctx.clone())
    }
}

impl Ctx {
    pub(crate) fn new(
        claim: ClaimRef,
        recorder: Recorder,
        cancel: CancellationToken,
        buffer: Arc<ProgressBuffer>,
    ) -> Ctx {
        Ctx(Arc::new(Record { claim, recorder, cancel, buffer, begun: Mutex::default() }))
    }

    /// Runs a part of the job once: its result is recorded, and when the job runs again (after a failure, a vanished worker, a
    /// revival), a finished step returns that result instead of running.
    ///
    /// A failed step is recorded, too, and runs again. If the process dies after the work and before its record, the step runs
    /// again: external side effects must be idempotent. A name may be used once in a run; a result has at most 64 KiB of JSON.
    pub async fn step<T>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, HandlerError>>,
    ) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
    {
        let position = self.begin(name)?;
        if let Some(finished) = self.finished(name).await? {
            let unreadable = |error| StepError::unreadable(name, error);
            return finished.read().map_err(unreadable);
        }
        let begun_at = Instant::now();
        let done = work.await;
        let took = begun_at.elapsed();
        let step = |result| StepRecord { name: name.to_owned(), position, result, took };
        match done {
            Ok(value) => {
                let output = Payload::of_within(&value, OUTPUT_BYTES_MAX);
                let output = output.map_err(|error| StepError::unrecordable(name, error))?;
                self.record(step(Ok(output))).await?;
                Ok(value)
            }
            Err(error) => {
                let failure = Failure::new("step", with_causes(&*error));
                // The handler gets its own error in any case, which matters more.
                if let Err(unrecorded) = self.record(step(Err(failure))).await {
                    tracing::debug!(error = %unrecorded, "cannot record a failed step");
                }
                Err(StepError::Failed(error))
            }
        }
    }

    /// Sets the job's progress: a fraction from 0 to 1, and a text. Cheap to call often: the latest is written about once a
    /// second. The fraction is clamped.
    pub fn progress(&self, fraction: f64, text: &str) {
        self.0.buffer.progress(ProgressView::new(fraction, text));
    }

    /// The buffer of its progress and log.
    pub(crate) fn buffer(&self) -> &Arc<ProgressBuffer> {
        &self.0.buffer
    }

    /// Masks the values of secrets in all that follows.
    pub(crate) fn hide(&self, mask: Mask) {
        self.0.buffer.hide(mask);
    }

    /// The position of a new step, or why its name is not allowed.
    fn begin(&self, name: &str) -> Result<u32, StepError> {
        if name.is_empty() || name.len() > KEY_BYTES_MAX || name.contains('\0') {
            return Err(StepError::bad_name(name));
        }
        let mut begun = self.0.begun.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if begun.contains(name) {
            return Err(StepError::Repeated { step: name.to_owned() });
        }
        if begun.len() >= STEPS_MAX {
            return Err(StepError::TooMany { step: name.to_owned() });
        }
        begun.insert(name.to_owned());
        Ok(u32::try_from(begun.len()).unwrap_or(u32::MAX))
    }

    /// The result that an earlier claim recorded.
    async fn finished(&self, name: &str) -> Result<Option<Payload>, StepError> {
        let Record { claim, recorder, .. } = &*self.0;
        if claim.no == 1 {
            // There is no earlier claim.
            return Ok(None);
        }
        self.retry(name, || recorder.finished(*claim, name)).await
    }

    async fn record(&self, step: StepRecord) -> Result<(), StepError> {
        let Record { claim, recorder, buffer, .. } = &*self.0;
        let step = match buffer.mask() {
            None => step,
            Some(mask) => {
                let result = step.result.map(|output| mask.payload(output));
                StepRecord { result: result.map_err(|failure| mask.failure(failure)), ..step }
            }
        };
        match self.retry(&step.name, || recorder.record(*claim, step.clone())).await? {
            FencedWrite::Recorded => Ok(()),
            FencedWrite::Stale => Err(StepError::Lost { step: step.name }),
        }
    }

    /// Retries until there is an answer, or the handler is told to stop: finished work must not be lost in a short outage.
    async fn retry<T, A>(&self, step: &str, request: impl Fn() -> A) -> Result<T, StepError>
    where
        A: Future<Output = Result<T, Trouble>>,
    {
        loop {
            let trouble = match request().await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            if !trouble.is_transient() || self.0.cancel.is_cancelled() {
                return Err(trouble.of_step(step));
            }
            self.0.recorder.warn(self.0.claim, step, &trouble);
            tokio::select! {
                () = self.0.cancel.cancelled() => {}
                () = tokio::time::sleep(AFTER_ERROR) => {}
            }
        }
    }
}

/// The progress alone, for handlers without steps.
#[derive(Clone, Debug)]
pub struct Progress(Ctx);

impl Progress {
    /// Sets the job's progress; see [`Ctx::progress`].
    pub fn set(&self, fraction: f64, text: &str) {
        self.0.progress(fraction, text);
    }
}

impl FromJob for Progress {
    fn from_job(job: &JobContext) -> Result<Progress, Failure> {
        Ok(Progress(job.ctx.clone()))
    }
}
