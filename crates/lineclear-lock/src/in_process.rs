//! Locks between the parts of one process: for tests, and for programs that are alone.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

use crate::backend::{
    Backend, Extended, FenceClass, Grant, Holding, Inspection, LockFuture, LockRequest, LossSignal, Promises,
    Released,
};
use crate::clock::Moment;
use crate::name::{Epoch, LockName};

/// A map of locks. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct InProcess {
    rows: Arc<Mutex<HashMap<LockName, Row>>>,
    freed: Arc<Notify>,
}

#[derive(Clone, Debug)]
struct Row {
    epoch: Epoch,
    token: Uuid,
    holder: String,
    kind: Option<String>,
    ends_at: Moment,
}

impl Row {
    fn is_held(&self) -> bool {
        !self.ends_at.remaining().is_zero()
    }
}

impl InProcess {
    /// A map without locks.
    pub fn new() -> InProcess {
        InProcess::default()
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<LockName, Row>> {
        // Nothing panics while it is locked.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acquire_now(&self, ask: &LockRequest) -> Option<Grant> {
        let mut rows = self.rows();
        let last = rows.get(&ask.name);
        if last.is_some_and(Row::is_held) {
            return None;
        }
        let epoch = Epoch::new(last.map_or(0, |row| row.epoch.get()) + 1);
        let row = Row {
            epoch,
            token: ask.token,
            holder: ask.holder.to_string(),
            kind: ask.kind.as_deref().map(str::to_owned),
            ends_at: Moment::now().plus(ask.ttl),
        };
        rows.insert(ask.name.clone(), row);
        Some(Grant { epoch, loss_signal: LossSignal::never() })
    }

    /// Changes a lock that is held by this token. One whose time is over but that nobody took is still its holder's.
    fn change(&self, ask: &LockRequest, change: impl FnOnce(&mut Row)) -> bool {
        self.rows().get_mut(&ask.name).filter(|row| row.token == ask.token).map(change).is_some()
    }
}

impl Backend for InProcess {
    fn promises(&self) -> Promises {
        Promises {
            backend: "in-process",
            fence: FenceClass::BestEffort,
            crash_detected_within: None,
            frozen_holder_ends: true,
        }
    }

    fn open(&self) -> LockFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(async { Ok(self.acquire_now(ask)) })
    }

    fn extend<'a>(&'a self, ask: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async {
            let ours = self.change(ask, |row| row.ends_at = Moment::now().plus(ask.ttl));
            Ok(if ours { Extended::Yes(LossSignal::never()) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, ask: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(async {
            let ours = self.change(ask, |row| {
                // The token is forgotten, so that nothing can renew what was released.
                (row.ends_at, row.token) = (Moment::from_micros(0), Uuid::nil());
            });
            self.freed.notify_waiters();
            Ok(if ours { Released::Clean } else { Released::NotHeld })
        })
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        Box::pin(async {
            Ok(self.rows().get(name).map(|row| Holding {
                epoch: row.epoch,
                holder: row.holder.clone(),
                kind: row.kind.clone(),
                ends_in: row.is_held().then(|| row.ends_at.remaining()),
            }))
        })
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        Box::pin(async {
            let mut rows = self.rows();
            let row = rows.get_mut(name).filter(|row| row.is_held() && row.epoch == seen.holding.epoch);
            let ended = row.map(|row| {
                row.epoch = Epoch::new(row.epoch.get() + 1);
                (row.ends_at, row.token) = (Moment::from_micros(0), Uuid::nil());
            });
            self.freed.notify_waiters();
            Ok(ended.is_some())
        })
    }

    fn freed<'a>(&'a self, _name: &'a LockName) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.freed.notified())
    }
}
