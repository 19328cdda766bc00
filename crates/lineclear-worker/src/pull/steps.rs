//! Steps of jobs, which the server records.

use lineclear::remote::{RecorderError, StepFuture, StepRecorder};
use lineclear::store::{ClaimRef, FencedWrite, StepRecord};
use lineclear_model::Payload;
use lineclear_model::payload::OUTPUT_BYTES_MAX;
use serde::{Deserialize, Serialize};

use crate::pull::session::CALL;
use crate::wire::api::{Api, CallError};
use crate::wire::step::{FinishedStep, StepName, StepObject};
use crate::wire::{ClaimResult, RECORDED, STALE};

#[derive(Serialize)]
struct Steps<T> {
    worker: String,
    steps: Vec<T>,
}

#[derive(Deserialize)]
struct Answers<T> {
    steps: Vec<T>,
}

/// Records the steps of a worker's jobs over HTTP.
pub(crate) struct RemoteSteps {
    pub(crate) api: Api,
    pub(crate) worker: String,
}

impl StepRecorder for RemoteSteps {
    fn finished(&self, claim: ClaimRef, step: String) -> StepFuture<Option<Payload>> {
        let api = self.api.clone();
        let step = StepName { job: Some(claim.job.to_string()), no: Some(claim.no), name: step };
        let body = Steps { worker: self.worker.clone(), steps: vec![step] };
        Box::pin(async move {
            let answers: Answers<FinishedStep> =
                api.post("/claims/steps/read", &body, CALL).await.map_err(recorder_error)?;
            answers.steps.into_iter().next().map_or(Ok(None), finished)
        })
    }

    fn record(&self, claim: ClaimRef, step: StepRecord) -> StepFuture<FencedWrite> {
        let api = self.api.clone();
        let body = Steps { worker: self.worker.clone(), steps: vec![StepObject::of(step).about(claim)] };
        Box::pin(async move {
            let answers: Answers<ClaimResult> =
                api.post("/claims/steps", &body, CALL).await.map_err(recorder_error)?;
            match answers.steps.into_iter().next() {
                Some(step) if step.status == RECORDED => Ok(FencedWrite::Recorded),
                Some(step) if step.status == STALE => Ok(FencedWrite::Stale),
                Some(step) => Err(RecorderError::Refused(step.detail.unwrap_or(step.status))),
                None => Err(RecorderError::Unreachable("the server answered nothing".to_owned())),
            }
        })
    }
}

/// The result of a step that was finished; none if it was not.
pub(crate) fn finished(step: FinishedStep) -> Result<Option<Payload>, RecorderError> {
    if !step.found {
        return Ok(None);
    }
    let output = step.output.as_ref().map_or("null", |output| output.get());
    let unfit = |error| RecorderError::Refused(format!("the result that was recorded does not fit: {error}"));
    Payload::parse_within(output, OUTPUT_BYTES_MAX).map(Some).map_err(unfit)
}

pub(crate) fn recorder_error(error: CallError) -> RecorderError {
    match error {
        CallError::Unreachable { why, .. } => RecorderError::Unreachable(why),
        CallError::Refused { .. } => RecorderError::Refused(error.to_string()),
    }
}
