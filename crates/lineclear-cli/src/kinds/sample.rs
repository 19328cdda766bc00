//! The kind `sample`: sleeps and sometimes fails. The dashboard's sample manifests use it.

use std::time::Duration;

use lineclear::{HandlerError, Input, JobInfo};
use lineclear_http::SAMPLE;
use serde::Deserialize;

pub(super) const KIND: &str = SAMPLE;
/// Longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The input.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SampleInput {
    /// How long it sleeps.
    sleep_ms: u64,
    /// How many of ten jobs fail at their first attempt.
    fails: u64,
}

pub(super) async fn run(Input(input): Input<SampleInput>, job: JobInfo) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_millis(input.sleep_ms).min(SLEEP_MAX)).await;
    let dice = u64::try_from(job.id.0).unwrap_or(0).wrapping_mul(7) % 10;
    if job.claim_no == 1 && dice < input.fails {
        return Err("simulated failure of the sample".into());
    }
    Ok(())
}
