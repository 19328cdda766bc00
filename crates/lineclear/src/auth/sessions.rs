//! Sessions of browsers that logged in with a token.

use std::time::Duration;

use lineclear_model::Micros;

use crate::auth::secret::{Secret, SessionSecret};
use crate::auth::tokens::KnownToken;
use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::journey::enqueue::insert::millis;
use crate::store::{Store, StoreResult, TokenId};

/// How long a session lasts.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// A session that is valid.
#[derive(Clone, Debug)]
pub struct KnownSession {
    /// The token it was opened with; the session has its scopes.
    pub token: KnownToken,
    /// When it ends.
    pub expires_at: Micros,
}

impl KnownSession {
    /// `None`: the session or its token has expired or was revoked.
    pub(crate) fn of(row: &Row) -> StoreResult<Option<KnownSession>> {
        let expires_at = row.get("expires_at")?;
        Ok(KnownToken::of(row)?.map(|token| KnownSession { token, expires_at }))
    }
}

impl Store {
    /// Opens a session for a token; returns the secret for the browser's cookie and when it ends. `None`: the token has
    /// expired or was revoked.
    pub async fn begin_session(&self, token: TokenId) -> StoreResult<Option<(Secret, Micros)>> {
        let secret = Secret::random()?;
        let params = values![secret.hash(), token.0, millis(LIFETIME)];
        let expires_at =
            self.run(Query::first(Statement::SessionBegin, params, |row| row.get("expires_at"))).await?;
        Ok(expires_at.map(|expires_at| (secret, expires_at)))
    }

    /// The session of a cookie, if it is still valid.
    pub async fn session(&self, presented: &SessionSecret) -> StoreResult<Option<KnownSession>> {
        let find = Query::first(Statement::SessionFind, values![presented.hash()], KnownSession::of);
        Ok(self.db.read(find).await?.flatten())
    }

    /// Ends a session.
    pub async fn end_session(&self, presented: &SessionSecret) -> StoreResult<()> {
        self.run(Query::execute(Statement::SessionEnd, values![presented.hash()])).await
    }
}
