//! The seam: what a store of locks must provide. Everything else (renewal, trust, deadlines, loss, background release)
//! is done once, above it.
//!
//! A backend has four verbs that it must have, all asked for with an [`Ask`] whose token is fresh for every acquisition:
//!
//! | verb | must |
//! |---|---|
//! | [`take`](Backend::take) | grant the lock atomically, with an end and a higher epoch than ever before; or say that it is busy |
//! | [`extend`](Backend::extend) | move the end on if, and only if, the token is still the holder's |
//! | [`release`](Backend::release) | free the lock if, and only if, the token is still the holder's; it may be called twice, and for a take whose answer never came |
//! | [`look`](Backend::look) | say who holds it, without changing anything |
//!
//! And two for operators, which it may have: [`inspect`](Backend::inspect) looks closer, and [`end`](Backend::end) takes the
//! lock away from its holder.
//!
//! Rules for those who write one:
//!
//! - *Busy* is `Ok(None)`. An error means that nobody knows. Never turn one into the other.
//! - The lock must not end earlier than `ttl` after a `take` or `extend` was *asked for*: trust is counted from there. If the
//!   right can end sooner (a connection that is cut), ring the [`Alarm`].
//! - Epochs outlive the lock. Releasing must not delete them.
//! - All verbs are called on the keeper's own runtime, which lives as long as the backend: connections and background
//!   futures may be spawned there. A call that blocks goes to `spawn_blocking`.
//! - A verb is dropped half-way only when its answer takes too long: take the connection for dead then. `release` with the
//!   same token must undo a `take` that went through.
//! - Do not wait for a busy lock inside `take`. Waiting is done above; [`freed`](Backend::freed) may make it shorter.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::LockError;
use crate::holder::Holder;
use crate::name::{Epoch, LockName};

/// What a verb answers.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// Somebody wants a lock.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Which one.
    pub name: LockName,
    /// Fresh for every acquisition (UUID v4): it tells this holder from all others, earlier ones of the same process too.
    pub token: Uuid,
    /// How long the lock shall last without renewal.
    pub ttl: Duration,
    /// What kind of work the lock guards, for people.
    pub kind: Option<Arc<str>>,
    /// Who asks, for people.
    pub holder: Arc<Holder>,
}

/// A lock that was granted.
#[derive(Debug)]
pub struct Taken {
    /// The holder's number.
    pub epoch: Epoch,
    /// Rings when the right may end early.
    pub alarm: Alarm,
}

/// What became of a renewal.
#[derive(Debug)]
pub enum Kept {
    /// It is ours for another `ttl`, unless the alarm rings.
    Yes(Alarm),
    /// It is not ours any more.
    No,
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It was ours, and is free now.
    Clean,
    /// It was not ours any more; nothing was changed.
    NotHeld,
}

/// Rings when a right may end before its time: the connection that carries it has ended, say.
#[derive(Clone, Debug)]
pub struct Alarm {
    rung: CancellationToken,
    answer_within: Duration,
}

impl Alarm {
    /// One that never rings.
    pub fn never() -> Alarm {
        Alarm { rung: CancellationToken::new(), answer_within: Duration::MAX }
    }

    /// When `rung` is cancelled, the lock is lost unless an `extend` succeeds within this time; zero: it is lost at once.
    pub fn new(rung: CancellationToken, answer_within: Duration) -> Alarm {
        Alarm { rung, answer_within }
    }

    pub(crate) async fn rung(&self) {
        self.rung.cancelled().await;
    }

    pub(crate) fn has_rung(&self) -> bool {
        self.rung.is_cancelled()
    }

    pub(crate) fn answer_within(&self) -> Duration {
        self.answer_within
    }
}

/// Who holds a lock, as the store sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The number of the last holder. It stays when the lock is free.
    pub epoch: Epoch,
    /// The last holder's name: `machine/pid/incarnation`.
    pub holder: String,
    /// What kind of work it guards.
    pub kind: Option<String>,
    /// How long until it ends without renewal; none if the lock is free.
    pub ends_in: Option<Duration>,
}

/// A closer look at a lock: what its store knows beyond who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Who holds it, or held it last.
    pub holding: Holding,
    /// What tells this holder from all others, where the store keeps it.
    pub token: Option<String>,
    /// The connection that carries the lock, by the server's number.
    pub connection: Option<i64>,
    /// Whether the server sees the holder's connection; `None` if it has no way to tell.
    pub alive: Option<bool>,
}

impl From<Holding> for Inspection {
    fn from(holding: Holding) -> Inspection {
        Inspection { holding, token: None, connection: None, alive: None }
    }
}

/// How far an epoch can be relied upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceClass {
    /// It never repeats, and transactions of this place can be fenced by it: the PostgreSQL schema, or the SQLite file.
    Strict {
        /// Where the epochs are, for fenced transactions.
        place: Arc<str>,
    },
    /// It only grows while the store keeps what it has written.
    BestEffort,
}

/// What a backend promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promises {
    /// The backend's word: `postgres-lease`, `sqlite`, …
    pub backend: &'static str,
    /// What an epoch is worth.
    pub fence: FenceClass,
    /// How soon another may take the lock of a holder that died; `None`: only when its time is over.
    pub crash_detected_within: Option<Duration>,
    /// Whether the lock of a holder that is frozen, not dead, ends by itself.
    pub frozen_holder_ends: bool,
}

/// A store of locks.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What it promises.
    fn promises(&self) -> Promises;

    /// Makes ready: creates tables, checks that the store does what is expected of it. Called once, before all others.
    fn open(&self) -> Answer<'_, ()>;

    /// Takes the lock if it is free; `None` if it is busy.
    fn take<'a>(&'a self, ask: &'a Ask) -> Answer<'a, Option<Taken>>;

    /// Moves its end to `ttl` from now.
    fn extend<'a>(&'a self, ask: &'a Ask, epoch: Epoch) -> Answer<'a, Kept>;

    /// Frees it. The epoch is none if the answer to `take` never came.
    fn release<'a>(&'a self, ask: &'a Ask, epoch: Option<Epoch>) -> Answer<'a, Released>;

    /// Who holds it; `None` if nobody ever did.
    fn look<'a>(&'a self, name: &'a LockName) -> Answer<'a, Option<Holding>>;

    /// Looks closer at these locks, in their order; `None` for one that nobody ever held.
    fn inspect<'a>(&'a self, names: &'a [LockName]) -> Answer<'a, Vec<Option<Inspection>>> {
        Box::pin(async move {
            let mut seen = Vec::with_capacity(names.len());
            for name in names {
                seen.push(self.look(name).await?.map(Inspection::from));
            }
            Ok(seen)
        })
    }

    /// Ends the hold that was seen, whoever has it, and raises the epoch so that its fence is refused from now on. `false`:
    /// the lock is not held as it was seen any more, and nothing was changed.
    fn end<'a>(&'a self, _name: &'a LockName, _seen: &'a Inspection) -> Answer<'a, bool> {
        let why = format!("locks of {} cannot be taken away from their holder", self.promises().backend);
        Box::pin(async move { Err(LockError::refused("break", why)) })
    }

    /// Returns when a busy lock may have become free since this was called, not since it was first waited for. It is a hint; without
    /// one, whoever waits asks now and then.
    fn freed<'a>(&'a self, _name: &'a LockName) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(std::future::pending())
    }
}
