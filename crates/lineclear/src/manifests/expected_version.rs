//! Optimistic locking: a change is applied only to the version that the caller has read.

use crate::store::{StoreError, StoreResult};

/// The version that a change expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// It exists, in any version.
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
    /// Refuses (`changed_since`) the change if the version is not an expected one, or if there is none.
    pub(crate) fn check(&self, version: Option<i64>) -> StoreResult<()> {
        let holds = version.is_some_and(|version| match self {
            ExpectedVersion::Any => true,
            ExpectedVersion::Versions(expected) => expected.contains(&version),
        });
        if holds {
            return Ok(());
        }
        let why = match version {
            Some(_) => "it has changed since it was read; read it again",
            None => "it does not exist, or was removed; read it again",
        };
        Err(StoreError::refused("changed_since", why))
    }
}
