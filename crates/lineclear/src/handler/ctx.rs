//! What a handler does with its job while it runs: steps, and how far it is.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lineclear_model::payload::OUTPUT_BYTES_MAX;
use lineclear_model::{Failure, Payload};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::handler::extract::{FromJob, JobContext};
use crate::handler::progress_buffer::ProgressBuffer;
use crate::handler::response::{HandlerError, with_causes};
use crate::handler::step::StepError;
use crate::store::{
    ClaimRef, FencedWrite, KEY_BYTES_MAX, ProgressView, StepRecord, Store, StoreError, StoreResult,
};

/// Steps that a handler may have. More belong into jobs of their own.
pub const STEPS_MAX: usize = 1_000;

/// How long to wait for a database that is away before a step is recorded again.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// The job's record while it runs. Cheap to clone.
#[derive(Clone)]
pub struct Ctx(Arc<Record>);

struct Record {
    claim: ClaimRef,
    store: Store,
    cancel: CancellationToken,
    notes: Arc<ProgressBuffer>,
    /// Names of the steps that this run has begun.
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
        store: Store,
        cancel: CancellationToken,
        notes: Arc<ProgressBuffer>,
    ) -> Ctx {
        Ctx(Arc::new(Record { claim, store, cancel, notes, begun: Mutex::default() }))
    }

    /// Does a part of the job's work once: its result is recorded, and when the job runs again (after a failure, a
    /// vanished worker, a revival) a step that finished is not done again, but answers with that result.
    ///
    /// A step that failed is recorded as well, and done again. A process that dies between the end of the work and the
    /// record of it makes a step that is done again: work that reaches outside should bear that. A name is used once
    /// in a run; a result has at most 64 KiB of JSON.
    pub async fn step<T>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, HandlerError>>,
    ) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
    {
        let turn = self.begin(name)?;
        if let Some(finished) = self.finished(name).await? {
            let unreadable = |error| StepError::unreadable(name, error);
            return finished.read().map_err(unreadable);
        }
        let begun_at = Instant::now();
        let done = work.await;
        let took = begun_at.elapsed();
        let step = |result| StepRecord { name: name.to_owned(), turn, result, took };
        match done {
            Ok(value) => {
                let output = Payload::of_within(&value, OUTPUT_BYTES_MAX);
                let output = output.map_err(|error| StepError::unrecordable(name, error))?;
                self.record(step(Ok(output))).await?;
                Ok(value)
            }
            Err(error) => {
                let failure = Failure::new("step", with_causes(&*error));
                // The handler hears of its own error in any case; that one matters more.
                if let Err(unrecorded) = self.record(step(Err(failure))).await {
                    tracing::debug!(error = %unrecorded, "a failed step could not be recorded");
                }
                Err(StepError::Failed(error))
            }
        }
    }

    /// Says how far the job is: a fraction from 0 to 1, and a text. Costs nothing to call often: the latest is written
    /// about once a second. A fraction that cannot be becomes the nearest that can.
    pub fn progress(&self, fraction: f64, text: &str) {
        self.0.notes.progress(ProgressView::new(fraction, text));
    }

    /// The step's turn, unless its name cannot be.
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

    /// What an earlier claim recorded.
    async fn finished(&self, name: &str) -> Result<Option<Payload>, StepError> {
        let Record { claim, store, .. } = &*self.0;
        if claim.no == 1 {
            // Nobody was here before.
            return Ok(None);
        }
        self.reach(name, || store.finished_step(claim.job, name)).await
    }

    async fn record(&self, step: StepRecord) -> Result<(), StepError> {
        let Record { claim, store, .. } = &*self.0;
        match self.reach(&step.name, || store.record_step(*claim, step.clone())).await? {
            FencedWrite::Recorded => Ok(()),
            FencedWrite::Stale => Err(StepError::Lost { step: step.name }),
        }
    }

    /// Asks until the database answers, or the handler is told to stop: work that is done must not be lost because the
    /// database is away for a while.
    async fn reach<T, A>(&self, step: &str, ask: impl Fn() -> A) -> Result<T, StepError>
    where
        A: Future<Output = StoreResult<T>>,
    {
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let later = matches!(error, StoreError::Unavailable { .. } | StoreError::Contended { .. });
            if !later || self.0.cancel.is_cancelled() {
                return Err(StepError::Store { step: step.to_owned(), error });
            }
            tracing::warn!(%error, job.id = %self.0.claim.job, step, "a step waits for the database");
            tokio::select! {
                () = self.0.cancel.cancelled() => {}
                () = tokio::time::sleep(AFTER_ERROR) => {}
            }
        }
    }
}

/// Only how far the job is, for handlers without steps.
#[derive(Clone, Debug)]
pub struct Progress(Ctx);

impl Progress {
    /// The same as [`Ctx::progress`].
    pub fn set(&self, fraction: f64, text: &str) {
        self.0.progress(fraction, text);
    }
}

impl FromJob for Progress {
    fn from_job(job: &JobContext) -> Result<Progress, Failure> {
        Ok(Progress(job.ctx.clone()))
    }
}
