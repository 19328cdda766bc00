//! Locks in PostgreSQL, of three kinds.
//!
//! | kind | for | needs |
//! |---|---|---|
//! | [`PostgresLease`] (the default) | anything; a frozen holder's lock ends by itself | nothing: any pooler may be in between. With a direct connection, the crash of a holder is noticed at once |
//! | [`PostgresSession`] (`?lock=session`) | locks that are held for long and change hands at once | a direct connection; it is refused behind a transaction pooler |
//! | [`try_transaction_lock`] | work inside one transaction | nothing |
//!
//! [`fence()`] lets a transaction commit only while an epoch is current.

mod lease;
pub(crate) mod connection;
mod target;
mod probe;
pub(crate) mod schema;
mod session;
mod transaction;

pub use lease::PostgresLease;
pub use session::PostgresSession;
pub use target::PostgresTarget;
pub use transaction::{TransactionKey, fence, try_transaction_lock};

use tokio_postgres::error::SqlState;

use crate::error::LockError;

/// Classifies an error by what the caller does next.
pub(crate) fn classify(error: tokio_postgres::Error) -> LockError {
    let Some(state) = error.code() else { return LockError::unavailable(error) };
    if *state == SqlState::READ_ONLY_SQL_TRANSACTION {
        return LockError::refused("postgres", "the server is read-only; locks need the primary");
    }
    // Connection, transaction rollback, resources, operator intervention, and timeouts.
    let transient = ["08", "40", "53", "57"].iter().any(|class| state.code().starts_with(class));
    if transient
        || *state == SqlState::LOCK_NOT_AVAILABLE
        || *state == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
    {
        LockError::unavailable(error)
    } else {
        LockError::failed(error)
    }
}
