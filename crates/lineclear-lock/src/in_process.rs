//! Locks between the tasks of one process: for tests, and for programs that run as one process.

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
        // No code panics while it is locked.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acquire_now(&self, request: &LockRequest) -> Option<Grant> {
        let mut rows = self.rows();
        let last = rows.get(&request.name);
        if last.is_some_and(Row::is_held) {
            return None;
        }
        let epoch = Epoch::new(last.map_or(0, |row| row.epoch.get()) + 1);
        let row = Row {
            epoch,
            token: request.token,
            holder: request.holder.to_string(),
            kind: request.kind.as_deref().map(str::to_owned),
            ends_at: Moment::now().plus(request.ttl),
        };
        rows.insert(request.name.clone(), row);
        Some(Grant { epoch, loss_signal: LossSignal::never() })
    }

    /// Changes a lock that this token holds. An expired lock that was not acquired since still belongs to its holder.
    fn change(&self, request: &LockRequest, change: impl FnOnce(&mut Row)) -> bool {
        self.rows().get_mut(&request.name).filter(|row| row.token == request.token).map(change).is_some()
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

    fn acquire<'a>(&'a self, request: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(async { Ok(self.acquire_now(request)) })
    }

    fn extend<'a>(&'a self, request: &'a LockRequest, _epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async {
            let ours = self.change(request, |row| row.ends_at = Moment::now().plus(request.ttl));
            Ok(if ours { Extended::Yes(LossSignal::never()) } else { Extended::No })
        })
    }

    fn release<'a>(&'a self, request: &'a LockRequest, _epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(async {
            let ours = self.change(request, |row| {
                // Without its token, a released lock cannot be renewed.
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
