//! What a database must do for an outbox. To add one: implement [`Store`], name its URL in `open`, and run the tests of `tests/it` on it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::Fence;

use crate::delivery::Delivery;
use crate::error::OutboxError;
use crate::events::Mark;
use crate::gaps::IdRange;
use crate::inspect::{Counts, MessageState, MessageView};
use crate::options::OutboxOptions;
use crate::partitions::unsupported;

pub(crate) type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OutboxError>> + Send + 'a>>;

/// Messages that one statement promotes.
pub(crate) const PROMOTE_MAX: i64 = 1_000;
/// Rows that one statement removes.
pub(crate) const CLEAN_MAX: i64 = 5_000;

/// What became of messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settlement {
    pub(crate) delivered: Vec<i64>,
    pub(crate) failed: Vec<Failed>,
}

impl Settlement {
    pub(crate) fn is_empty(&self) -> bool {
        self.delivered.is_empty() && self.failed.is_empty()
    }

    /// The messages that it is about.
    pub(crate) fn ids(&self) -> impl Iterator<Item = i64> {
        self.delivered.iter().copied().chain(self.failed.iter().map(|failed| failed.id))
    }
}

/// How long an outbox keeps what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) delivered: Duration,
    pub(crate) dedup_keys: Duration,
    pub(crate) dead: Duration,
}

impl Kept {
    pub(crate) fn of(options: &OutboxOptions) -> Kept {
        Kept {
            delivered: options.keep_delivered,
            dedup_keys: options.keep_dedup_keys,
            dead: options.keep_dead,
        }
    }
}

/// A message that was not delivered.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) id: i64,
    /// How many attempts have failed, with this one. None: it was no attempt, and the message waits behind another one of its key or has expired.
    /// It is not a number to add: the same result may be recorded twice, if the answer of the first time is lost.
    pub(crate) attempts: Option<u32>,
    pub(crate) error: Option<String>,
    /// How long until its next attempt; none: it is dead.
    pub(crate) retry_in: Option<Duration>,
}

/// What a runner asks of one transaction: record what became of messages, and read the next ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchRequest {
    pub(crate) outbox: String,
    pub(crate) settlement: Settlement,
    /// Whether delivered messages are kept.
    pub(crate) keeps: bool,
    /// No message below this id is ready, as far as the runner knows.
    pub(crate) low: i64,
    /// Lower ids whose transactions may have committed meanwhile.
    pub(crate) gaps: Vec<IdRange>,
    /// Messages that the runner has already.
    pub(crate) held: Vec<i64>,
    /// How many to read.
    pub(crate) limit: i64,
}

impl BatchRequest {
    /// The answer to it: messages from `low` on, and those in the gaps. The gaps must be read after the others: for each message that was read, the
    /// gaps then show all lower ones that were committed before it was written.
    pub(crate) fn answer(&self, mut messages: Vec<Fetched>, in_gaps: Vec<Fetched>) -> Vec<Fetched> {
        if !in_gaps.is_empty() {
            messages.extend(in_gaps);
            messages.sort_by_key(|message| message.delivery.id);
            messages.dedup_by_key(|message| message.delivery.id);
            messages.truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        }
        messages
    }
}

/// A message that was read.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) delivery: Delivery,
    pub(crate) expired: bool,
    /// A message before it, of the same key, waits for its next attempt for so long.
    pub(crate) behind: Option<Duration>,
}

