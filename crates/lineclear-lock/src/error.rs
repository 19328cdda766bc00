//! Errors, split by what the caller does next. Busy and lost are answers, not errors.

/// Whatever a driver said.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a lock could not be asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Skip this time and try again later: nobody knows who holds the lock.
    #[error("the store of the locks cannot be reached: {source}")]
    Unavailable {
        /// What the driver said.
        #[source]
        source: Source,
    },
    /// Do not try again: a rule said no, and nothing was changed.
    #[error("refused by {rule}: {why}")]
    Refused {
        /// The rule: the name of an option, or a word of ours.
        rule: String,
        /// The reason, for a person.
        why: String,
    },
    /// Call a person: the store answers, but cannot do what it is asked.
    #[error("the store of the locks failed: {source}")]
    Failed {
        /// What the driver said.
        #[source]
        source: Source,
    },
}

impl LockError {
    /// The store said nothing, or not in time.
    pub fn unavailable(source: impl Into<Source>) -> LockError {
        LockError::Unavailable { source: source.into() }
    }

    /// A refusal by a rule of ours.
    pub fn refused(rule: &str, why: impl Into<String>) -> LockError {
        LockError::Refused { rule: rule.to_owned(), why: why.into() }
    }

    /// The store answered with an error that will not go away by itself.
    pub fn failed(source: impl Into<Source>) -> LockError {
        LockError::Failed { source: source.into() }
    }

    /// Whether trying again later may help.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, LockError::Unavailable { .. })
    }
}
