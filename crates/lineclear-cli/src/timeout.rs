//! `--within`: waiting has an end, also when nobody answers.

use std::time::Duration;

use crate::failure::Failure;

/// Does it, for so long at most. `None`: it was not done in time.
pub(crate) async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<T>, Failure> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok().transpose(),
        None => work.await.map(Some),
    }
}
