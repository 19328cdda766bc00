//! Browsers that logged in with a token.

use std::time::Duration;

use lineclear_model::Micros;

use crate::auth::secret::{Secret, SessionSecret};
use crate::auth::tokens::KnownToken;
use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::journey::enqueue::insert::millis;
use crate::store::{Store, StoreResult, TokenId};

/// How long a browser stays logged in.
const LIVES: Duration = Duration::from_secs(12 * 60 * 60);

/// A browser that is logged in.
#[derive(Clone, Debug)]
pub struct KnownSession {
    /// With this token, and so with its scopes.
    pub token: KnownToken,
    /// Until then.
    pub expires_at: Micros,
}

impl KnownSession {
    /// `None`: it, or its token, counts no more.
    pub(crate) fn of(row: &Row) -> StoreResult<Option<KnownSession>> {
        let expires_at = row.get("expires_at")?;
        Ok(KnownToken::of(row)?.map(|token| KnownSession { token, expires_at }))
    }
}

/// Verb: a browser logs in. `None`: the token counts no more.
pub(crate) struct BeginSession {
    pub(crate) hash: String,
    pub(crate) token: TokenId,
}

impl Verb for BeginSession {
    type Answer = Option<Micros>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Micros>> {
        let params = vec![
            Value::Text(Some(self.hash.clone())),
            Value::Int(Some(self.token.0)),
            Value::Int(Some(millis(LIVES))),
        ];
        let rows = session.rows(Statement::SessionBegin, params).await?;
        rows.first().map(|row| row.get("expires_at")).transpose()
    }
}

/// Verb: a browser logs out.
pub(crate) struct EndSession(pub(crate) String);

impl Verb for EndSession {
    type Answer = ();

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        session.rows(Statement::SessionEnd, vec![Value::Text(Some(self.0.clone()))]).await.map(drop)
    }
}

impl Store {
    /// A browser logs in with a token: what its cookie shall hold, and until when. `None`: the token counts no more.
    pub async fn begin_session(&self, token: TokenId) -> StoreResult<Option<(Secret, Micros)>> {
        let secret = Secret::random()?;
        let ends = self.run(BeginSession { hash: secret.hash(), token }).await?;
        Ok(ends.map(|ends| (secret, ends)))
    }

    /// The browser whose cookie holds this, if it is still logged in.
    pub async fn session(&self, shown: &SessionSecret) -> StoreResult<Option<KnownSession>> {
        let rows =
            self.read_rows(Statement::SessionFind, vec![Value::Text(Some(shown.hash().to_owned()))]).await?;
        rows.first().map_or(Ok(None), KnownSession::of)
    }

    /// A browser logs out.
    pub async fn end_session(&self, shown: &SessionSecret) -> StoreResult<()> {
        self.run(EndSession(shown.hash().to_owned())).await
    }
}
