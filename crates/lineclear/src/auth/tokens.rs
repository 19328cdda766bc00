//! Tokens: made, found, revoked.

use std::time::Duration;

use lineclear_model::{Micros, Name, Scopes};

use crate::auth::secret;
use crate::auth::secret::{Presented, Secret};
use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::journey::enqueue::insert::millis;
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{Store, StoreError, StoreResult, TokenId};
use crate::validate;

/// A token to be.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Its name; no other living token has it.
    pub name: Name,
    /// What its owner may do.
    pub scopes: Scopes,
    /// How long it counts; `None`: until it is revoked.
    pub lives: Option<Duration>,
    /// Who makes it.
    pub created_by: String,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenView {
    /// Its id.
    pub id: TokenId,
    /// Its name.
    pub name: String,
    /// The part of it that is no secret.
    pub prefix: String,
    /// What its owner may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Micros,
    /// By whom.
    pub created_by: String,
    /// When it ends by itself.
    pub expires_at: Option<Micros>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Micros>,
    /// When it was revoked.
    pub revoked_at: Option<Micros>,
    /// The database's clock.
    pub now: Micros,
}

impl TokenView {
    /// Whether it still counts.
    pub fn is_live(&self) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| end > self.now)
    }

    pub(crate) fn of(row: &Row) -> StoreResult<TokenView> {
        Ok(TokenView {
            id: TokenId(row.get("id")?),
            name: row.get("name")?,
            prefix: row.get("prefix")?,
            scopes: scopes(row)?,
            created_at: row.get("created_at")?,
            created_by: row.get("created_by")?,
            expires_at: row.get("expires_at")?,
            last_used_at: row.get("last_used_at")?,
            revoked_at: row.get("revoked_at")?,
            now: row.get("now")?,
        })
    }
}

fn scopes(row: &Row) -> StoreResult<Scopes> {
    row.word("scopes", |text| Scopes::parse(text).ok())
}

/// Which token.
#[derive(Clone, Debug)]
pub enum WhichToken {
    /// By its id.
    Id(TokenId),
    /// By the name that no other living one has.
    Name(String),
}

/// A living token that somebody may have shown.
#[derive(Clone)]
pub struct KnownToken {
    /// Its id.
    pub id: TokenId,
    /// Its name.
    pub name: String,
    /// What its owner may do.
    pub scopes: Scopes,
    /// How long it still counts, as far as is known.
    pub left: Option<Duration>,
    /// Nobody has noted for a minute that it is used.
    pub unused: bool,
    hash: String,
}

impl std::fmt::Debug for KnownToken {
    /// Without the hash: it is of no use to anybody who reads a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownToken")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl KnownToken {
    /// Whether what was shown is this token. Takes the same time whether it nearly is or not at all.
    pub fn is_proved_by(&self, shown: &Presented) -> bool {
        shown.proves(&self.hash)
    }

    /// `None`: it does not count any more.
    pub(crate) fn of(row: &Row) -> StoreResult<Option<KnownToken>> {
        if row.get("over")? {
            return Ok(None);
        }
        let left =
            row.get::<Option<i64>>("left_ms")?.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
        Ok(Some(KnownToken {
            id: TokenId(row.get("id")?),
            name: row.get("name")?,
            scopes: scopes(row)?,
            left,
            unused: row.get("unused")?,
            hash: row.get("hash")?,
        }))
    }
}

/// Verb: a token is made. `None`: its name is taken.
pub(crate) struct CreateToken {
    pub(crate) token: NewToken,
    pub(crate) prefix: String,
    pub(crate) hash: String,
}

fn text(text: impl ToString) -> Value {
    Value::Text(Some(text.to_string()))
}

impl Verb for CreateToken {
    type Answer = Option<TokenView>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Option<TokenView>> {
        let NewToken { name, scopes, lives, created_by } = &self.token;
        let params = vec![
            text(name),
            text(&self.prefix),
            text(&self.hash),
            text(scopes),
            text(created_by),
            Value::Int(lives.map(millis)),
        ];
        let rows = session.rows(Statement::TokenCreate, params).await?;
        rows.first().map(TokenView::of).transpose()
    }
}

/// Verb: a token and its sessions count no more. `None`: there is no such living token.
pub(crate) struct RevokeToken(pub(crate) WhichToken);

impl Verb for RevokeToken {
    type Answer = Option<TokenView>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<TokenView>> {
        let params = match &self.0 {
            WhichToken::Id(id) => vec![Value::Int(Some(id.0)), Value::Text(None)],
            WhichToken::Name(name) => vec![Value::Int(None), text(name)],
        };
        let rows = session.rows(Statement::TokenRevoke, params).await?;
        rows.first().map(TokenView::of).transpose()
    }
}

/// Verb: a token was used.
pub(crate) struct TokenUsed(pub(crate) TokenId);

impl Verb for TokenUsed {
    type Answer = ();

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        session.rows(Statement::TokenUsed, vec![Value::Int(Some(self.0.0))]).await.map(drop)
    }
}

impl Store {
    /// Makes a token. Its text is in the answer, and nowhere else: it is kept as a hash.
    pub async fn create_token(&self, token: NewToken) -> StoreResult<(TokenView, Secret)> {
        validate::check_text(&token.created_by)?;
        validate::check_lives(token.lives)?;
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
        let rows = self.read_rows(Statement::TokenList, params).await?;
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
        let rows = self.read_rows(Statement::TokenFind, params).await?;
        rows.first().map_or(Ok(None), KnownToken::of)
    }

    /// Notes that a token is used; writes once a minute at most.
    pub async fn token_used(&self, token: TokenId) -> StoreResult<()> {
        self.run(TokenUsed(token)).await
    }
}
