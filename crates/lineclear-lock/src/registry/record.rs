//! What the registry shows.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::holder::Holder;
use crate::name::Epoch;

/// What is to be thought of a lease: its row against what the store of the lock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Its holder has it, and says so.
    Held,
    /// It was released, and is free.
    Idle,
    /// Its holder has not been heard of lately, and the lock is not free: it died a moment ago, is frozen, or cannot reach the registry.
    Stale,
    /// Nobody has it, but it was never released: its holder went away.
    Orphan,
    /// Another has it than the row says.
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

/// A lock and the node that has it, or had it last. All times are the database's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The lock.
    pub name: String,
    /// Where the lock itself is: `postgres`, `sqlite`, `mysql`, `redis`, `in-process/…`; `engine` for what a scheduler's nodes do.
    pub store: String,
    /// What is to be thought of it.
    pub state: LeaseState,
    /// The node, for people: `machine/pid`, or the name of a scheduler's node.
    pub node: String,
    /// Its machine.
    pub machine: String,
    /// Its process id.
    pub pid: u32,
    /// What tells it from other processes of that machine and process id.
    pub incarnation: String,
    /// What kind of work the lock guards.
    pub kind: Option<String>,
    /// The holder's number.
    pub epoch: Epoch,
    /// From when on no other node has had it.
    pub since: SystemTime,
    /// When it was last taken.
    pub acquired_at: SystemTime,
    /// When its holder was last heard of.
    pub renewed_at: SystemTime,
    /// When it was released; `None` while it is held.
    pub released_at: Option<SystemTime>,
    /// How long ago its holder was last heard of.
    pub renewed_ago: Duration,
    /// How often its holder is to be heard of.
    pub renew_every: Duration,
    /// How often this node has taken it since then.
    pub holds: u64,
    /// How often others found it busy since then.
    pub contended: u64,
    /// When that was written last.
    pub contended_at: Option<SystemTime>,
    /// What the store of the lock says, if it could be asked.
    pub inspection: Option<crate::Inspection>,
}

impl LeaseRecord {
    /// The holder, as the stores of locks call it: `machine/pid/incarnation`.
    pub fn holder(&self) -> String {
        format!("{}/{}/{}", self.machine, self.pid, self.incarnation)
    }

    /// Whether it is, or was, this process's.
    pub fn belongs_to(&self, holder: &Holder) -> bool {
        self.incarnation == holder.incarnation.to_string()
    }

    /// Whether its holder has not been heard of for three times as long as it should have been.
    pub(super) fn is_quiet(&self) -> bool {
        self.renewed_ago > self.renew_every * 3
    }
}

/// What happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEventKind {
    /// Another node has it than before.
    Taken,
    /// Its holder heard that it is, or may be, another's.
    Lost,
    /// Its holder went away without a word.
    Vanished,
    /// Somebody took it away from its holder.
    Broken,
}

impl LockEventKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            LockEventKind::Taken => "taken",
            LockEventKind::Lost => "lost",
            LockEventKind::Vanished => "vanished",
            LockEventKind::Broken => "broken",
        }
    }

    pub(super) fn of(word: &str) -> Option<LockEventKind> {
        [LockEventKind::Taken, LockEventKind::Lost, LockEventKind::Vanished, LockEventKind::Broken]
            .into_iter()
            .find(|what| what.as_str() == word)
    }
}

impl fmt::Display for LockEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One event of a lock's history.
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
    /// To whom: `machine/pid/incarnation`.
    pub holder: String,
    /// The holder's number.
    pub epoch: Epoch,
    /// Who had it before, where another has taken it.
    pub before: Option<String>,
    /// Who took it away.
    pub by_whom: Option<String>,
    /// Why, for people.
    pub why: Option<String>,
}
