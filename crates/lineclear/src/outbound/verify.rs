//! For receivers of signed calls: whether a call comes from a server that shares a secret with us, and is not an old one sent again.

use std::time::Duration;

use reqwest::header::HeaderMap;

use crate::outbound::sign::Secret;

/// How far the time of a call may be from ours, by default.
pub const VERIFY_WINDOW: Duration = Duration::from_secs(5 * 60);
/// Most signatures of a call that are compared.
const SIGNATURES_MAX: usize = 16;
/// Most bytes of a call's id.
const ID_BYTES_MAX: usize = 255;

/// Why a call must not be trusted. Answer it with 401.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSignature {
    /// A header is missing or malformed.
    #[error("header `{0}` is missing or malformed")]
    Header(&'static str),
    /// It is too old, or from the future.
    #[error(
        "`webhook-timestamp` is too far from the time of this machine: the call is a replay, or a clock is wrong"
    )]
    Window,
    /// No secret signed it.
    #[error("`webhook-signature` has no signature of a secret that is known here")]
    Signature,
}

/// A call that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its `webhook-id`: the key under which a receiver remembers what it has done.
    pub id: String,
    /// When it was made, in seconds since 1970.
    pub timestamp: i64,
}

/// Verifies a call by its headers and its body, as it was received. Any of the secrets may have signed it, so that they can be
/// rotated. A call within the `window` can still be sent twice: remember its id.
///
/// ```
/// use lineclear::outbound::{Secret, VERIFY_WINDOW, verify};
///
/// let secrets: Vec<Secret> = vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap()];
/// let headers = Default::default(); // axum: the extractor `HeaderMap`
/// assert!(verify(&secrets, &headers, b"{}", VERIFY_WINDOW).is_err(), "it is not signed");
/// ```
pub fn verify(
    secrets: &[Secret],
    headers: &HeaderMap,
    body: &[u8],
    window: Duration,
) -> Result<Verified, BadSignature> {
    verify_at(jiff::Timestamp::now().as_second(), secrets, headers, body, window)
}

fn verify_at(
    now: i64,
    secrets: &[Secret],
    headers: &HeaderMap,
    body: &[u8],
    window: Duration,
) -> Result<Verified, BadSignature> {
    let text = |name: &'static str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        value.filter(|value| !value.is_empty()).ok_or(BadSignature::Header(name))
    };
    let id = text("webhook-id")?;
    if id.len() > ID_BYTES_MAX {
        return Err(BadSignature::Header("webhook-id"));
    }
    let said = text("webhook-timestamp")?;
    let timestamp: i64 = said.parse().map_err(|_| BadSignature::Header("webhook-timestamp"))?;
    let signatures = text("webhook-signature")?.split(' ').filter_map(|one| one.strip_prefix("v1,"));
    let signatures: Vec<&str> = signatures.take(SIGNATURES_MAX).collect();
    let is_signed = |secret: &Secret| signatures.iter().any(|one| secret.signed(one, id, said, body));
    if !secrets.iter().any(is_signed) {
        return Err(BadSignature::Signature);
    }
    // After the signature: before, anyone could learn our time.
    if timestamp.abs_diff(now) > window.as_secs() {
        return Err(BadSignature::Window);
    }
    Ok(Verified { id: id.to_owned(), timestamp })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::sign::signature;

    const BODY: &[u8] = br#"{"version":1}"#;
    const NOW: i64 = 1_700_000_000;

    fn secret(letter: &str) -> Secret {
        format!("whsec_{}", letter.repeat(40)).parse().expect("a secret")
    }

    fn headers(values: [(&'static str, &str); 3]) -> HeaderMap {
        values
            .into_iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    fn signed(secrets: &[Secret], timestamp: i64) -> HeaderMap {
        let signature = signature(secrets, "job-7-1", timestamp, BODY).expect("a signature");
        headers([
            ("webhook-id", "job-7-1"),
            ("webhook-timestamp", &timestamp.to_string()),
            ("webhook-signature", &signature),
        ])
    }

    fn check(secrets: &[Secret], headers: &HeaderMap) -> Result<Verified, BadSignature> {
        verify_at(NOW, secrets, headers, BODY, VERIFY_WINDOW)
    }

    #[test]
    fn either_side_may_have_two_secrets_while_they_are_rotated() {
        let (old, new) = (secret("a"), secret("b"));
        let verified = Verified { id: "job-7-1".to_owned(), timestamp: NOW };
        for (sender, receiver) in [
            (vec![old.clone()], vec![old.clone()]),
            (vec![old.clone(), new.clone()], vec![old.clone()]),
            (vec![old.clone(), new.clone()], vec![new.clone()]),
            (vec![new.clone()], vec![old.clone(), new.clone()]),
        ] {
            assert_eq!(check(&receiver, &signed(&sender, NOW)), Ok(verified.clone()));
        }
        assert_eq!(
            check(std::slice::from_ref(&new), &signed(std::slice::from_ref(&old), NOW)),
            Err(BadSignature::Signature)
        );
        assert_eq!(check(&[], &signed(&[old], NOW)), Err(BadSignature::Signature));
    }

    #[test]
    fn a_call_outside_of_the_window_is_a_replay() {
        let secrets = [secret("a")];
        for off in [-300, 300] {
            assert!(check(&secrets, &signed(&secrets, NOW + off)).is_ok(), "{off}");
        }
        for off in [-301, 301, -NOW, i64::MAX - NOW, i64::MIN + NOW] {
            assert_eq!(
                check(&secrets, &signed(&secrets, NOW.wrapping_add(off))),
                Err(BadSignature::Window),
                "{off}"
            );
        }
    }

    #[test]
    fn a_changed_call_is_forged() {
        let secrets = [secret("a")];
        let right = signed(&secrets, NOW);
        assert_eq!(verify_at(NOW, &secrets, &right, b"{}", VERIFY_WINDOW), Err(BadSignature::Signature));
        let change = |name: &'static str, value: &str| {
            let mut headers = right.clone();
            headers.insert(name, value.parse().expect("a value"));
            check(&secrets, &headers).expect_err("it is forged")
        };
        assert_eq!(change("webhook-id", "job-8-1"), BadSignature::Signature);
        assert_eq!(change("webhook-timestamp", &(NOW + 1).to_string()), BadSignature::Signature);
        assert_eq!(change("webhook-timestamp", &format!("+{NOW}")), BadSignature::Signature);
        for forged in ["v1,", "v1,AAAA", "v2,AAAA", "x", "v1,=== v1,AAAA"] {
            assert_eq!(change("webhook-signature", forged), BadSignature::Signature, "{forged}");
        }
        let many = "v1,AAAA ".repeat(SIGNATURES_MAX) + right["webhook-signature"].to_str().expect("text");
        assert_eq!(change("webhook-signature", &many), BadSignature::Signature, "the work is bounded");
    }

    #[test]
    fn each_header_is_needed() {
        let secrets = [secret("a")];
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let mut headers = signed(&secrets, NOW);
            headers.remove(name);
            assert_eq!(check(&secrets, &headers), Err(BadSignature::Header(name)));
            headers.insert(name, "".parse().expect("a value"));
            assert_eq!(check(&secrets, &headers), Err(BadSignature::Header(name)));
        }
        let mut headers = signed(&secrets, NOW);
        headers.insert("webhook-timestamp", "soon".parse().expect("a value"));
        assert_eq!(check(&secrets, &headers), Err(BadSignature::Header("webhook-timestamp")));
    }
}
