//! Errors, split by what the caller does next. Expected outcomes (stale, busy, not found) are values, not errors.

use lineclear_model::Name;
use lineclear_model::doctor::DatabaseState;

/// The SQLSTATE of a missing permission.
const FORBIDDEN: &str = "42501";

/// The error of a driver.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Try again later.
    #[error("{}: {source}", unavailable(.source))]
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
    #[error("{block}: {source}")]
    CannotWrite {
        /// What keeps it from writing.
        block: WriteBlock,
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

/// What keeps a database from writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteBlock {
    /// It is read-only: a standby, a setting, or a file without permission.
    ReadOnly,
    /// Its disk is full.
    Full,
    /// It refuses the user, or there is no such database.
    Denied,
    /// Its storage fails.
    Storage,
}

impl std::fmt::Display for WriteBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WriteBlock::ReadOnly => "the database is read-only",
            WriteBlock::Full => "the disk of the database is full",
            WriteBlock::Denied => "the database refuses access",
            WriteBlock::Storage => "the storage of the database fails",
        })
    }
}

/// The source of an error: the database did not answer in time. It can be reached, or its silence looks so.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Late(pub(crate) String);

/// The source of an error: the server answered with an error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct ServerError {
    pub(crate) text: String,
    pub(crate) sqlstate: String,
}

/// The source of an error: the database is there, and refuses connections as they are configured. It will refuse the next one, too.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Refusal {
    pub(crate) text: String,
    pub(crate) of: RefusedPart,
}

/// What of a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedPart {
    /// TLS: the certificate, the protocol, or TLS as a whole.
    Tls,
    /// A startup parameter, which a pooler does not pass on.
    StartupParameter,
    /// The name of a setting, which the server does not know.
    Setting,
}

/// The source of an error: another transaction holds the global gate. Jobs wait for it, but the database is as it should be, and
/// leases are renewed.
#[derive(Debug, thiserror::Error)]
#[error("the global limit is held by another transaction: {0}")]
pub(crate) struct GateHeld(pub(crate) Source);

