//! What the registry shows.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::holder::Holder;
use crate::name::Epoch;

/// The state of a lease: its row, compared with what the store of the lock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// The holder has the lock and renews its row.
    Held,
    /// The lock was released and is free.
    Idle,
    /// The holder has not renewed its row lately, and the lock is not free: it died a moment ago, is frozen, or cannot reach the registry.
    Stale,
    /// The lock is free but was never released: its holder vanished.
    Orphan,
    /// Another holder has the lock than the row says.
    Drift,
}

impl LeaseState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            LeaseState::Held => "held",
            LeaseState::Idle => "idle",
            LeaseState::Stale => "stale",
            LeaseState::Orphan => "orphan",
            LeaseState::Drift => "drift",
        }
    }
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A lock and the node that holds it, or held it last. All times are the database's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The lock.
    pub name: String,
    /// Where the lock itself is: `postgres`, `sqlite`, `mysql`, `redis`, `in-process/…`; `engine` for the leader of a scheduler.
    pub store: String,
    /// Its state.
    pub state: LeaseState,
    /// The node, for people: `machine/pid`, or the name of a scheduler's node.
    pub node: String,
    /// The node's machine.
    pub machine: String,
    /// The node's process id.
    pub pid: u32,
    /// What tells the node from other processes of that machine and process id.
    pub incarnation: String,
    /// What kind of work the lock guards.
    pub kind: Option<String>,
    /// The holder's number.
    pub epoch: Epoch,
    /// Since when no other node has held the lock.
    pub since: SystemTime,
    /// When the lock was last acquired.
    pub acquired_at: SystemTime,
    /// When the holder last renewed the row.
    pub renewed_at: SystemTime,
    /// When the lock was released; `None` while it is held.
    pub released_at: Option<SystemTime>,
    /// How long ago the holder last renewed the row.
    pub renewed_ago: Duration,
    /// How often the holder renews the row.
    pub renew_every: Duration,
    /// How often this node has acquired the lock since `since`.
    pub holds: u64,
    /// How often others found the lock busy since then.
    pub contended: u64,
    /// When that was last written.
    pub contended_at: Option<SystemTime>,
    /// What the store of the lock says, if it could be asked.
    pub inspection: Option<crate::Inspection>,
}

impl LeaseRecord {
    /// The holder, as the stores of locks name it: `machine/pid/incarnation`.
    pub fn holder(&self) -> String {
        format!("{}/{}/{}", self.machine, self.pid, self.incarnation)
    }

    /// Whether this process holds the lock, or held it last.
    pub fn belongs_to(&self, holder: &Holder) -> bool {
        self.incarnation == holder.incarnation.to_string()
    }

    /// Whether the holder has missed three renewals of the row.
    pub(super) fn is_quiet(&self) -> bool {
        self.renewed_ago > self.renew_every * 3
    }
}

/// What happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEventKind {
    /// A new holder acquired it.
    Taken,
    /// Its holder learnt that another holder has it, or may have it.
    Lost,
    /// Its holder vanished without releasing it.
    Vanished,
    /// An operator broke it.
    Broken,
}

impl LockEventKind {
    const ALL: [LockEventKind; 4] =
        [LockEventKind::Taken, LockEventKind::Lost, LockEventKind::Vanished, LockEventKind::Broken];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            LockEventKind::Taken => "taken",
            LockEventKind::Lost => "lost",
            LockEventKind::Vanished => "vanished",
            LockEventKind::Broken => "broken",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<LockEventKind> {
        LockEventKind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for LockEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One event in the history of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockEvent {
    /// Grows with every event.
    pub id: i64,
    /// The lock.
    pub name: String,
    /// Where the lock itself is.
    pub store: String,
    /// What happened.
    pub what: LockEventKind,
    /// When, by the database's clock.
    pub at: SystemTime,
    /// The holder: `machine/pid/incarnation`.
    pub holder: String,
    /// The holder's number.
    pub epoch: Epoch,
    /// The holder before, if this is a new one.
    pub before: Option<String>,
    /// Who broke the lock.
    pub by_whom: Option<String>,
    /// Why, for people.
    pub why: Option<String>,
}
