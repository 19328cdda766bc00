//! Verified tokens, cached for seconds, so that a busy client does not cost a statement for each request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lineclear::Store;
use lineclear::store::{KnownSession, KnownToken, Presented, SessionSecret, StoreResult, TokenId};

/// How long a token is cached. One that is revoked on another server is refused after this time.
const CACHED_FOR: Duration = Duration::from_secs(3);
/// Tokens in the cache.
const TOKENS_MAX: usize = 1_024;

/// A token, and until when the cache may use it.
struct CachedToken {
    token: Arc<KnownToken>,
    until: Instant,
}

/// Why a presented token is not valid.
pub(super) enum Refused {
    /// No valid token has its prefix.
    Unknown,
    /// The valid token with this name has its prefix, and another secret.
    WrongSecret(String),
}

/// The tokens of a database.
pub(super) struct TokenCache {
    reading: Store,
    writing: Store,
    entries: Mutex<HashMap<String, CachedToken>>,
}

impl TokenCache {
    pub(super) fn new(reading: Store, writing: Store) -> TokenCache {
        TokenCache { reading, writing, entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, CachedToken>> {
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The token that was presented, if it is valid.
    pub(super) async fn verify(
        &self,
        presented: &Presented,
    ) -> StoreResult<Result<Arc<KnownToken>, Refused>> {
        let token = match self.cached(presented.prefix()) {
            Some(token) => Some(token),
            None => self.look_up(presented).await?,
        };
        Ok(match token {
            Some(token) if token.is_proved_by(presented) => Ok(token),
            Some(token) => Err(Refused::WrongSecret(token.name.clone())),
            None => Err(Refused::Unknown),
        })
    }

    /// Whether a token with this prefix was valid a moment ago.
    pub(super) fn is_cached(&self, presented: &Presented) -> bool {
        self.entries().contains_key(presented.prefix())
    }

    fn cached(&self, prefix: &str) -> Option<Arc<KnownToken>> {
        let all = self.entries();
        all.get(prefix).filter(|cached| Instant::now() < cached.until).map(|cached| cached.token.clone())
    }

    /// The valid token with the presented prefix.
    async fn look_up(&self, presented: &Presented) -> StoreResult<Option<Arc<KnownToken>>> {
        let Some(token) = self.reading.token(presented).await?.map(Arc::new) else {
            self.entries().remove(presented.prefix());
            return Ok(None);
        };
        // The prefix alone proves nothing, and is not recorded.
        if !token.is_proved_by(presented) {
            return Ok(Some(token));
        }
        self.insert(presented.prefix(), &token);
        if token.unused {
            self.record_use(token.id);
        }
        Ok(Some(token))
    }

    fn insert(&self, prefix: &str, token: &Arc<KnownToken>) {
        let now = Instant::now();
        let mut all = self.entries();
        if all.len() >= TOKENS_MAX {
            all.retain(|_, cached| now < cached.until);
        }
        if all.len() >= TOKENS_MAX {
            all.clear();
        }
        let until = now + CACHED_FOR.min(token.left.unwrap_or(CACHED_FOR));
        all.insert(prefix.to_owned(), CachedToken { token: token.clone(), until });
    }

    /// The session of a browser. Not cached: browsers send few requests.
    pub(super) async fn session(&self, presented: &SessionSecret) -> StoreResult<Option<KnownSession>> {
        let session = self.reading.session(presented).await?;
        if let Some(session) = session.as_ref().filter(|session| session.token.unused) {
            self.record_use(session.token.id);
        }
        Ok(session)
    }

    /// In a separate task: the request does not wait for it.
    fn record_use(&self, token: TokenId) {
        let store = self.writing.clone();
        tokio::spawn(async move {
            if let Err(error) = store.token_used(token).await {
                tracing::debug!(%error, "the use of a token was not recorded");
            }
        });
    }

    /// Drops a token that was revoked on this server.
    pub(super) fn forget(&self, token: TokenId) {
        self.entries().retain(|_, cached| cached.token.id != token);
    }
}