/// The tables of an outbox.
pub(crate) trait Store: std::fmt::Debug + Send + Sync + 'static {
    /// Creates the tables unless they exist.
    fn prepare(&self) -> StoreFuture<'_, ()>;

    /// Whether the tables exist. It creates nothing, not even a file.
    fn exists(&self) -> StoreFuture<'_, bool>;

    /// Sets how many partitions an outbox has, unless that would break the order of messages. 1: none.
    fn set_partitions<'a>(&'a self, _outbox: &'a str, _partitions: u32) -> StoreFuture<'a, ()> {
        unsupported()
    }

    /// How many partitions an outbox has; 0 if it has none.
    fn partitions<'a>(&'a self, _outbox: &'a str) -> StoreFuture<'a, u32> {
        Box::pin(async { Ok(0) })
    }

    /// The partitions that need a runner. `None`: outboxes of this database have none.
    fn partitions_to_run<'a>(&'a self, _outbox: &'a str) -> StoreFuture<'a, Option<Vec<u32>>> {
        Box::pin(async { Ok(None) })
    }

    /// Names of outboxes with messages, or with messages that were delivered lately.
    fn names(&self, most: i64) -> StoreFuture<'_, Vec<String>>;

    /// Whether a message can be delivered now.
    fn waits<'a>(&'a self, outbox: &'a str, low: i64) -> StoreFuture<'a, bool>;

    /// Answers a request in one transaction that is fenced by the runner's lock. `None`: another runner has the lock, and nothing was changed.
    fn settle_and_fetch<'a>(
        &'a self,
        fence: &'a Fence,
        request: &'a BatchRequest,
    ) -> StoreFuture<'a, Option<Vec<Fetched>>>;

    /// Up to which id all transactions have ended that may have written messages: what they committed is seen by whatever reads next. It is asked
    /// while there are gaps. `drawn`: the highest id that was seen, and the one that was the highest a while ago.
    fn complete<'a>(
        &'a self,
        request: &'a BatchRequest,
        drawn: [i64; 2],
        mark: &'a mut Mark,
    ) -> StoreFuture<'a, i64>;

    /// Removes what is kept no longer: at most [`CLEAN_MAX`] of each. Returns how many.
    fn clean<'a>(&'a self, outbox: &'a str, kept: Kept) -> StoreFuture<'a, u64>;

    /// How many messages there are; counts stop at `most`.
    fn counts<'a>(&'a self, outbox: &'a str, most: i64) -> StoreFuture<'a, Counts>;

    /// Messages of a state, newest first, below this id; without their payloads and headers.
    fn list<'a>(
        &'a self,
        outbox: &'a str,
        state: MessageState,
        before: Option<i64>,
        most: i64,
    ) -> StoreFuture<'a, Vec<MessageView>>;

    /// One message, of any outbox.
    fn show(&self, id: i64) -> StoreFuture<'_, Option<MessageView>>;

    /// Ids of dead messages above this one, in order.
    fn dead_ids<'a>(&'a self, outbox: &'a str, after: i64, most: i64) -> StoreFuture<'a, Vec<i64>>;

    /// Makes dead messages ready again. Their attempts begin again at 1. Returns how many.
    fn replay<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64>;

    /// Deletes dead messages. Returns how many.
    fn discard<'a>(&'a self, outbox: &'a str, ids: &'a [i64]) -> StoreFuture<'a, u64>;
}

/// The store that a URL names.
pub(crate) fn open(url: &str) -> Result<Arc<dyn Store>, OutboxError> {
    let refused = |why: String| Err(OutboxError::refused("url", why));
    match url.split_once("://") {
        #[cfg(feature = "sqlite")]
        None | Some(("sqlite", _)) => Ok(Arc::new(crate::sqlite::SqliteStore::of_url(url)?)),
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => Ok(Arc::new(crate::postgres::PostgresStore::new(url)?)),
        #[cfg(feature = "mysql")]
        Some(("mysql" | "mariadb", _)) => Ok(Arc::new(crate::mysql::MysqlStore::new(url)?)),
        scheme => {
            let scheme = scheme.map_or("", |(scheme, _)| scheme);
            refused(format!(
                "{scheme:?} is not a database for an outbox, or this program was built without it; use postgres://…, mysql://…, sqlite:FILE or a path"
            ))
        }
    }
}

#[cfg(test)]
mod tests;
