//! The JSON that servers and workers send each other; `docs/workers.md` and `docs/push.md` describe it.

pub(crate) mod api;
pub(crate) mod job;
pub(crate) mod log;
pub(crate) mod outcome;
pub(crate) mod step;

use lineclear::store::ClaimRef;
use serde::{Deserialize, Serialize};

/// A claim.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClaimId {
    pub(crate) job: String,
    pub(crate) no: u32,
}

impl From<ClaimRef> for ClaimId {
    fn from(claim: ClaimRef) -> ClaimId {
        ClaimId { job: claim.job.to_string(), no: claim.no }
    }
}

/// What happened to one claim of a call.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ClaimResult {
    pub(crate) status: String,
    pub(crate) detail: Option<String>,
}

pub(crate) const RECORDED: &str = "recorded";
pub(crate) const RENEWED: &str = "renewed";
pub(crate) const SKIPPED: &str = "skipped";
pub(crate) const STALE: &str = "stale_claim";
