//! Who may do what: tokens, and browsers that logged in with one.

use lineclear_model::Micros;

use super::db::Value;
use super::secret::{self, Presented, Secret, SessionSecret};
use super::sql::Statement;
use super::verbs::session::{BeginSession, EndSession, KnownSession};
use super::verbs::token::{CreateToken, KnownToken, NewToken, RevokeToken, TokenUsed, TokenView, WhichToken};
use super::views::{PAGE_MAX, Page, next_of};
use super::{Store, StoreError, StoreResult, TokenId, door};

impl Store {
    /// Makes a token. Its text is in the answer, and nowhere else: it is kept as a hash.
    pub async fn create_token(&self, token: NewToken) -> StoreResult<(TokenView, Secret)> {
        door::check_text(&token.created_by)?;
        door::check_lives(token.lives)?;
        if token.scopes.is_empty() {
            return Err(StoreError::refused("scopes", "a token without scopes is of no use"));
        }
        let name = token.name.clone();
        let (text, prefix, hash) = secret::new_token()?;
        let made = self.run(CreateToken { token, prefix, hash }).await?;
        let made = made.ok_or_else(|| {
            let why = format!("there is a token {name}; revoke it first, or take another name");
            StoreError::refused("token_name", why)
        })?;
        Ok((made, text))
    }

    /// Revokes a token, and ends whatever was begun with it. `None`: there is none, or it was revoked before.
    pub async fn revoke_token(&self, which: WhichToken) -> StoreResult<Option<TokenView>> {
        self.run(RevokeToken(which)).await
    }

    /// Tokens, newest first, those that count no more among them.
    pub async fn tokens(&self, before: Option<TokenId>, most: u32) -> StoreResult<Page<TokenView, TokenId>> {
        let most = most.clamp(1, PAGE_MAX);
        let before = before.map_or(i64::MAX, |before| before.0);
        let params = vec![Value::Int(Some(before)), Value::Int(Some(i64::from(most)))];
        let rows = self.look(Statement::TokenList, params).await?;
        let items = rows.iter().map(TokenView::of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |token| token.id);
        Ok(Page { items, next })
    }

    /// One token, be it over.
    pub async fn token_of(&self, id: TokenId) -> StoreResult<Option<TokenView>> {
        let newest = self.tokens(Some(TokenId(id.0.saturating_add(1))), 1).await?.items;
        Ok(newest.into_iter().find(|token| token.id == id))
    }

    /// The living token with the prefix of one that was shown; whether it is that one, [`KnownToken::is_proved_by`] says.
    pub async fn token(&self, shown: &Presented) -> StoreResult<Option<KnownToken>> {
        let params = vec![Value::Text(Some(shown.prefix().to_owned()))];
        let rows = self.look(Statement::TokenFind, params).await?;
        rows.first().map_or(Ok(None), KnownToken::of)
    }

    /// Notes that a token is used; writes once a minute at most.
    pub async fn token_used(&self, token: TokenId) -> StoreResult<()> {
        self.run(TokenUsed(token)).await
    }

    /// A browser logs in with a token: what its cookie shall hold, and until when. `None`: the token counts no more.
    pub async fn begin_session(&self, token: TokenId) -> StoreResult<Option<(Secret, Micros)>> {
        let secret = Secret::random()?;
        let ends = self.run(BeginSession { hash: secret.hash(), token }).await?;
        Ok(ends.map(|ends| (secret, ends)))
    }

    /// The browser whose cookie holds this, if it is still logged in.
    pub async fn session(&self, shown: &SessionSecret) -> StoreResult<Option<KnownSession>> {
        let rows =
            self.look(Statement::SessionFind, vec![Value::Text(Some(shown.hash().to_owned()))]).await?;
        rows.first().map_or(Ok(None), KnownSession::of)
    }

    /// A browser logs out.
    pub async fn end_session(&self, shown: &SessionSecret) -> StoreResult<()> {
        self.run(EndSession(shown.hash().to_owned())).await
    }
}
