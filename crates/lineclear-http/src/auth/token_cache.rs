//! Tokens that were shown, remembered for seconds, so that a busy client costs no statement for each request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lineclear::Store;
use lineclear::store::{KnownSession, KnownToken, Presented, SessionSecret, StoreResult, TokenId};

/// How long a token is believed without a look at the database. One that is revoked elsewhere is refused after that time.
const BELIEVED: Duration = Duration::from_secs(3);
/// Tokens that are remembered.
const REMEMBERED_MAX: usize = 1_024;

/// A token, and until when it is believed.
struct Remembered {
    token: Arc<KnownToken>,
    until: Instant,
}

/// The tokens of a database.
pub(super) struct Tokens {
    reading: Store,
    writing: Store,
    remembered: Mutex<HashMap<String, Remembered>>,
}

impl Tokens {
    pub(super) fn new(reading: Store, writing: Store) -> Tokens {
        Tokens { reading, writing, remembered: Mutex::default() }
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.remembered.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The token that was shown, if it counts.
    pub(super) async fn prove(&self, shown: &Presented) -> StoreResult<Option<Arc<KnownToken>>> {
        let believed = self.believed(shown.prefix());
        let token = match believed {
            Some(token) => Some(token),
            None => self.look_up(shown).await?,
        };
        Ok(token.filter(|token| token.is_proved_by(shown)))
    }

    /// Whether a token with this prefix was good lately.
    pub(super) fn is_remembered(&self, shown: &Presented) -> bool {
        self.remembered().contains_key(shown.prefix())
    }

    fn believed(&self, prefix: &str) -> Option<Arc<KnownToken>> {
        let all = self.remembered();
        all.get(prefix).filter(|known| Instant::now() < known.until).map(|known| known.token.clone())
    }

    async fn look_up(&self, shown: &Presented) -> StoreResult<Option<Arc<KnownToken>>> {
        let Some(token) = self.reading.token(shown).await?.map(Arc::new) else {
            self.remembered().remove(shown.prefix());
            return Ok(None);
        };
        // Who knows no more than the prefix leaves no trace.
        if !token.is_proved_by(shown) {
            return Ok(None);
        }
        self.remember(shown.prefix(), &token);
        if token.unused {
            self.note_use(token.id);
        }
        Ok(Some(token))
    }

    fn remember(&self, prefix: &str, token: &Arc<KnownToken>) {
        let now = Instant::now();
        let mut all = self.remembered();
        if all.len() >= REMEMBERED_MAX {
            all.retain(|_, known| now < known.until);
        }
        if all.len() >= REMEMBERED_MAX {
            all.clear();
        }
        let until = now + BELIEVED.min(token.left.unwrap_or(BELIEVED));
        all.insert(prefix.to_owned(), Remembered { token: token.clone(), until });
    }

    /// The browser that showed this, if it is logged in. Browsers are slow: each look is one at the database.
    pub(super) async fn session(&self, shown: &SessionSecret) -> StoreResult<Option<KnownSession>> {
        let session = self.reading.session(shown).await?;
        if let Some(session) = session.as_ref().filter(|session| session.token.unused) {
            self.note_use(session.token.id);
        }
        Ok(session)
    }

    /// Beside the request, which does not wait for it.
    fn note_use(&self, token: TokenId) {
        let store = self.writing.clone();
        tokio::spawn(async move {
            if let Err(error) = store.token_used(token).await {
                tracing::debug!(%error, "the use of a token could not be noted");
            }
        });
    }

    /// A token was revoked here: it is not believed any more.
    pub(super) fn forget(&self, token: TokenId) {
        self.remembered().retain(|_, known| known.token.id != token);
    }
}
