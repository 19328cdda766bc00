//! Revalidates the credentials of long-lived streams: a token may be revoked while a stream is open.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use lineclear::store::{Presented, SessionSecret, StoreResult};

use super::guard::{Guard, bearer, session_cookie};
use super::principal::{Credential, Principal};

/// How often credentials are checked. With the time that a token is cached, a revocation takes less than five seconds.
const CHECK_EVERY: Duration = Duration::from_millis(1_500);
/// How long a stream may stay open while its credentials cannot be checked, because the database does not answer.
const UNCHECKED_MAX: Duration = Duration::from_secs(10);

/// The credentials of a stream.
enum Proof {
    Token(Presented),
    Session(SessionSecret),
    /// Nothing that can be revoked: an open server, or a proxy, which closes the connection itself.
    Permanent,
}

/// Extracts the credentials of a request, to check them again.
pub(crate) struct Revalidation {
    guard: Arc<Guard>,
    proof: Proof,
}

impl Revalidation {
    /// Returns when the token is revoked or expires, or the browser logs out.
    pub(crate) async fn until_revoked(&self) {
        let mut checked = Instant::now();
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            match self.is_valid().await {
                Ok(true) => checked = Instant::now(),
                Ok(false) => return,
                Err(error) if checked.elapsed() > UNCHECKED_MAX => {
                    tracing::debug!(%error, "a stream ends: its credentials cannot be checked");
                    return;
                }
                Err(_) => {}
            }
        }
    }

    /// Whether they are still valid.
    pub(crate) async fn is_valid(&self) -> StoreResult<bool> {
        Ok(match &self.proof {
            Proof::Token(token) => self.guard.tokens.verify(token).await?.is_ok(),
            Proof::Session(secret) => self.guard.tokens.session(secret).await?.is_some(),
            Proof::Permanent => true,
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Revalidation
where
    Arc<Guard>: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Revalidation, Infallible> {
        let credential = parts.extensions.get::<Arc<Principal>>().map(|principal| principal.credential);
        let headers = &parts.headers;
        // Credentials that cannot be parsed did not pass the guard.
        let proof = match credential {
            Some(Credential::Token) => bearer(headers).and_then(Presented::parse).map(Proof::Token),
            Some(Credential::Session) => {
                session_cookie(headers).and_then(SessionSecret::parse).map(Proof::Session)
            }
            Some(Credential::None | Credential::InProcess | Credential::Proxy) | None => None,
        };
        Ok(Revalidation { guard: Arc::<Guard>::from_ref(state), proof: proof.unwrap_or(Proof::Permanent) })
    }
}
