//! A job, as a server hands it over.

use std::time::{Duration, Instant};

use lineclear::remote::RemoteJob;
use lineclear::store::{ClaimRef, JobId};
use lineclear_model::{Micros, Name, Payload};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A job and the terms of its claim.
#[derive(Debug, Deserialize)]
pub(crate) struct HandedJob {
    pub(crate) job: Job,
    pub(crate) claim: Claim,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) kind: String,
    input: Box<RawValue>,
    tick_at: Option<String>,
    attempt: u32,
    trace: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Claim {
    pub(crate) no: u32,
    pub(crate) lease_ms: u64,
    timeout_ms: u64,
    /// For callbacks of a pushed job.
    pub(crate) token: Option<String>,
}

impl HandedJob {
    /// Its claim. `None`: its id is no number.
    pub(crate) fn reference(&self) -> Option<ClaimRef> {
        Some(ClaimRef { job: JobId(self.job.id.parse().ok()?), no: self.claim.no })
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.claim.lease_ms)
    }

    /// The job for its handler; its lease began at `leased_at` at the earliest. `Err`: why it cannot be read.
    pub(crate) fn read(&self, leased_at: Instant) -> Result<RemoteJob, String> {
        let Job { kind, input, tick_at, attempt, trace, .. } = &self.job;
        let claim = self.reference().ok_or("`job.id` must be a number in a string")?;
        let kind = Name::new(kind.clone()).map_err(|error| format!("`job.kind`: {error}"))?;
        let input = Payload::parse(input.get()).map_err(|error| format!("`job.input`: {error}"))?;
        let moment = |text: &String| text.parse::<jiff::Timestamp>().map(Micros::from);
        let tick_at =
            tick_at.as_ref().map(moment).transpose().map_err(|error| format!("`job.tick_at`: {error}"))?;
        Ok(RemoteJob {
            id: claim.job,
            kind,
            input,
            claim_no: claim.no,
            attempt: *attempt,
            tick_at,
            trace: trace.clone(),
            timeout: Duration::from_millis(self.claim.timeout_ms),
            lease: self.lease(),
            trusted_until: trusted_until(leased_at, self.lease()),
        })
    }
}

/// A worker trusts a lease from its request on, because a slow answer must not extend it, until a little before its end, so that
/// the handler is told in time.
pub(crate) fn trusted_until(asked_at: Instant, lease: Duration) -> Instant {
    asked_at + lease - lease / 10
}
