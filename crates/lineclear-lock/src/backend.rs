//! What a store of locks must provide. Everything else (renewal, trust, deadlines, loss, background release) is done once, above it.
//!
//! A backend must have four methods. Each is called with a [`LockRequest`] whose token is fresh for every acquisition:
//!
//! | method | must |
//! |---|---|
//! | [`acquire`](Backend::acquire) | grant the lock atomically, with an end and a higher epoch than ever before; or say that it is busy |
//! | [`extend`](Backend::extend) | move the end if, and only if, the token is still the holder's |
//! | [`release`](Backend::release) | free the lock if, and only if, the token is still the holder's; it may be called twice, and for a request whose answer was lost |
//! | [`read`](Backend::read) | say who holds it, without changing anything |
//!
//! It may have two more, for operators: [`inspect`](Backend::inspect) and [`break_lock`](Backend::break_lock).
//!
//! Rules for a backend:
//!
//! - *Busy* is `Ok(None)`. An error means that the holder is unknown. Never turn one into the other.
//! - The lock must not end earlier than `ttl` after an `acquire` or `extend` was *requested*: trust is counted from there. If the
//!   lease can end sooner (its connection is cut), cancel the [`LossSignal`].
//! - Epochs outlive the lock. A release must not delete them.
//! - All methods are called on the background runtime, which lives as long as the backend: connections and background
//!   futures may be spawned there. A call that blocks goes to `spawn_blocking`.
//! - A future is dropped half-way only when its answer takes too long: treat the connection as dead then. `release` with the
//!   same token must undo an `acquire` that went through.
//! - Do not wait for a busy lock inside `acquire`. The callers wait; [`freed`](Backend::freed) may shorten that.

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

/// The future of a backend's method.
pub type LockFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// A request for a lock.
#[derive(Clone, Debug)]
pub struct LockRequest {
    /// The lock.
    pub name: LockName,
    /// Fresh for every acquisition (UUID v4): it tells this holder from all others, earlier ones of the same process included.
    pub token: Uuid,
    /// How long the lock lasts without renewal.
    pub ttl: Duration,
    /// What kind of work the lock guards, for people.
    pub kind: Option<Arc<str>>,
    /// The process that asks, for people.
    pub holder: Arc<Holder>,
}

/// A lock that was granted.
#[derive(Debug)]
pub struct Grant {
    /// The holder's number.
    pub epoch: Epoch,
    /// Cancelled when the lease may end early.
    pub loss_signal: LossSignal,
}

/// The result of a renewal.
#[derive(Debug)]
pub enum Extended {
    /// The lock is held for another `ttl`, unless a loss is signalled.
    Yes(LossSignal),
    /// The token is not the holder's any more.
    No,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The lock was held, and is free now.
    Clean,
    /// The token was not the holder's any more; nothing was changed.
    NotHeld,
}

/// Signals that a lease may end before its time, because the connection that carries it has ended.
#[derive(Clone, Debug)]
pub struct LossSignal {
    signal: CancellationToken,
    confirm_within: Duration,
}

impl LossSignal {
    /// One that is never signalled.
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

/// Who holds a lock, or held it last, as the store sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The number of the last holder, also when the lock is free.
    pub epoch: Epoch,
    /// The last holder's name: `machine/pid/incarnation`.
    pub holder: String,
    /// What kind of work the lock guards.
    pub kind: Option<String>,
    /// How long until the lock ends without renewal; none if it is free.
    pub ends_in: Option<Duration>,
}

/// What the store knows about a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Who holds it, or held it last.
    pub holding: Holding,
    /// The holder's token, where the store keeps it.
    pub token: Option<String>,
    /// The server's number of the connection that carries the lock.
    pub connection: Option<i64>,
    /// Whether the server sees the holder's connection; `None` if it cannot tell.
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
    /// It never repeats, and transactions in its scope can be fenced by it.
    Strict {
        /// Where the epochs are: a PostgreSQL schema, a SQLite file, or the database of a server.
        scope: Arc<str>,
    },
    /// It grows as long as the store keeps what it has written.
    BestEffort,
}

/// What a backend promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promises {
    /// The backend's word: `postgres-lease`, `sqlite`, …
    pub backend: &'static str,
    /// How far an epoch can be relied upon.
    pub fence: FenceClass,
    /// How soon another process can acquire the lock of a holder that died; `None`: when its `ttl` is over.
    pub crash_detected_within: Option<Duration>,
    /// Whether the lock of a frozen holder ends by itself.
    pub frozen_holder_ends: bool,
}

/// A store of locks.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What it promises.
    fn promises(&self) -> Promises;

    /// Creates tables, and checks that the locks of the store work. Called once, before all others.
    fn open(&self) -> LockFuture<'_, ()>;

    /// Acquires the lock if it is free; `None` if it is busy.
    fn acquire<'a>(&'a self, request: &'a LockRequest) -> LockFuture<'a, Option<Grant>>;

    /// Moves the lock's end to `ttl` from now.
    fn extend<'a>(&'a self, request: &'a LockRequest, epoch: Epoch) -> LockFuture<'a, Extended>;

    /// Frees the lock. The epoch is none if the answer to `acquire` was lost.
    fn release<'a>(&'a self, request: &'a LockRequest, epoch: Option<Epoch>) -> LockFuture<'a, Released>;

    /// Who holds the lock; `None` if it was never held.
    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>>;

    /// Inspects these locks, in their order; `None` for one that was never held.
    fn inspect<'a>(&'a self, names: &'a [LockName]) -> LockFuture<'a, Vec<Option<Inspection>>> {
        Box::pin(async move {
            let mut seen = Vec::with_capacity(names.len());
            for name in names {
                seen.push(self.read(name).await?.map(Inspection::from));
            }
            Ok(seen)
        })
    }

    /// Frees the lock of the holder that was seen, and raises the epoch, so that the holder's fence is refused from now on. `false`:
    /// the lock is not held as it was seen any more, and nothing was changed.
    fn break_lock<'a>(&'a self, _name: &'a LockName, _seen: &'a Inspection) -> LockFuture<'a, bool> {
        let why = format!("locks of {} cannot be broken", self.promises().backend);
        Box::pin(async move { Err(LockError::refused("break", why)) })
    }

    /// Returns when a busy lock may have become free since this was called, not since it was first awaited. It is a hint: waiters also ask
    /// at intervals.
    fn freed<'a>(&'a self, _name: &'a LockName) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(std::future::pending())
    }
}
