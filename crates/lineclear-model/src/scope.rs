//! Scopes: what a token allows. The wider scopes include the narrower.

use std::collections::BTreeSet;
use std::fmt;

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Read everything.
    Read,
    /// Read, and enqueue, trigger, pause, cancel and revive.
    Operate,
    /// Operate, and change manifests, limits and settings, and manage tokens.
    Admin,
    /// Claim jobs, run them and settle them. It includes none of the others, and none of them includes it.
    Worker,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 4] = [Scope::Read, Scope::Operate, Scope::Admin, Scope::Worker];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Operate => "operate",
            Scope::Admin => "admin",
            Scope::Worker => "worker",
        }
    }

    /// The scope that a word names.
    pub fn from_word(word: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == word)
    }

    /// Whether this scope allows what needs the other.
    pub fn includes(self, needed: Scope) -> bool {
        match (self, needed) {
            (Scope::Worker, _) | (_, Scope::Worker) => self == needed,
            _ => self >= needed,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Some scopes; as text, words with commas between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

/// Words that name no scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadScopes(String);

impl fmt::Display for BadScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "" => f.write_str("a scope must be read, operate, admin or worker"),
            word => write!(f, "a scope must be read, operate, admin or worker, not {word:?}"),
        }
    }
}

impl std::error::Error for BadScopes {}

impl Scopes {
    /// Reads words with commas between them: at least one.
    pub fn parse(text: &str) -> Result<Scopes, BadScopes> {
        let words = text.split(',').map(str::trim);
        words.map(|word| Scope::from_word(word).ok_or_else(|| BadScopes(word.to_owned()))).collect()
    }

    /// Whether these scopes allow what needs this one.
    pub fn include(&self, needed: Scope) -> bool {
        self.0.iter().any(|scope| scope.includes(needed))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Scope> {
        self.0.iter().copied()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Scopes {
        Scopes(scopes.into_iter().collect())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(Scope::as_str).collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wider_scopes_include_narrower_ones_and_workers_stand_aside() {
        use Scope::{Admin, Operate, Read, Worker};
        let may =
            |has: Scope| Scope::ALL.into_iter().filter(|needed| has.includes(*needed)).collect::<Vec<_>>();
        assert_eq!(may(Read), [Read]);
        assert_eq!(may(Operate), [Read, Operate]);
        assert_eq!(may(Admin), [Read, Operate, Admin]);
        assert_eq!(may(Worker), [Worker]);
        let both: Scopes = [Read, Worker].into_iter().collect();
        assert!(both.include(Worker) && both.include(Read) && !both.include(Operate));
        assert!(!Scopes::default().include(Read));
    }

    #[test]
    fn words_are_read_and_written_alike_and_others_are_refused() {
        assert_eq!(Scopes::parse("worker, read").unwrap().to_string(), "read,worker");
        for text in ["", "root", "read,", "Read", "read;admin"] {
            assert!(
                Scopes::parse(text).unwrap_err().to_string().contains("read, operate, admin or worker"),
                "{text}"
            );
        }
    }
}
