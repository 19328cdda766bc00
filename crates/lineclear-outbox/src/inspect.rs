//! What people see of an outbox, and what they can do.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::error::OutboxError;
use crate::outbox::{Outbox, check_name};
use crate::partitions::is_partition;
use crate::store::{self, Store};

/// Counts stop here: an operator needs to know that there are many, not how many.
const COUNT_MAX: i64 = 10_000;
/// Messages on one page.
const PAGE_MAX: u32 = 1_000;
/// Dead messages that one sweep replays or discards.
const SWEEP_MAX: i64 = 1_000;
/// Outboxes of one database that are listed.
const NAMES_MAX: i64 = 1_000;

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// It is delivered next.
    Ready,
    /// It is delivered later: after its delay, after the pause before its next attempt, or after a message of its key.
    Waiting,
    /// It was not delivered, and is not tried again.
    Dead,
    /// It was delivered.
    Delivered,
}

impl MessageState {
    /// All of them.
    pub const ALL: [MessageState; 4] =
        [MessageState::Ready, MessageState::Waiting, MessageState::Dead, MessageState::Delivered];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            MessageState::Ready => "ready",
            MessageState::Waiting => "waiting",
            MessageState::Dead => "dead",
            MessageState::Delivered => "delivered",
        }
    }

    /// The state of this word.
    pub fn from_word(word: &str) -> Option<MessageState> {
        MessageState::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A message, for people.
#[derive(Clone, Debug)]
pub struct MessageView {
    /// Its number.
    pub id: i64,
    /// Its outbox.
    pub outbox: String,
    /// Its state.
    pub state: MessageState,
    /// Its topic.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// Its payload, in JSON. Lists leave it out: [`Outbox::show`] has it.
    pub payload: Option<String>,
    /// Its headers, in JSON; left out as the payload.
    pub headers: Option<String>,
    /// It does not change between attempts.
    pub delivery_id: Uuid,
    /// Failed attempts; of a delivered message, all attempts.
    pub attempts: u32,
    /// Its last error.
    pub last_error: Option<String>,
    /// When it was written.
    pub created_at: SystemTime,
    /// When it is, or was, due; of a dead or delivered message, when that happened.
    pub at: SystemTime,
}

/// How many messages an outbox has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// To be delivered next; at most 10,000 are counted, as of all.
    pub ready: u64,
    /// To be delivered later.
    pub waiting: u64,
    /// Dead.
    pub dead: u64,
    /// How long the first of the ready ones has been due.
    pub lag: Duration,
}

/// Dead messages that were replayed or discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many.
    pub count: u64,
    /// Others may follow after this id.
    pub next: Option<i64>,
}

/// The outboxes of a database, for people: looking creates no tables.
#[derive(Clone, Debug)]
pub struct Outboxes {
    url: Arc<str>,
    store: Arc<dyn Store>,
}

impl Outboxes {
    /// Those of the database that a URL names. It does not connect yet.
    pub fn new(url: &str) -> Result<Outboxes, OutboxError> {
        Ok(Outboxes { url: Arc::from(url), store: store::open(url)? })
    }

    /// Whether the tables exist: [`Outbox::open`] creates them.
    pub async fn tables_exist(&self) -> Result<bool, OutboxError> {
        self.store.exists().await
    }

    /// Names of outboxes that have messages, or delivered some of the last ones. The tables must exist.
    pub async fn names(&self) -> Result<Vec<String>, OutboxError> {
        self.store.names(NAMES_MAX).await
    }

    /// One of them, which need not have messages, or one of its partitions (`orders/2`). The tables must exist.
    pub fn outbox(&self, name: &str) -> Result<Outbox, OutboxError> {
        if !is_partition(name) {
            check_name(name)?;
        }
        Ok(Outbox { url: self.url.clone(), name: Arc::from(name), store: self.store.clone() })
    }
}

impl Outbox {
    /// How many messages there are, and how late the first of them is. Messages of [partitions](Outbox::partitions) are counted there.
    pub async fn counts(&self) -> Result<Counts, OutboxError> {
        self.store.counts(&self.name, COUNT_MAX).await
    }

    /// Messages of a state, newest first: at most `most`, below the id `before`.
    pub async fn list(
        &self,
        state: MessageState,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<MessageView>, OutboxError> {
        self.store.list(&self.name, state, before, i64::from(most.clamp(1, PAGE_MAX))).await
    }

    /// One message of this outbox.
    pub async fn show(&self, id: i64) -> Result<Option<MessageView>, OutboxError> {
        Ok(self.store.show(id).await?.filter(|message| *message.outbox == *self.name))
    }

    /// Makes these dead messages ready again, with a new budget of attempts. Returns how many were dead.
    pub async fn replay(&self, ids: &[i64]) -> Result<u64, OutboxError> {
        self.store.replay(&self.name, ids).await
    }

    /// Makes dead messages above this id ready again: at most 1,000, in the order of their ids. A caller that goes on at
    /// [`Swept::next`] replays each message once, although it may be dead again meanwhile.
    pub async fn replay_after(&self, after: i64) -> Result<Swept, OutboxError> {
        let ids = self.store.dead_ids(&self.name, after, SWEEP_MAX).await?;
        Ok(Swept { count: self.store.replay(&self.name, &ids).await?, next: next(&ids) })
    }

    /// Makes all dead messages ready again. Returns how many there were.
    pub async fn replay_all(&self) -> Result<u64, OutboxError> {
        let (mut all, mut after) = (0, Some(0));
        while let Some(id) = after {
            let swept = self.replay_after(id).await?;
            (all, after) = (all + swept.count, swept.next);
        }
        Ok(all)
    }

    /// Deletes these dead messages. Returns how many were dead.
    pub async fn discard(&self, ids: &[i64]) -> Result<u64, OutboxError> {
        self.store.discard(&self.name, ids).await
    }

    /// Deletes dead messages above this id: at most 1,000.
    pub async fn discard_after(&self, after: i64) -> Result<Swept, OutboxError> {
        let ids = self.store.dead_ids(&self.name, after, SWEEP_MAX).await?;
        Ok(Swept { count: self.store.discard(&self.name, &ids).await?, next: next(&ids) })
    }
}

/// Where a sweep goes on, if it may not have found all.
fn next(ids: &[i64]) -> Option<i64> {
    let is_full = i64::try_from(ids.len()).is_ok_and(|count| count >= SWEEP_MAX);
    ids.last().copied().filter(|_| is_full)
}
