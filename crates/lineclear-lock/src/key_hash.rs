//! Keys for servers whose locks have short names.

use sha2::{Digest, Sha256};

use crate::name::LockName;

/// A hash of database and name. MySQL's lock names have at most 64 characters, ignore case, and are shared by all databases of a server; SQL
/// Server truncates names silently. The hash must never change between versions. The database's name is in lower case, because some servers
/// fold it: at worst, locks of two databases exclude each other.
pub(crate) fn key(database: &str, name: &LockName) -> String {
    let mut hash = Sha256::new();
    for part in ["lineclear-lock/1", &database.to_lowercase()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.update(name.as_str().as_bytes());
    // 192 bits: collisions do not occur, and cannot be found.
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
