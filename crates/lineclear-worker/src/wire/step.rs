//! Steps of jobs.

use lineclear::store::{ClaimRef, StepRecord};
use lineclear_model::outcome_object::ErrorObject;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::wire::outcome::raw;

/// A step that has ended; in a batch it names its claim.
#[derive(Debug, Serialize)]
pub(crate) struct StepObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no: Option<u32>,
    name: String,
    position: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
    took_ms: u64,
}

impl StepObject {
    pub(crate) fn of(step: StepRecord) -> StepObject {
        let (output, error) = match step.result {
            Ok(output) => (raw(output), None),
            Err(failure) => (None, Some(failure.into())),
        };
        let took_ms = u64::try_from(step.took.as_millis()).unwrap_or(u64::MAX);
        StepObject { job: None, no: None, name: step.name, position: step.position, output, error, took_ms }
    }

    pub(crate) fn about(self, claim: ClaimRef) -> StepObject {
        StepObject { job: Some(claim.job.to_string()), no: Some(claim.no), ..self }
    }
}

/// The name of a step; in a batch it names its claim.
#[derive(Debug, Serialize)]
pub(crate) struct StepName {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) no: Option<u32>,
    pub(crate) name: String,
}

/// A step that an earlier claim has finished.
#[derive(Debug, Deserialize)]
pub(crate) struct FinishedStep {
    pub(crate) found: bool,
    pub(crate) output: Option<Box<RawValue>>,
}
