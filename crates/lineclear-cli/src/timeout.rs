//! `--wait-timeout`: a bound on everything that a command waits for, requests included.

use std::time::Duration;

use crate::failure::Failure;

/// Runs `work` for at most `limit`; `None` if the time ran out.
pub(crate) async fn with_timeout<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<T>, Failure> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok().transpose(),
        None => work.await.map(Some),
    }
}
