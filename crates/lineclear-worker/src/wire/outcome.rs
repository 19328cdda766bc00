//! How a job ended.

use lineclear::store::ClaimRef;
use lineclear_model::Payload;
use lineclear_model::outcome_object::OutcomeObject;
use serde::Serialize;
use serde_json::value::RawValue;

/// How one claim of a batch ended.
#[derive(Debug, Serialize)]
pub(crate) struct EndOfClaim {
    job: String,
    no: u32,
    #[serde(flatten)]
    outcome: OutcomeObject,
}

impl EndOfClaim {
    pub(crate) fn new(claim: ClaimRef, outcome: impl Into<OutcomeObject>) -> EndOfClaim {
        EndOfClaim { job: claim.job.to_string(), no: claim.no, outcome: outcome.into() }
    }
}

/// A payload is JSON, so this does not fail.
pub(crate) fn raw(payload: Payload) -> Option<Box<RawValue>> {
    RawValue::from_string(payload.into()).ok()
}