fn unavailable(source: &Source) -> &'static str {
    if source.is::<Late>() {
        "the database does not answer in time"
    } else {
        "the database cannot be reached"
    }
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

    /// Whether the database is away: not started yet, restarting, or cut off. It may come back by itself, unlike a wrong password or
    /// a refused certificate.
    pub fn is_away(&self) -> bool {
        match self {
            StoreError::Unavailable { .. } => self.refused_part().is_none(),
            StoreError::Locked { .. } | StoreError::Contended { .. } => true,
            _ => false,
        }
    }

    /// What of the connection the database refuses.
    pub(crate) fn refused_part(&self) -> Option<RefusedPart> {
        match self {
            StoreError::Unavailable { source, .. } => {
                source.downcast_ref::<Refusal>().map(|refusal| refusal.of)
            }
            _ => None,
        }
    }

    /// Whether no connection was made because one side refuses TLS as the other wants it.
    pub fn is_tls_refused(&self) -> bool {
        self.refused_part() == Some(RefusedPart::Tls)
    }

    /// The role lacks a permission: the connection itself works.
    pub(crate) fn is_forbidden(&self) -> bool {
        match self {
            StoreError::CannotWrite { source, .. } => {
                source.downcast_ref::<ServerError>().is_some_and(|error| error.sqlstate == FORBIDDEN)
            }
            _ => false,
        }
    }

    /// Names the global gate as what is locked.
    pub(crate) fn at_the_gate(self) -> StoreError {
        match self {
            StoreError::Locked { source } => StoreError::Locked { source: Box::new(GateHeld(source)) },
            other => other,
        }
    }

    /// Whether leases of live nodes may run out because of what this error tells: the database is away, or cannot be written, or one of
    /// its tables is locked.
    pub(crate) fn may_stop_renewals(&self) -> bool {
        self.database_state().is_some()
    }

    /// What the error says about the database; `None` if it is about a row or the data.
    pub fn database_state(&self) -> Option<DatabaseState> {
        Some(match self {
            StoreError::Locked { source } if source.is::<GateHeld>() => return None,
            StoreError::Unavailable { .. } if self.is_late() => DatabaseState::Silent,
            StoreError::Unavailable { .. } => DatabaseState::Unreachable,
            StoreError::Locked { .. } | StoreError::Contended { .. } => DatabaseState::Locked,
            StoreError::CannotWrite { block, .. } => match block {
                WriteBlock::ReadOnly => DatabaseState::ReadOnly,
                WriteBlock::Full => DatabaseState::Full,
                WriteBlock::Denied => DatabaseState::Denied,
                WriteBlock::Storage => DatabaseState::Storage,
            },
            StoreError::Refused { .. } | StoreError::Corrupt { .. } => return None,
        })
    }

    /// The text of the driver, without our words.
    pub(crate) fn reason(&self) -> String {
        match self {
            StoreError::Unavailable { source, .. }
            | StoreError::Contended { source }
            | StoreError::Locked { source }
            | StoreError::CannotWrite { source, .. } => source.to_string(),
            StoreError::Refused { why, .. } => why.clone(),
            StoreError::Corrupt { what } => what.clone(),
        }
    }

    /// Whether the database can be reached and did not answer in time.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, StoreError::Unavailable { source, .. } if source.is::<Late>())
    }

    /// A copy for each caller that shared a statement; a driver's error cannot be cloned, so its text is copied.
    #[doc(hidden)]
    pub fn again(&self) -> StoreError {
        let text = |source: &Source| {
            if let Some(late) = source.downcast_ref::<Late>() {
                late.clone().into()
            } else if let Some(error) = source.downcast_ref::<ServerError>() {
                error.clone().into()
            } else if let Some(refusal) = source.downcast_ref::<Refusal>() {
                refusal.clone().into()
            } else {
                Source::from(source.to_string())
            }
        };
        match self {
            StoreError::Unavailable { maybe_applied, source } => {
                StoreError::Unavailable { maybe_applied: *maybe_applied, source: text(source) }
            }
            StoreError::Contended { source } => StoreError::Contended { source: text(source) },
            StoreError::Locked { source } => StoreError::Locked { source: text(source) },
            StoreError::Refused { rule, why, at } => {
                StoreError::Refused { rule: rule.clone(), why: why.clone(), at: at.clone() }
            }
            StoreError::CannotWrite { block, source } => {
                StoreError::CannotWrite { block: *block, source: text(source) }
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn away(source: impl Into<Source>) -> StoreError {
        StoreError::Unavailable { maybe_applied: false, source: source.into() }
    }

    #[test]
    fn an_error_names_its_condition_once_also_when_it_is_copied() {
        let late = away(Late("no answer within 10 s".to_owned()));
        let text = "the database does not answer in time: no answer within 10 s";
        assert_eq!((late.to_string().as_str(), late.again().to_string().as_str()), (text, text));
        let refused = away("db.internal:5432: connection refused").again().again();
        assert_eq!(
            refused.to_string(),
            "the database cannot be reached: db.internal:5432: connection refused"
        );
        let block = WriteBlock::ReadOnly;
        let read_only = StoreError::CannotWrite { block, source: "cannot execute INSERT (25006)".into() };
        assert_eq!(read_only.again().to_string(), "the database is read-only: cannot execute INSERT (25006)");
    }

    #[test]
    fn a_database_that_refuses_is_not_away() {
        assert!(away("db:5432: error connecting to server: connection refused").is_away());
        let state = |sqlstate: &str| ServerError { text: "sorry".to_owned(), sqlstate: sqlstate.to_owned() };
        assert!(away(state("57P03")).is_away(), "it starts up");
        for of in [RefusedPart::Tls, RefusedPart::StartupParameter, RefusedPart::Setting] {
            let refused = away(Refusal { text: "no".to_owned(), of });
            assert!(!refused.is_away() && !refused.again().is_away(), "{of:?}");
            assert_eq!(refused.again().is_tls_refused(), of == RefusedPart::Tls);
        }
        let denied = |sqlstate: &str| StoreError::CannotWrite {
            block: WriteBlock::Denied,
            source: state(sqlstate).into(),
        };
        assert!(denied(FORBIDDEN).again().is_forbidden() && !denied("28P01").is_forbidden());
        let block = WriteBlock::Denied;
        assert!(!StoreError::CannotWrite { block, source: "password (28P01)".into() }.is_away());
    }
}
