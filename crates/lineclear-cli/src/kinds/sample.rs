//! `sample`: does nothing of use. The dashboard's sample manifests are of this kind, so that a new database can show what it does.

use std::time::Duration;

use lineclear::{HandlerError, Input, JobInfo};
use lineclear_http::SAMPLE;
use serde::Deserialize;

pub(super) const KIND: &str = SAMPLE;
/// Longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// What it is to pretend.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Pretence {
    /// How long it takes.
    sleep_ms: u64,
    /// Of ten jobs, so many fail at their first try.
    fails: u64,
}

pub(super) async fn run(Input(pretence): Input<Pretence>, job: JobInfo) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_millis(pretence.sleep_ms).min(SLEEP_MAX)).await;
    let dice = u64::try_from(job.id.0).unwrap_or(0).wrapping_mul(7) % 10;
    if job.claim_no == 1 && dice < pretence.fails {
        return Err("the sample fails now and then, as it was told to".into());
    }
    Ok(())
}
