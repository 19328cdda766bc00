//! Names of manifests, kinds, groups and routes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// A name: `^[a-z0-9][a-z0-9._-]{0,127}$`. The same in SQL, URLs, file names and metrics, so nothing needs
/// quoting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Nothing was given.
    #[error("a name cannot be empty")]
    Empty,
    /// More than [`NAME_BYTES_MAX`] bytes.
    #[error("a name has at most {NAME_BYTES_MAX} characters, this one has {0}")]
    TooLong(usize),
    /// A character that names do not have, and where.
    #[error(
        "{1:?} cannot stand at position {0} of a name: \
         use a-z, 0-9 and, after the first character, '.', '_' or '-'"
    )]
    Character(usize, char),
}

impl Name {
    /// Checks `text`.
    pub fn new(text: impl Into<String>) -> Result<Name, BadName> {
        let text = text.into();
        if text.is_empty() {
            return Err(BadName::Empty);
        }
        let allowed = |at: usize, c: char| match c {
            'a'..='z' | '0'..='9' => true,
            '.' | '_' | '-' => at > 0,
            _ => false,
        };
        if let Some((at, c)) = text.char_indices().find(|&(at, c)| !allowed(at, c)) {
            return Err(BadName::Character(at + 1, c));
        }
        if text.len() > NAME_BYTES_MAX {
            return Err(BadName::TooLong(text.len()));
        }
        Ok(Name(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;
    fn try_from(text: String) -> Result<Name, BadName> {
        Name::new(text)
    }
}

impl std::str::FromStr for Name {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Name, BadName> {
        Name::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert!(Name::new("etl.nightly_load-2").is_ok());
        assert!(Name::new("a".repeat(128)).is_ok());
        assert_eq!(Name::new(""), Err(BadName::Empty));
        assert_eq!(Name::new("a".repeat(129)), Err(BadName::TooLong(129)));
        assert_eq!(Name::new("Etl"), Err(BadName::Character(1, 'E')));
        assert_eq!(Name::new("-etl"), Err(BadName::Character(1, '-')));
        assert_eq!(Name::new("a\0"), Err(BadName::Character(2, '\0')));
    }
}
