//! API tokens: create, find, revoke.

use std::time::Duration;

use lineclear_model::{Micros, Name, Scope, Scopes};

use crate::auth::secret;
use crate::auth::secret::{Presented, Secret};
use crate::db::statements::Statement;
use crate::db::{Query, Row, Session, Verb, values};
use crate::journey::enqueue::insert::millis;
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{Store, StoreError, StoreResult, TokenId};
use crate::validate;

/// Kinds that a token may be bound to at most.
const KINDS_MAX: usize = 100;

/// A token to create.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Its name, unique among valid tokens.
    pub name: Name,
    /// What its bearer may do.
    pub scopes: Scopes,
    /// The kinds whose jobs its bearer may claim; `None`: all of them. Only a token of the scope `worker` has some.
    pub kinds: Option<Vec<Name>>,
    /// How long it is valid; `None`: until it is revoked.
    pub lives: Option<Duration>,
    /// Who created it.
    pub created_by: String,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenView {
    /// Its id.
    pub id: TokenId,
    /// Its name.
    pub name: String,
    /// The part of it that is not secret.
    pub prefix: String,
    /// What its bearer may do.
    pub scopes: Scopes,
    /// The kinds whose jobs its bearer may claim; `None`: all of them.
    pub kinds: Option<Vec<Name>>,
    /// When it was created.
    pub created_at: Micros,
    /// By whom.
    pub created_by: String,
    /// When it expires.
    pub expires_at: Option<Micros>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Micros>,
    /// When it was revoked.
    pub revoked_at: Option<Micros>,
    /// The database's clock.
    pub now: Micros,
}

impl TokenView {
    /// Whether it is valid: neither expired nor revoked.
    pub fn is_live(&self) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| end > self.now)
    }

    pub(crate) fn of(row: &Row) -> StoreResult<TokenView> {
        Ok(TokenView {
            id: TokenId(row.get("id")?),
            name: row.get("name")?,
            prefix: row.get("prefix")?,
            scopes: scopes(row)?,
            kinds: kinds(row)?,
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

fn kinds(row: &Row) -> StoreResult<Option<Vec<Name>>> {
    match row.get::<Option<String>>("kinds")? {
        Some(_) => row.word("kinds", |text| serde_json::from_str(text).ok()).map(Some),
        None => Ok(None),
    }
}

/// Checks the kinds of a new token, and puts them in order.
fn check_kinds(kinds: Option<Vec<Name>>, scopes: &Scopes) -> StoreResult<Option<Vec<Name>>> {
    let Some(mut kinds) = kinds else { return Ok(None) };
    let refused = |why: String| Err(StoreError::refused("token_kinds", why));
    if !scopes.include(Scope::Worker) {
        return refused("`kinds` needs the scope worker: other scopes apply to all kinds".to_owned());
    }
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() || kinds.len() > KINDS_MAX {
        return refused(format!("`kinds` must name 1 to {KINDS_MAX} kinds; leave it out for all kinds"));
    }
    Ok(Some(kinds))
}

/// Identifies a token.
#[derive(Clone, Debug)]
pub enum WhichToken {
    /// By its id.
    Id(TokenId),
    /// By its name, which is unique among valid tokens.
    Name(String),
}

/// A valid token, to be compared with a presented one.
#[derive(Clone)]
pub struct KnownToken {
    /// Its id.
    pub id: TokenId,
    /// Its name.
    pub name: String,
    /// What its bearer may do.
    pub scopes: Scopes,
    /// The kinds whose jobs its bearer may claim; `None`: all of them.
    pub kinds: Option<Vec<Name>>,
    /// How long it remains valid; `None`: until it is revoked.
    pub left: Option<Duration>,
    /// Its last use was recorded more than a minute ago.
    pub unused: bool,
    hash: String,
}

impl std::fmt::Debug for KnownToken {
    /// Leaves out the hash, which does not belong in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownToken")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl KnownToken {
    /// Whether the presented token is this one. Compares in constant time.
    pub fn is_proved_by(&self, presented: &Presented) -> bool {
        presented.proves(&self.hash)
    }

    /// `None`: it has expired or was revoked.
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
            kinds: kinds(row)?,
            left,
            unused: row.get("unused")?,
            hash: row.get("hash")?,
        }))
    }
}

/// Revokes a token and ends its sessions. `None`: there is no such valid token.
struct RevokeToken(WhichToken);

impl Verb for RevokeToken {
    type Answer = Option<TokenView>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<TokenView>> {
        let params = match &self.0 {
            WhichToken::Id(id) => values![id.0, None::<String>],
            WhichToken::Name(name) => values![None::<i64>, name],
        };
        let rows = session.rows(Statement::TokenRevoke, params).await?;
        rows.first().map(TokenView::of).transpose()
    }
}

impl Store {
    /// Creates a token. The returned secret is the only copy: the database keeps its hash.
    pub async fn create_token(&self, token: NewToken) -> StoreResult<(TokenView, Secret)> {
        validate::check_text(&token.created_by)?;
        validate::check_lives(token.lives)?;
        if token.scopes.is_empty() {
            return Err(StoreError::refused("scopes", "`scopes` must contain at least one scope"));
        }
        let NewToken { name, scopes, kinds, lives, created_by } = token;
        let kinds = check_kinds(kinds, &scopes)?;
        let kinds = kinds.map(|kinds| serde_json::to_string(&kinds).expect("names are JSON"));
        let (secret, prefix, hash) = secret::new_token()?;
        let params = values![&name, prefix, hash, scopes.to_string(), created_by, lives.map(millis), kinds];
        let created = self.run(Query::first(Statement::TokenCreate, params, TokenView::of)).await?;
        let created = created.ok_or_else(|| {
            let why = format!("a token named {name} exists; revoke it first, or choose another name");
            StoreError::refused("token_name", why)
        })?;
        Ok((created, secret))
    }

    /// Revokes a token and ends its sessions. `None`: there is no such valid token.
    pub async fn revoke_token(&self, which: WhichToken) -> StoreResult<Option<TokenView>> {
        self.run(RevokeToken(which)).await
    }

    /// Tokens, newest first, including expired and revoked ones.
    pub async fn tokens(&self, before: Option<TokenId>, most: u32) -> StoreResult<Page<TokenView, TokenId>> {
        let most = most.clamp(1, PAGE_MAX);
        let before = before.map_or(i64::MAX, |before| before.0);
        let items =
            self.db.read(Query::each(Statement::TokenList, values![before, most], TokenView::of)).await?;
        let next = next_of(&items, most, |token| token.id);
        Ok(Page { items, next })
    }

    /// One token, valid or not.
    pub async fn token_of(&self, id: TokenId) -> StoreResult<Option<TokenView>> {
        let newest = self.tokens(Some(TokenId(id.0.saturating_add(1))), 1).await?.items;
        Ok(newest.into_iter().find(|token| token.id == id))
    }

    /// The valid token with the prefix of a presented one; [`KnownToken::is_proved_by`] compares the secrets.
    pub async fn token(&self, presented: &Presented) -> StoreResult<Option<KnownToken>> {
        let find = Query::first(Statement::TokenFind, values![presented.prefix()], KnownToken::of);
        Ok(self.db.read(find).await?.flatten())
    }

    /// Records that a token was used; writes at most once a minute.
    pub async fn token_used(&self, token: TokenId) -> StoreResult<()> {
        self.run(Query::execute(Statement::TokenUsed, values![token.0])).await
    }
}
