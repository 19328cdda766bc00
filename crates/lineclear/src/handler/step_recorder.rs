//! Where the steps of a job are recorded: in the database, or, on a worker without it, by the server that has the job.

use std::pin::Pin;
use std::sync::Arc;

use lineclear_model::Payload;

use crate::handler::step::StepError;
use crate::store::{ClaimRef, FencedWrite, StepRecord, Store, StoreError};

/// The future of a call to a [`StepRecorder`].
pub type StepFuture<T> = Pin<Box<dyn Future<Output = Result<T, RecorderError>> + Send>>;

/// Records the steps of a job that runs without a connection to the database.
pub trait StepRecorder: Send + Sync + 'static {
    /// The result of a step that an earlier claim of the job has finished.
    fn finished(&self, claim: ClaimRef, step: String) -> StepFuture<Option<Payload>>;

    /// Records the result of a step.
    fn record(&self, claim: ClaimRef, step: StepRecord) -> StepFuture<FencedWrite>;
}

/// Why a step was not recorded, or not read.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// There is no answer. The step waits, and is recorded later.
    #[error("{0}")]
    Unreachable(String),
    /// It is not possible.
    #[error("{0}")]
    Refused(String),
}

/// Where a [`Ctx`](crate::Ctx) records.
pub(crate) enum Recorder {
    Store(Box<Store>),
    Remote(Arc<dyn StepRecorder>),
}

/// Why a call failed.
pub(crate) enum Trouble {
    Store(StoreError),
    Remote(RecorderError),
}

impl Trouble {
    /// Whether the same call may succeed soon.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(
            self,
            Trouble::Store(
                StoreError::Unavailable { .. } | StoreError::Contended { .. } | StoreError::Locked { .. }
            ) | Trouble::Remote(RecorderError::Unreachable(_))
        )
    }

    pub(crate) fn of_step(self, step: &str) -> StepError {
        let step = step.to_owned();
        match self {
            Trouble::Store(error) => StepError::Store { step, error },
            Trouble::Remote(error) => StepError::Unrecorded { step, why: error.to_string() },
        }
    }
}

impl Recorder {
    pub(crate) async fn finished(&self, claim: ClaimRef, step: &str) -> Result<Option<Payload>, Trouble> {
        match self {
            Recorder::Store(store) => store.finished_step(claim.job, step).await.map_err(Trouble::Store),
            Recorder::Remote(remote) => {
                remote.finished(claim, step.to_owned()).await.map_err(Trouble::Remote)
            }
        }
    }

    pub(crate) async fn record(&self, claim: ClaimRef, step: StepRecord) -> Result<FencedWrite, Trouble> {
        match self {
            Recorder::Store(store) => store.record_step(claim, step).await.map_err(Trouble::Store),
            Recorder::Remote(remote) => remote.record(claim, step).await.map_err(Trouble::Remote),
        }
    }

    /// Warns of a step that waits; folded where many may wait.
    pub(crate) fn warn(&self, claim: ClaimRef, step: &str, trouble: &Trouble) {
        match (self, trouble) {
            (Recorder::Store(store), Trouble::Store(error)) => {
                if let Some(left_out) = store.monitor.log.note(&"steps") {
                    tracing::warn!(%error, job.id = %claim.job, step, left_out, "a step waits for the database");
                }
            }
            (_, Trouble::Remote(error)) => {
                tracing::warn!(%error, job.id = %claim.job, step, "a step waits for the server");
            }
            _ => {}
        }
    }
}
