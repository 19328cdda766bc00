//! A backend that reports the locks of another backend to the registry. Reports are kept in memory and written in the background; no
//! method waits for that.

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
        self.registry.prepare_in_background();
        self.inner.open()
    }

    fn acquire<'a>(&'a self, request: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let grant = self.inner.acquire(request).await?;
            match &grant {
                Some(grant) => self.registry.acquired(Hold::of(request, grant.epoch, self.store.clone())),
                None => self.registry.busy(&self.store, &request.name),
            }
            Ok(grant)
        })
    }

    fn extend<'a>(&'a self, request: &'a LockRequest, epoch: Epoch) -> LockFuture<'a, Extended> {
        Box::pin(async move {
            let extended = self.inner.extend(request, epoch).await?;
            match &extended {
                Extended::Yes(_) => self.registry.renewed(request.token),
                Extended::No => self.registry.lost(request.token, "another holder has it"),
            }
            Ok(extended)
        })
    }

    fn release<'a>(&'a self, request: &'a LockRequest, epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        Box::pin(async move {
            let released = self.inner.release(request, epoch).await?;
            match released {
                Released::Clean => self.registry.released(request.token),
                Released::NotHeld => self.registry.lost(request.token, "lost before it was released"),
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
