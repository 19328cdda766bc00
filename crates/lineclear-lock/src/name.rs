//! Names of locks, and the epochs that number their holders.

use std::fmt;
use std::sync::Arc;

use crate::error::LockError;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// A lock's name: 1 to 255 bytes of UTF-8. Names that differ in a single byte, in case say, are different locks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<LockName, LockError> {
        if name.is_empty() {
            return Err(LockError::refused("lock_name", "must not be empty"));
        }
        if name.len() > NAME_BYTES_MAX {
            let why = format!("must have at most {NAME_BYTES_MAX} bytes, not {}", name.len());
            return Err(LockError::refused("lock_name", why));
        }
        // PostgreSQL cannot store it, and names must work in every store.
        if name.contains('\0') {
            return Err(LockError::refused("lock_name", "must not contain a zero byte"));
        }
        Ok(LockName(Arc::from(name)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A 64-bit key for stores whose locks are numbers: FNV-1a over a prefix, `space` and the name. It must never change between
    /// versions. Two names with the same key, which is unlikely with 64 bits, exclude each other.
    pub fn key(&self, space: &str) -> i64 {
        let parts = [b"lineclear-lock/1/".as_slice(), space.as_bytes(), b"\0", self.0.as_bytes()];
        let bytes = parts.into_iter().flatten();
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        // FNV mixes the last bytes poorly, and names often differ only there.
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ (mixed >> 32)).cast_signed()
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a holder: it grows with every change of holder and never goes back. A system that a lock guards stores the highest epoch
/// it has seen, and refuses lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(i64);

impl Epoch {
    /// The epoch of this number, as a store keeps it.
    pub fn new(number: i64) -> Epoch {
        Epoch(number)
    }

    /// Its number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_1_to_255_bytes_without_zero() {
        assert!(LockName::new("é".repeat(127).as_str()).is_ok());
        for bad in ["", "a\0b", &"é".repeat(128)] {
            let error = LockName::new(bad).unwrap_err();
            assert!(error.to_string().contains("lock_name"), "{error}");
        }
    }

    #[test]
    fn keys_are_the_same_for_ever_and_differ_by_name_and_space() {
        let key = |space, name| LockName::new(name).unwrap().key(space);
        assert_eq!(key("lineclear", "outbox-a"), -5_924_464_057_774_434_965);
        assert_ne!(key("lineclear", "outbox-a"), key("lineclear", "outbox-b"));
        assert_ne!(key("lineclear", "outbox-a"), key("other", "outbox-a"));
    }
}
