//! A limit for answers of a store.

use std::time::Duration;

use crate::error::LockError;

/// Waits for an answer of the store, for at most `limit`.
pub(crate) async fn timely<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    tokio::time::timeout(limit, answer)
        .await
        .unwrap_or_else(|_| Err(LockError::unavailable(format!("no answer within {limit:?}"))))
}
