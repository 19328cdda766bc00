//! Reads, explains and breaks locks, for operators.

use std::sync::Arc;

use crate::backend::{Holding, Inspection};
use crate::error::LockError;
use crate::locks::{Core, Locks};
use crate::name::LockName;
use crate::registry::{Explanation, HoldEnd, LeaseRecord, LockEvent, LockEventKind, explain};
use crate::timely::timely;

impl Core {
    pub(crate) async fn inspect(
        self: &Arc<Core>,
        names: Vec<LockName>,
    ) -> Result<Vec<Option<Inspection>>, LockError> {
        let core = self.clone();
        let inspect = async move { timely(core.options.request_timeout, core.backend.inspect(&names)).await };
        self.runtime.run(inspect).await
    }
}

impl Locks {
    /// Who holds the lock; `None` if it was never held.
    pub async fn read(&self, name: &str) -> Result<Option<Holding>, LockError> {
        let (name, core) = (LockName::new(name)?, self.core.clone());
        let read = async move { timely(core.options.request_timeout, core.backend.read(&name)).await };
        self.core.runtime.run(read).await
    }

    /// Who holds the lock, with all that its store knows about it; `None` if it was never held.
    pub async fn inspect(&self, name: &str) -> Result<Option<Inspection>, LockError> {
        Ok(self.core.inspect(vec![LockName::new(name)?]).await?.pop().flatten())
    }

    /// Breaks the lock of the holder that was seen: the lock becomes free, and its epoch is raised, so that the holder's fenced
    /// transactions are refused. The holder learns of it at its next renewal or sooner. **Until then it may continue to work.** `false`: the
    /// lock is not held as it was seen any more, and nothing was changed. The registry, if there is one, records who did it and why.
    pub async fn break_lock(
        &self,
        name: &str,
        seen: &Inspection,
        by_whom: &str,
        why: Option<&str>,
    ) -> Result<bool, LockError> {
        let (name, core, holding) = (LockName::new(name)?, self.core.clone(), seen.clone());
        let lock = name.clone();
        let break_lock = async move {
            timely(core.options.request_timeout, core.backend.break_lock(&lock, &holding)).await
        };
        if !self.core.runtime.run(break_lock).await? {
            return Ok(false);
        }
        tracing::warn!(lock.name = %name, holder = seen.holding.holder, by = by_whom, "broke a lock");
        if let Some(registry) = self.core.registry.as_ref() {
            let end = HoldEnd {
                name,
                store: self.store(),
                holder: seen.holding.holder.clone(),
                incarnation: None,
                epoch: seen.holding.epoch,
                what: LockEventKind::Broken,
                by_whom: Some(by_whom.to_owned()),
                why: why.map(str::to_owned),
            };
            if let Err(error) = registry.broken(end).await {
                tracing::warn!(%error, "cannot record that a lock was broken");
            }
        }
        Ok(true)
    }

    /// All that is known about a lock: who holds it, since when, whether the holder is alive, what happens next and when.
    pub async fn explain(&self, name: &str) -> Result<Explanation, LockError> {
        let inspection = self.inspect(name).await?;
        let (lease, history) = self.recorded(name).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the lease registry; the explanation has only what the store of the locks says");
            (None, Vec::new())
        });
        let promises = self.promises();
        let next = explain::next(&promises, inspection.as_ref(), lease.as_ref());
        Ok(Explanation { name: name.to_owned(), promises, inspection, lease, history, next })
    }

    /// What the registry has about a lock of this store.
    async fn recorded(&self, name: &str) -> Result<(Option<LeaseRecord>, Vec<LockEvent>), LockError> {
        let Some(registry) = &self.core.registry else { return Ok((None, Vec::new())) };
        let store = self.store();
        let lease = registry.lease(name).await?.into_iter().find(|lease| *lease.store == *store);
        Ok((lease, registry.history(Some(name), None, 10).await?))
    }
}
