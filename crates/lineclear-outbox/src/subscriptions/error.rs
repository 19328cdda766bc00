//! Why events were not handled, and what happens next.

use std::fmt;
use std::time::Duration;

use crate::delivery::Next;
use crate::error::OutboxError;

/// Why events were not handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerError {
    pub(super) what: String,
    pub(super) next: Next,
}

impl HandlerError {
    /// The attempt is charged, and followed by another one.
    pub fn retry(what: impl Into<String>) -> HandlerError {
        HandlerError { what: what.into(), next: Next::Retry(None) }
    }

    /// The next attempt comes after this time.
    pub fn retry_in(what: impl Into<String>, after: Duration) -> HandlerError {
        HandlerError { what: what.into(), next: Next::Retry(Some(after)) }
    }

    /// No attempt can succeed: the event is parked, or the subscription stops.
    pub fn reject(what: impl Into<String>) -> HandlerError {
        HandlerError { what: what.into(), next: Next::Reject }
    }

    /// What the handler needs is away: no attempt is charged, and the subscription pauses before it tries again.
    pub fn unavailable(what: impl Into<String>) -> HandlerError {
        HandlerError { what: what.into(), next: Next::Pause }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for HandlerError {}

impl From<OutboxError> for HandlerError {
    fn from(error: OutboxError) -> HandlerError {
        match error {
            OutboxError::Unavailable(_) => HandlerError::unavailable(error.to_string()),
            OutboxError::Refused { .. } => HandlerError::reject(error.to_string()),
            _ => HandlerError::retry(error.to_string()),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<tokio_postgres::Error> for HandlerError {
    fn from(error: tokio_postgres::Error) -> HandlerError {
        // A statement that was cut off because the handler's time is over is the handler's own failure.
        if error.code() == Some(&tokio_postgres::error::SqlState::QUERY_CANCELED) {
            return HandlerError::retry(with_detail(&error));
        }
        match crate::postgres::classify(error) {
            OutboxError::Failed(error) => match error.downcast_ref::<tokio_postgres::Error>() {
                Some(error) => HandlerError::retry(with_detail(error)),
                None => HandlerError::retry(error.to_string()),
            },
            error => HandlerError::from(error),
        }
    }
}

/// The server's message, which the driver's error leaves out.
#[cfg(feature = "postgres")]
fn with_detail(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(detail) => format!("{} ({})", detail.message(), detail.code().code()),
        None => error.to_string(),
    }
}

#[cfg(feature = "sqlite")]
impl From<rusqlite::Error> for HandlerError {
    fn from(error: rusqlite::Error) -> HandlerError {
        HandlerError::from(crate::sqlite::classify(error))
    }
}
