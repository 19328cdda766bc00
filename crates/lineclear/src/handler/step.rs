//! Errors of steps.

use crate::handler::response::HandlerError;
use crate::store::{KEY_BYTES_MAX, StoreError};

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Its work failed, with this error.
    #[error("{0}")]
    Failed(#[source] HandlerError),
    /// Its name was used before in this run. Permanent: another attempt would repeat it.
    #[error("step {step:?} was begun twice in one run; each step needs a name of its own")]
    Repeated {
        /// Its name.
        step: String,
    },
    /// There are too many. Permanent.
    #[error("step {step:?} is one too many: a handler has at most {} steps", crate::handler::STEPS_MAX)]
    TooMany {
        /// Its name.
        step: String,
    },
    /// Its name or result cannot be recorded, or its recorded result cannot be read. Permanent.
    #[error("step {step:?}: {why}")]
    Unfit {
        /// Its name.
        step: String,
        /// What does not fit.
        why: String,
    },
    /// The claim was lost: another worker has the job. Nothing was recorded, and the handler's result is ignored.
    #[error("step {step:?} was not recorded: this claim was lost, and another worker has the job")]
    Lost {
        /// Its name.
        step: String,
    },
    /// A worker without the database could not have it recorded.
    #[error("step {step:?} was not recorded: {why}")]
    Unrecorded {
        /// Its name.
        step: String,
        /// What went wrong.
        why: String,
    },
    /// The database did not answer.
    #[error("step {step:?}: {error}")]
    Store {
        /// Its name.
        step: String,
        /// What went wrong.
        #[source]
        error: StoreError,
    },
}

impl StepError {
    pub(crate) fn bad_name(name: &str) -> StepError {
        let step = name[..name.floor_char_boundary(KEY_BYTES_MAX)].to_owned();
        StepError::Unfit { step, why: format!("a name has 1 to {KEY_BYTES_MAX} bytes and no NUL") }
    }

    pub(crate) fn unrecordable(name: &str, error: impl std::fmt::Display) -> StepError {
        StepError::Unfit { step: name.to_owned(), why: format!("its result cannot be recorded: {error}") }
    }

    pub(crate) fn unreadable(name: &str, error: impl std::fmt::Display) -> StepError {
        let error = lineclear_model::secret::without_value(&error.to_string());
        let why = format!(
            "the result that was recorded does not fit: {error}; reviving the job with edited input forgets its steps"
        );
        StepError::Unfit { step: name.to_owned(), why }
    }

    /// Whether another attempt cannot succeed.
    pub fn is_permanent(&self) -> bool {
        matches!(self, StepError::Repeated { .. } | StepError::TooMany { .. } | StepError::Unfit { .. })
    }
}
