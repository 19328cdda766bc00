//! What can go wrong.

use std::error::Error;

/// An error of an outbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// The request is invalid.
    #[error("refused by {what}: {why}")]
    Refused {
        /// The part that is invalid.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The database did not answer in time, or cannot be reached. The next try may succeed.
    #[error("the database is unavailable: {0}")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The database refused a statement.
    #[error("the database failed: {0}")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The stream is not at the version that the caller expects: another transaction has appended to it. Nothing was written.
    #[error(
        "stream {stream:?} is at version {actual}, not {expected}: read it again, decide again, and append again"
    )]
    Conflict {
        /// The stream.
        stream: String,
        /// The version that the caller expects.
        expected: i64,
        /// Its version; 0 if it has no events.
        actual: i64,
    },
    /// The lock of the runner failed.
    #[error(transparent)]
    Lock(#[from] lineclear_lock::LockError),
}

impl OutboxError {
    /// Another try may succeed.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            OutboxError::Unavailable(_) => true,
            OutboxError::Lock(error) => error.is_unavailable(),
            _ => false,
        }
    }

    pub(crate) fn refused(what: &'static str, why: String) -> OutboxError {
        OutboxError::Refused { what, why }
    }

    pub(crate) fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> OutboxError {
        OutboxError::Failed(error.into())
    }

    pub(crate) fn unavailable(error: impl Into<Box<dyn Error + Send + Sync>>) -> OutboxError {
        OutboxError::Unavailable(error.into())
    }
}
