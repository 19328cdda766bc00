//! Why a worker does not work.

use lineclear::node::BadOption;

/// Why a worker did not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// A kind or an option is invalid.
    #[error(transparent)]
    Option(#[from] BadOption),
    /// The server refuses this worker.
    #[error("the server refuses this worker: {detail} ({status} {code})")]
    Refused {
        /// The status of its response.
        status: u16,
        /// A word for programs, such as `kind_not_allowed`.
        code: String,
        /// Why, for people.
        detail: String,
    },
    /// The HTTP client cannot be made.
    #[error("calls cannot be made: {0}")]
    Client(#[from] reqwest::Error),
    /// A thread, or the handler of a signal, could not be started.
    #[error("cannot start a thread, or listen for signals: {0}")]
    System(#[from] std::io::Error),
}
