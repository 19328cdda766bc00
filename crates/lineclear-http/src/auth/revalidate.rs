//! Whether somebody who was let in would still be: a stream goes on long after its request was looked at.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use lineclear::store::{Presented, SessionSecret, StoreResult};

use super::guard::{Gate, bearer, cookie_of};
use super::who::{Principal, Shown};

/// How often it is looked at. With the time for which a token is believed, that is less than five seconds.
const LOOK: Duration = Duration::from_millis(1_500);
/// How long a proof counts that cannot be looked at again, because the database is away.
const UNSEEN_MAX: Duration = Duration::from_secs(10);

/// What somebody showed.
enum Proof {
    Token(Presented),
    Session(SessionSecret),
    /// Nothing that could end: an open server, or what a proxy says, who ends the connection if it wants to.
    Endless,
}

/// The right of a request to be answered, for as long as it lasts.
pub(crate) struct Still {
    gate: Arc<Gate>,
    proof: Proof,
}

impl Still {
    /// Returns when it lasts no longer: the token was revoked or ended, or the browser logged out.
    pub(crate) async fn over(&self) {
        let mut seen = Instant::now();
        loop {
            tokio::time::sleep(LOOK).await;
            match self.holds().await {
                Ok(true) => seen = Instant::now(),
                Ok(false) => return,
                Err(error) if seen.elapsed() > UNSEEN_MAX => {
                    tracing::debug!(%error, "a stream ends: nobody knows whether it may go on");
                    return;
                }
                Err(_) => {}
            }
        }
    }

    async fn holds(&self) -> StoreResult<bool> {
        Ok(match &self.proof {
            Proof::Token(shown) => self.gate.tokens.prove(shown).await?.is_some(),
            Proof::Session(shown) => self.gate.tokens.session(shown).await?.is_some(),
            Proof::Endless => true,
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Still
where
    Arc<Gate>: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Still, Infallible> {
        let shown = parts.extensions.get::<Arc<Principal>>().map(|principal| principal.shown);
        let headers = &parts.headers;
        // What cannot be read again was not let in.
        let proof = match shown {
            Some(Shown::Token) => bearer(headers).and_then(Presented::parse).map(Proof::Token),
            Some(Shown::Session) => cookie_of(headers).and_then(SessionSecret::parse).map(Proof::Session),
            Some(Shown::Nothing | Shown::Proxy) | None => None,
        };
        Ok(Still { gate: Arc::<Gate>::from_ref(state), proof: proof.unwrap_or(Proof::Endless) })
    }
}
