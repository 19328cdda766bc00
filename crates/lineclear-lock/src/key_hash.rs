//! Names for servers whose own locks have short names.

use sha2::{Digest, Sha256};

use crate::name::LockName;

/// MySQL's locks have names of at most 64 characters, compared without regard to case, and are the same in all its
/// databases; SQL Server cuts names off without a word. A hash of database and name serves them all. It is the same in every
/// version for ever. The database's name is folded, because some servers fold it: at worst, locks of two databases stand in each
/// other's way.
pub(crate) fn key(database: &str, name: &LockName) -> String {
    let mut hash = Sha256::new();
    for part in ["lineclear-lock/1", &database.to_lowercase()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.update(name.as_str().as_bytes());
    // 192 bits: nobody meets two names of one key, or finds them.
    hash.finalize()[..24].iter().fold(String::from("lineclear."), |key, byte| format!("{key}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fit_are_the_same_for_ever_and_differ_by_name_and_database() {
        let key = |database, name: &str| key(database, &LockName::new(name).unwrap());
        assert_eq!(key("app", "outbox-a"), "lineclear.7730e0e9d1be69453a5c7a69e33175cbae916f62bc7e4d88");
        assert_eq!(key("app", &"x".repeat(255)).len(), 58);
        assert_ne!(key("app", "outbox-a"), key("app", "OUTBOX-A"));
        assert_ne!(key("app", "outbox-a"), key("other", "outbox-a"));
        assert_eq!(key("app", "outbox-a"), key("App", "outbox-a"));
    }
}
