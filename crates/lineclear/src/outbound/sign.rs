//! Signatures of calls, according to Standard Webhooks: a receiver verifies that a call is ours.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2_11::Sha256;

/// Fewest and most bytes of a secret.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;
const PREFIX: &str = "whsec_";

/// A secret that we share with receivers: `whsec_` and 24 to 64 random bytes in base64.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// The text is not a valid secret. The error does not repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret is written as whsec_ and 24 to 64 random bytes in base64 (`openssl rand -base64 32`)")]
pub struct BadSecret;

impl std::str::FromStr for Secret {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Secret, BadSecret> {
        let bytes = text.strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
        bytes.filter(|bytes| BYTES.contains(&bytes.len())).map(Secret).ok_or(BadSecret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        Some(mac)
    }

    /// Whether a signature in base64 is that of this secret; takes the same time for all wrong ones.
    pub(super) fn signed(&self, signature: &str, id: &str, timestamp: &str, body: &[u8]) -> bool {
        let signature = STANDARD.decode(signature).unwrap_or_default();
        self.mac(id, timestamp, body).is_some_and(|mac| mac.verify_slice(&signature).is_ok())
    }
}

/// The value of `webhook-signature`: one signature for each secret, so that secrets can be rotated.
pub(crate) fn signature(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let one = |secret: &Secret| {
        let mac = secret.mac(id, &timestamp.to_string(), body)?;
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    };
    let all: Vec<String> = secrets.iter().filter_map(one).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification's own libraries.
    #[test]
    fn signatures_are_those_that_receivers_expect() {
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed =
            signature(std::slice::from_ref(&secret), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
        let two = signature(&[secret.clone(), secret], "a", 1, b"").unwrap();
        assert_eq!(two.split(' ').count(), 2);
        assert_eq!(signature(&[], "a", 1, b""), None);
    }

    #[test]
    fn a_secret_is_long_enough_and_is_never_shown() {
        for bad in ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_???"] {
            assert_eq!(bad.parse::<Secret>(), Err(BadSecret), "{bad}");
        }
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
