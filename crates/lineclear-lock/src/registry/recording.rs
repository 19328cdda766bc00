//! The decorator: a backend that tells the registry what happens to the locks of another. What it says to the registry is kept in memory
//! and written beside; no verb waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{Hold, Registry};
use crate::backend::{
    Backend, Extended, Grant, Holding, Inspection, LockFuture, LockRequest, Promises, Released,
};
use crate::holder::Holder;
use crate::name::{Epoch, LockName};

/// A backend whose locks are recorded.
#[derive(Debug)]
pub struct RecordingBackend {
    inner: Arc<dyn Backend>,
    registry: Registry,
    store: Arc<str>,
}

impl RecordingBackend {
    /// Records the locks of this backend.
    pub fn new(inner: Arc<dyn Backend>, registry: Registry) -> RecordingBackend {
        let store = super::store_of(&*inner, &Holder::this());
        RecordingBackend { inner, registry, store }
    }
}

impl Backend for RecordingBackend {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    fn open(&self) -> LockFuture<'_, ()> {
        self.registry.prepare_soon();
        self.inner.open()
    }

    fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let taken = self.inner.acquire(ask).await?;
            match &taken {
                Some(taken) => self.registry.acquired(Hold::of(ask, taken.epoch, self.store.clone())),
                None => self.registry.busy(&self.store, &ask.name),
            }
            Ok(taken)
        })
    }

    fn extend<'a>(&'a self, ask: &'a LockRequest, epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async move {
            let kept = self.inner.extend(ask, epoch).await?;
            match &kept {
                Extended::Yes(_) => self.registry.renewed(ask.token),
                Extended::No => self.registry.lost(ask.token, "another holds it"),
            }
            Ok(kept)
        })
    }

    fn release<'a>(&'a self, ask: &'a LockRequest, epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(async move {
            let released = self.inner.release(ask, epoch).await?;
            match released {
                Released::Clean => self.registry.released(ask.token),
                Released::NotHeld => self.registry.lost(ask.token, "it was gone before it was released"),
            }
            Ok(released)
        })
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        self.inner.read(name)
    }

    fn inspect<'a>(&'a self, names: &'a [LockName]) -> LockFuture<'a, Vec<Option<Inspection>>> {
        self.inner.inspect(names)
    }

    fn break_lock<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> LockFuture<'a, bool> {
        self.inner.break_lock(name, seen)
    }

    fn freed<'a>(&'a self, name: &'a LockName) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.inner.freed(name)
    }
}
