//! What a person has seen of what they change: so that nobody overwrites what they do not know of.

use crate::store::{StoreError, StoreResult};

/// Something is changed only if it is still what was seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// It is there, whatever it is.
    Any,
    /// It has one of these versions.
    Versions(Vec<i64>),
}

impl From<i64> for ExpectedVersion {
    fn from(version: i64) -> ExpectedVersion {
        ExpectedVersion::Versions(vec![version])
    }
}

impl ExpectedVersion {
    /// Refuses (`changed_since`) a change of what is another than was seen, or not there.
    pub(crate) fn check(&self, version: Option<i64>) -> StoreResult<()> {
        let holds = version.is_some_and(|version| match self {
            ExpectedVersion::Any => true,
            ExpectedVersion::Versions(seen) => seen.contains(&version),
        });
        if holds {
            return Ok(());
        }
        let why = match version {
            Some(_) => "it has changed since it was looked at; look again",
            None => "it is not there, or not any more; look again",
        };
        Err(StoreError::refused("changed_since", why))
    }
}
