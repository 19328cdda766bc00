//! The seam: what a store of locks must provide. Everything else (renewal, trust, deadlines, loss, background release)
//! is done once, above it.
//!
//! A backend has four verbs that it must have, all asked for with an [`LockRequest`] whose token is fresh for every acquisition:
//!
//! | verb | must |
//! |---|---|
//! | [`take`](Backend::take) | grant the lock atomically, with an end and a higher epoch than ever before; or say that it is busy |
//! | [`extend`](Backend::extend) | move the end on if, and only if, the token is still the holder's |
//! | [`release`](Backend::release) | free the lock if, and only if, the token is still the holder's; it may be called twice, and for a take whose answer never came |
//! | [`read`](Backend::look) | say who holds it, without changing anything |
//!
//! And two for operators, which it may have: [`inspect`](Backend::inspect) looks closer, and [`end`](Backend::end) takes the
//! lock away from its holder.
//!
//! Rules for those who write one:
//!
//! - *Busy* is `Ok(None)`. An error means that nobody knows. Never turn one into the other.
//! - The lock must not end earlier than `ttl` after a `take` or `extend` was *asked for*: trust is counted from there. If the
//!   right can end sooner (a connection that is cut), ring the [`LossSignal`].
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
pub type LockFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// Somebody wants a lock.
#[derive(Clone, Debug)]
pub struct LockRequest {
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
pub struct Grant {
    /// The holder's number.
    pub epoch: Epoch,
    /// Rings when the right may end early.
    pub loss_signal: LossSignal,
}

/// What became of a renewal.
#[derive(Debug)]
pub enum Extended {
    /// It is ours for another `ttl`, unless the loss_signal rings.
    Yes(LossSignal),
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
pub struct LossSignal {
    signal: CancellationToken,
    confirm_within: Duration,
}

impl LossSignal {
    /// One that never rings.
    pub fn never() -> LossSignal {
        LossSignal { signal: CancellationToken::new(), confirm_within: Duration::MAX }
    }

    /// When `signal` is cancelled, the lock is lost unless an `extend` succeeds within this time; zero: it is lost at once.
    pub fn new(signal: CancellationToken, confirm_within: Duration) -> LossSignal {
        LossSignal { signal, confirm_within }
    }

    pub(crate) async fn signalled(&self) {
        self.signal.cancelled().await;
    }

    pub(crate) fn is_signalled(&self) -> bool {
        self.signal.is_cancelled()
    }

    pub(crate) fn confirm_within(&self) -> Duration {
        self.confirm_within
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
        scope: Arc<str>,
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
    fn open(&self) -> LockFuture<'_, ()>;

    /// Takes the lock if it is free; `None` if it is busy.
    fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>>;

    /// Moves its end to `ttl` from now.
    fn extend<'a>(&'a self, ask: &'a LockRequest, epoch: Epoch) -> LockFuture<'a, Extended>;

    /// Frees it. The epoch is none if the answer to `take` never came.
    fn release<'a>(&'a self, ask: &'a LockRequest, epoch: Option<Epoch>) -> LockFuture<'a, Released>;

    /// Who holds it; `None` if nobody ever did.
    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>>;

    /// Looks closer at these locks, in their order; `None` for one that nobody ever held.
    fn inspect<'a>(&'a self, names: &'a [LockName]) -> LockFuture<'a, Vec<Option<Inspection>>> {
        Box::pin(async move {
            let mut seen = Vec::with_capacity(names.len());
            for name in names {
                seen.push(self.read(name).await?.map(Inspection::from));
            }
            Ok(seen)
        })
    }

    /// Ends the hold that was seen, whoever has it, and raises the epoch so that its fence is refused from now on. `false`:
    /// the lock is not held as it was seen any more, and nothing was changed.
    fn break_lock<'a>(&'a self, _name: &'a LockName, _seen: &'a Inspection) -> LockFuture<'a, bool> {
        let why = format!("locks of {} cannot be taken away from their holder", self.promises().backend);
        Box::pin(async move { Err(LockError::refused("break", why)) })
    }

    /// Returns when a busy lock may have become free since this was called, not since it was first waited for. It is a hint; without
    /// one, whoever waits asks now and then.
    fn freed<'a>(&'a self, _name: &'a LockName) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(std::future::pending())
    }
}
