//! Sessions of browsers that logged in with a token.

use std::time::Duration;

use lineclear_model::Micros;

use crate::auth::secret::{Secret, SessionSecret};
use crate::auth::tokens::KnownToken;
use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::journey::enqueue::insert::millis;
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{Store, StoreResult, TokenId};
use crate::validate;

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

/// Hexadecimal digits of a session's id: the beginning of its hash, which does not give the session away.
const ID_DIGITS: usize = 16;

/// A session to open.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The token that the browser presents.
    pub token: TokenId,
    /// The address of the browser, if it is known.
    pub address: Option<String>,
    /// The session that the browser has, which ends.
    pub replaces: Option<SessionSecret>,
}

impl NewSession {
    /// A session of a browser without one.
    pub fn of(token: TokenId) -> NewSession {
        NewSession { token, address: None, replaces: None }
    }
}

/// Identifies a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionId(String);

impl SessionId {
    /// Parses an id. `None`: the text is not one.
    pub fn parse(text: &str) -> Option<SessionId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        (text.len() == ID_DIGITS && text.bytes().all(is_digit)).then(|| SessionId(text.to_owned()))
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A session, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// The token it was opened with.
    pub token: TokenId,
    /// The name of that token.
    pub token_name: String,
    /// The address of the browser when it logged in.
    pub address: Option<String>,
    /// When it was opened.
    pub created_at: Micros,
    /// When it ends.
    pub expires_at: Micros,
}

impl SessionView {
    fn of(row: &Row) -> StoreResult<SessionView> {
        Ok(SessionView {
            id: SessionId(row.get("id")?),
            token: TokenId(row.get("token_id")?),
            token_name: row.get("token_name")?,
            address: row.get("address")?,
            created_at: row.get("created_at")?,
            expires_at: row.get("expires_at")?,
        })
    }
}

/// Where the next page of sessions begins.
pub type SessionCursor = (Micros, SessionId);

impl Store {
    /// Opens a session for a token; returns the secret for the browser's cookie and when it ends. `None`: the token has
    /// expired or was revoked, and no session was replaced.
    pub async fn begin_session(&self, session: NewSession) -> StoreResult<Option<(Secret, Micros)>> {
        session.address.as_deref().map_or(Ok(()), validate::check_text)?;
        let secret = Secret::random()?;
        let replaces = session.replaces.as_ref().map(|old| old.hash().to_owned());
        let params = values![secret.hash(), session.token.0, millis(LIFETIME), session.address, replaces];
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

    /// Valid sessions, those that end last first.
    pub async fn sessions(
        &self,
        before: Option<&SessionCursor>,
        most: u32,
    ) -> StoreResult<Page<SessionView, SessionCursor>> {
        let most = most.clamp(1, PAGE_MAX);
        let (end, id) = (before.map(|(end, _)| *end), before.map(|(_, id)| id.0.as_str()));
        let list = Query::each(Statement::SessionList, values![end, id, most], SessionView::of);
        let items = self.db.read(list).await?;
        let next = next_of(&items, most, |session| (session.expires_at, session.id.clone()));
        Ok(Page { items, next })
    }

    /// Ends a session. `None`: there is no such session.
    pub async fn revoke_session(&self, id: &SessionId) -> StoreResult<Option<SessionView>> {
        self.run(Query::first(Statement::SessionRevoke, values![id.0.as_str()], SessionView::of)).await
    }
}
