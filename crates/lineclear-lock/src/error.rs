//! Errors, by what the caller does next. Busy and lost are answers, not errors.

/// The error of a driver.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Skip this time and try again later: the holder of the lock is unknown.
    #[error("the store of the locks cannot be reached: {source}")]
    Unavailable {
        /// The driver's error.
        #[source]
        source: Source,
    },
    /// Do not try again: a rule forbids it, and nothing was changed.
    #[error("refused by {rule}: {why}")]
    Refused {
        /// The rule: the name of an option or of a check.
        rule: String,
        /// The reason, for a person.
        why: String,
    },
    /// An operator is needed: the store answers, but cannot do what was requested.
    #[error("the store of the locks failed: {source}")]
    Failed {
        /// The driver's error.
        #[source]
        source: Source,
    },
}

impl LockError {
    /// The store did not answer, or not in time.
    pub fn unavailable(source: impl Into<Source>) -> LockError {
        LockError::Unavailable { source: source.into() }
    }

    /// A refusal by a rule.
    pub fn refused(rule: &str, why: impl Into<String>) -> LockError {
        LockError::Refused { rule: rule.to_owned(), why: why.into() }
    }

    /// The store answered with an error that a retry does not help.
    pub fn failed(source: impl Into<Source>) -> LockError {
        LockError::Failed { source: source.into() }
    }

    /// Whether trying again later may help.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, LockError::Unavailable { .. })
    }
}
