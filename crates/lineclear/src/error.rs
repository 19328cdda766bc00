//! Errors, split by what the caller does next. Expected outcomes (stale, busy, not found) are values, not errors.

use lineclear_model::Name;

/// The error of a driver.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Try again later.
    #[error("the database cannot be reached: {source}")]
    Unavailable {
        /// The answer was lost, so the change may have happened.
        maybe_applied: bool,
        /// The driver's error.
        #[source]
        source: Source,
    },
    /// Try again now: lost a race that the database resolved.
    #[error("another transaction was in the way: {source}")]
    Contended {
        /// The driver's error.
        #[source]
        source: Source,
    },
    /// Try again soon: another transaction holds a lock on what this needs, and nothing was changed.
    #[error("locked by another transaction: {source}")]
    Locked {
        /// What the driver said.
        #[source]
        source: Source,
    },
    /// Do not try again: a rule said no, and nothing was changed.
    #[error("refused by {rule}: {why}")]
    Refused {
        /// The rule: a constraint's name, or a word of ours.
        rule: String,
        /// The reason, for a person.
        why: String,
        /// The item and field of the call that the rule refuses, if it is about one.
        at: Option<Box<Location>>,
    },
    /// Stop taking work and call a person; reading may still work: disk full, read-only, no permission.
    #[error("the database cannot write: {source}")]
    CannotWrite {
        /// The driver's error.
        #[source]
        source: Source,
    },
    /// Stop and call a person: the stored data is damaged, or from another version.
    #[error("stored data or schema is not what this version wrote: {what}")]
    Corrupt {
        /// What was found.
        what: String,
    },
}

/// An item and a field of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The item.
    pub item: Item,
    /// The field, as the type of the item spells it, such as `schedule.after`; empty: the item as a whole.
    pub field: &'static str,
}

/// An item of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A job, by its index.
    Job(usize),
    /// A manifest, by its key.
    Manifest(Name),
}

impl StoreError {
    /// A refusal by a rule of ours.
    pub(crate) fn refused(rule: &str, why: impl Into<String>) -> StoreError {
        StoreError::Refused { rule: rule.to_owned(), why: why.into(), at: None }
    }

    /// The refusal of a job in this call.
    pub(crate) fn of_job(self, index: usize, field: &'static str) -> StoreError {
        self.located(Location { item: Item::Job(index), field })
    }

    /// The refusal of a manifest in this call.
    pub(crate) fn of_manifest(self, key: &Name, field: &'static str) -> StoreError {
        self.located(Location { item: Item::Manifest(key.clone()), field })
    }

    fn located(self, location: Location) -> StoreError {
        match self {
            StoreError::Refused { rule, why, .. } => {
                StoreError::Refused { rule, why, at: Some(Box::new(location)) }
            }
            other => other,
        }
    }

    /// A copy for each caller that shared a statement; a driver's error cannot be cloned, so its text is copied.
    pub(crate) fn again(&self) -> StoreError {
        let text = |source: &Source| source.to_string().into();
        match self {
            StoreError::Unavailable { maybe_applied, source } => {
                StoreError::Unavailable { maybe_applied: *maybe_applied, source: text(source) }
            }
            StoreError::Contended { source } => StoreError::Contended { source: text(source) },
            StoreError::Locked { source } => StoreError::Locked { source: text(source) },
            StoreError::Refused { rule, why, at } => {
                StoreError::Refused { rule: rule.clone(), why: why.clone(), at: at.clone() }
            }
            StoreError::CannotWrite { source } => StoreError::CannotWrite { source: text(source) },
            StoreError::Corrupt { what } => StoreError::Corrupt { what: what.clone() },
        }
    }
}

/// The result of an operation of the store.
pub type StoreResult<T> = Result<T, StoreError>;

/// A statement that always returns a row returned none.
pub(crate) fn no_answer(statement: &str) -> StoreError {
    StoreError::Corrupt { what: format!("{statement} returned no row") }
}
