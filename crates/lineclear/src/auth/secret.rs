//! Secrets: random, shown once, stored as a hash.

use std::fmt;

use sha2_11::{Digest, Sha256};

use crate::store::{StoreError, StoreResult};

/// Bytes of a secret: 256 random bits cannot be guessed, so a plain hash of them is enough.
const SECRET_BYTES: usize = 32;
/// Bytes of the prefix by which a token is looked up.
const PREFIX_BYTES: usize = 5;
/// The first characters of a token, so that people and secret scanners recognize one.
const SCHEME: &str = "lc";

/// A credential in clear text. `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A new random secret.
    pub(crate) fn random() -> StoreResult<Secret> {
        hex_of_random::<SECRET_BYTES>().map(Secret)
    }

    /// The clear text, to be given to its owner.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn hash(&self) -> String {
        hash(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A token as a client presents it: `lc_<prefix>_<secret>`. Holds only the hash of the secret.
#[derive(Clone)]
pub struct Presented {
    prefix: String,
    hash: String,
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presented").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Presented {
    /// Parses a presented token. `None`: the text is not a Lineclear token.
    pub fn parse(text: &str) -> Option<Presented> {
        let mut parts = text.split('_');
        let (scheme, prefix, secret) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hex =
            |text: &str, bytes: usize| text.len() == 2 * bytes && text.bytes().all(|b| b.is_ascii_hexdigit());
        let is_ours = scheme == SCHEME && is_hex(prefix, PREFIX_BYTES) && is_hex(secret, SECRET_BYTES);
        (is_ours && parts.next().is_none())
            .then(|| Presented { prefix: prefix.to_owned(), hash: hash(secret) })
    }

    /// The prefix by which the token is looked up.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether `hash` is the hash of its secret. Compares in constant time.
    pub(crate) fn proves(&self, hash: &str) -> bool {
        let differing = |(one, other): (u8, u8)| std::hint::black_box(one ^ other);
        let difference = self.hash.bytes().zip(hash.bytes()).map(differing).fold(0, |all, bits| all | bits);
        self.hash.len() == hash.len() && difference == 0
    }
}

/// The secret in a browser's session cookie. Holds only its hash.
#[derive(Clone)]
pub struct SessionSecret(String);

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(…)")
    }
}

impl SessionSecret {
    /// Parses the value of a session cookie. `None`: the text is not one.
    pub fn parse(text: &str) -> Option<SessionSecret> {
        let is_ours = text.len() == 2 * SECRET_BYTES && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_ours.then(|| SessionSecret(hash(text)))
    }

    pub(crate) fn hash(&self) -> &str {
        &self.0
    }
}

/// A new token: its clear text, its prefix, and the hash of its secret.
pub(crate) fn new_token() -> StoreResult<(Secret, String, String)> {
    let (prefix, secret) = (hex_of_random::<PREFIX_BYTES>()?, Secret::random()?);
    let hash = secret.hash();
    Ok((Secret(format!("{SCHEME}_{prefix}_{}", secret.0)), prefix, hash))
}

/// SHA-256 in hexadecimal.
pub(crate) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

pub(crate) fn hex_of_random<const N: usize>() -> StoreResult<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Unavailable {
        maybe_applied: false,
        source: format!("the operating system returned no random numbers: {error}").into(),
    })?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_proves_its_own_hash_and_no_other() {
        let (one, prefix, kept) = new_token().unwrap();
        let (other, ..) = new_token().unwrap();
        let shown = Presented::parse(one.expose()).unwrap();
        assert_eq!((shown.prefix(), shown.proves(&kept)), (prefix.as_str(), true));
        assert!(!Presented::parse(other.expose()).unwrap().proves(&kept));
        assert!(!shown.proves("") && !shown.proves(&kept[1..]));
        assert_eq!(one.expose().len(), 2 + 1 + 10 + 1 + 64, "256 bits of secret");
        assert!(!kept.contains(&one.expose()[14..]), "the secret itself is not kept");
    }

    #[test]
    fn what_is_no_token_is_not_looked_up() {
        let (good, ..) = new_token().unwrap();
        let good = good.expose();
        let bad = [
            "",
            "lc",
            "lc__",
            "Bearer",
            &good[1..],
            &good[..good.len() - 1],
            &format!("{good}0"),
            &format!("{good}_x"),
            &good.replace("lc_", "xx_"),
            &good.replace(&good[20..21], "g"),
            "lc_\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}_x",
        ];
        for text in bad {
            assert!(Presented::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn secrets_are_not_shown_by_debug() {
        let (token, _, kept) = new_token().unwrap();
        let shown = Presented::parse(token.expose()).unwrap();
        let text = format!("{token:?} {shown:?}");
        assert!(!text.contains(&token.expose()[14..]) && !text.contains(&kept), "{text}");
    }

    #[test]
    fn the_hash_is_sha_256() {
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
