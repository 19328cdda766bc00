//! The decorator: a backend that tells the registry what happens to the locks of another. What it says to the registry is kept in memory
//! and written beside; no verb waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{Hold, Registry};
use crate::backend::{Answer, Ask, Backend, Holding, Inspection, Kept, Promises, Released, Taken};
use crate::holder::Holder;
use crate::name::{Epoch, LockName};

/// A backend whose locks are recorded.
#[derive(Debug)]
pub struct Recording {
    inner: Arc<dyn Backend>,
    registry: Registry,
    store: Arc<str>,
}

impl Recording {
    /// Records the locks of this backend.
    pub fn new(inner: Arc<dyn Backend>, registry: Registry) -> Recording {
        let store = super::store_of(&*inner, &Holder::this());
        Recording { inner, registry, store }
    }
}

impl Backend for Recording {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    fn open(&self) -> Answer<'_, ()> {
        self.registry.prepare_soon();
        self.inner.open()
    }

    fn take<'a>(&'a self, ask: &'a Ask) -> Answer<'a, Option<Taken>> {
        Box::pin(async move {
            let taken = self.inner.take(ask).await?;
            match &taken {
                Some(taken) => self.registry.took(Hold::of(ask, taken.epoch, self.store.clone())),
                None => self.registry.busy(&self.store, &ask.name),
            }
            Ok(taken)
        })
    }

    fn extend<'a>(&'a self, ask: &'a Ask, epoch: Epoch) -> Answer<'a, Kept> {
        Box::pin(async move {
            let kept = self.inner.extend(ask, epoch).await?;
            match &kept {
                Kept::Yes(_) => self.registry.renewed(ask.token),
                Kept::No => self.registry.lost(ask.token, "another holds it"),
            }
            Ok(kept)
        })
    }

    fn release<'a>(&'a self, ask: &'a Ask, epoch: Option<Epoch>) -> Answer<'a, Released> {
        Box::pin(async move {
            let released = self.inner.release(ask, epoch).await?;
            match released {
                Released::Clean => self.registry.released(ask.token),
                Released::NotHeld => self.registry.lost(ask.token, "it was gone before it was released"),
            }
            Ok(released)
        })
    }

    fn look<'a>(&'a self, name: &'a LockName) -> Answer<'a, Option<Holding>> {
        self.inner.look(name)
    }

    fn inspect<'a>(&'a self, names: &'a [LockName]) -> Answer<'a, Vec<Option<Inspection>>> {
        self.inner.inspect(names)
    }

    fn end<'a>(&'a self, name: &'a LockName, seen: &'a Inspection) -> Answer<'a, bool> {
        self.inner.end(name, seen)
    }

    fn freed<'a>(&'a self, name: &'a LockName) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.inner.freed(name)
    }
}
