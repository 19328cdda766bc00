//! The one interface: try, acquire, run exclusively.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use uuid::Uuid;

use crate::backend::{Backend, Holding, Inspection, LockRequest, Promises};
use crate::background_runtime::BackgroundRuntime;
use crate::clock::Moment;
use crate::error::LockError;
use crate::guard::{LockGuard, let_go_in_background};
use crate::holder::Holder;
use crate::local_waiters::LocalWaiters;
use crate::name::LockName;
use crate::options::LockOptions;
use crate::registry::table::HoldEnd;
use crate::registry::{
    Explanation, LeaseRecord, LockEvent, LockEventKind, RecordingBackend, Registry, RegistryOptions, explain,
    store_of,
};
use crate::renewal::{self, no_answer};

/// How long opening may take: it may have to make tables, and to try whether the store does what it should.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

/// The longest pause between two questions to a store that cannot be reached.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a program that ends waits for its last words to be recorded: nothing depends on them.
const RECORDED_WITHIN: Duration = Duration::from_secs(2);

/// The locks of one store. Cheap to clone; clones share the thread and its connections.
#[derive(Clone, Debug)]
pub struct Locks {
    core: Arc<Core>,
    kind: Option<Arc<str>>,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) runtime: Arc<BackgroundRuntime>,
    pub(crate) options: LockOptions,
    pub(crate) local_waiters: LocalWaiters,
    holder: Arc<Holder>,
    registry: Option<Registry>,
}

impl Core {
    /// A closer look, on the keeper's thread.
    pub(crate) async fn inspect(
        self: &Arc<Core>,
        names: Vec<LockName>,
    ) -> Result<Vec<Option<Inspection>>, LockError> {
        let core = self.clone();
        let inspect = async move {
            let within = core.options.request_timeout;
            timeout(within, core.backend.inspect(&names)).await.unwrap_or_else(|_| Err(no_answer(within)))
        };
        self.runtime.run(inspect).await
    }
}

impl Locks {
    /// Opens the locks of a store given by URL, with the usual options. See [`Locks::open_with`].
    pub async fn open(url: &str) -> Result<Locks, LockError> {
        Locks::open_with(url, LockOptions::default()).await
    }

    /// Opens the locks of a store given by URL: `postgres://…`, `sqlite:FILE`, a plain path, or `:memory:`.
    pub async fn open_with(url: &str, options: LockOptions) -> Result<Locks, LockError> {
        Locks::new(crate::open::backend(url, &options)?, options).await
    }

    /// Opens the locks of a store given by URL, and records who holds them. The tables are in the same database unless the options
    /// say otherwise; see [`registry`](crate::registry).
    pub async fn open_with_registry(
        url: &str,
        options: LockOptions,
        registry: RegistryOptions,
    ) -> Result<Locks, LockError> {
        let backend = crate::open::backend(url, &options)?;
        let registry = Registry::new(&registry.url.clone().unwrap_or_else(|| url.to_owned()), registry)?;
        Locks::with_registry(backend, options, registry).await
    }

    /// Opens the locks of a backend, and records who holds them.
    pub async fn with_registry(
        backend: Arc<dyn Backend>,
        options: LockOptions,
        registry: Registry,
    ) -> Result<Locks, LockError> {
        let backend: Arc<dyn Backend> = match registry.options().record_automatically {
            true => Arc::new(RecordingBackend::new(backend, registry.clone())),
            false => backend,
        };
        let locks = Locks::start(backend, options, Some(registry.clone())).await?;
        registry.attach(locks.store(), Arc::downgrade(&locks.core));
        Ok(locks)
    }

    /// Opens the locks of a backend.
    pub async fn new(backend: Arc<dyn Backend>, options: LockOptions) -> Result<Locks, LockError> {
        Locks::start(backend, options, None).await
    }

    async fn start(
        backend: Arc<dyn Backend>,
        options: LockOptions,
        registry: Option<Registry>,
    ) -> Result<Locks, LockError> {
        options.check()?;
        let runtime = BackgroundRuntime::start().map_err(LockError::failed)?;
        let core = Arc::new(Core {
            backend,
            runtime,
            options,
            local_waiters: LocalWaiters::default(),
            holder: Arc::new(Holder::this()),
            registry,
        });
        let (opening, within) = (core.clone(), core.options.request_timeout.max(OPEN_WITHIN));
        let open =
            async move { timeout(within, opening.backend.open()).await.unwrap_or(Err(no_answer(within))) };
        core.runtime.run(open).await?;
        Ok(Locks { core, kind: None })
    }

    /// The same locks, for work of this kind: it is shown to people.
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> Locks {
        Locks { core: self.core.clone(), kind: Some(Arc::from(kind)) }
    }

    /// What the store promises.
    pub fn promises(&self) -> Promises {
        self.core.backend.promises()
    }

    /// The times in use.
    pub fn options(&self) -> &LockOptions {
        &self.core.options
    }

    /// Who we are to others.
    pub fn holder(&self) -> &Holder {
        &self.core.holder
    }

    /// Takes the lock if it is free; `None` if it is busy. A holder that asks again is busy, too.
    pub async fn try_lock(&self, name: &str) -> Result<Option<LockGuard>, LockError> {
        self.acquire(name, Duration::ZERO).await
    }

    /// Waits for the lock for at most this long; `None` if it was busy all the time. A store that cannot be reached is
    /// asked again until then, and is an error if its last answer was one.
    pub async fn acquire(&self, name: &str, within: Duration) -> Result<Option<LockGuard>, LockError> {
        let name = LockName::new(name)?;
        let (mut answer, answered) = oneshot::channel();
        let (core, kind) = (self.core.clone(), self.kind.clone());
        self.core.runtime.spawn(async move {
            let acquired = wait_for(&core, name, kind, within, &mut answer).await;
            // If nobody waits for it any more, the lock comes back and is dropped, which releases it.
            drop(answer.send(acquired));
        });
        answered.await.unwrap_or_else(|error| Err(LockError::failed(error)))
    }

    /// Who holds the lock; `None` if nobody ever did.
    pub async fn read(&self, name: &str) -> Result<Option<Holding>, LockError> {
        let (name, core) = (LockName::new(name)?, self.core.clone());
        let look = async move {
            let within = core.options.request_timeout;
            timeout(within, core.backend.read(&name)).await.unwrap_or_else(|_| Err(no_answer(within)))
        };
        self.core.runtime.run(look).await
    }

    /// Who holds the lock, with all that its store knows of it; `None` if nobody ever did.
    pub async fn inspect(&self, name: &str) -> Result<Option<Inspection>, LockError> {
        Ok(self.core.inspect(vec![LockName::new(name)?]).await?.pop().flatten())
    }

    /// Takes the lock away from the holder that was seen, whoever it is: it becomes free, the epoch is raised so that the holder's fenced
    /// transactions are refused, and the holder hears of it at its next renewal or sooner. **Until then it may go on working.** `false`:
    /// the lock is not held as it was seen any more, and nothing was changed. It is written to the registry, if there is one, with
    /// who did it and why.
    pub async fn break_lock(
        &self,
        name: &str,
        seen: &Inspection,
        by_whom: &str,
        why: Option<&str>,
    ) -> Result<bool, LockError> {
        let (name, core, holding) = (LockName::new(name)?, self.core.clone(), seen.clone());
        let lock = name.clone();
        let end = async move {
            let within = core.options.request_timeout;
            timeout(within, core.backend.break_lock(&lock, &holding))
                .await
                .unwrap_or_else(|_| Err(no_answer(within)))
        };
        let ended = self.core.runtime.run(end).await?;
        if ended {
            tracing::warn!(lock.name = %name, holder = seen.holding.holder, by = by_whom, "a lock was taken away");
        }
        if let Some(registry) = self.core.registry.as_ref().filter(|_| ended) {
            let ending = HoldEnd {
                name,
                store: self.store(),
                holder: seen.holding.holder.clone(),
                incarnation: None,
                epoch: seen.holding.epoch,
                what: LockEventKind::Broken,
                by_whom: Some(by_whom.to_owned()),
                why: why.map(str::to_owned),
            };
            if let Err(error) = registry.broken(ending).await {
                tracing::warn!(%error, "that a lock was taken away could not be written down");
            }
        }
        Ok(ended)
    }

    /// All that is known of a lock: who holds it, since when, is it alive, what happens next and when.
    pub async fn explain(&self, name: &str) -> Result<Explanation, LockError> {
        let inspection = self.inspect(name).await?;
        let (lease, history) = self.recorded_of(name).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the lease registry cannot be read; the store of the locks says the rest");
            (None, Vec::new())
        });
        let promises = self.promises();
        let next = explain::next(&promises, inspection.as_ref(), lease.as_ref());
        Ok(Explanation { name: name.to_owned(), promises, inspection, lease, history, next })
    }

    /// What the registry knows of a lock of this store.
    async fn recorded_of(&self, name: &str) -> Result<(Option<LeaseRecord>, Vec<LockEvent>), LockError> {
        let Some(registry) = &self.core.registry else { return Ok((None, Vec::new())) };
        let store = self.store();
        let lease = registry.lease(name).await?.into_iter().find(|lease| *lease.store == *store);
        Ok((lease, registry.history(Some(name), None, 10).await?))
    }

    /// The registry that they are recorded in.
    pub fn registry(&self) -> Option<&Registry> {
        self.core.registry.as_ref()
    }

    /// The word for the store that has the locks, as the registry calls it.
    pub fn store(&self) -> Arc<str> {
        store_of(&*self.core.backend, &self.core.holder)
    }

    /// Waits until the locks that were dropped are released, or have failed to be, and until that is recorded.
    pub async fn flush(&self) {
        self.core.runtime.flush().await;
        if let Some(registry) = &self.core.registry {
            tokio::select! {
                // It says itself what went wrong.
                _ = registry.flush() => {}
                () = self.core.runtime.sleep(RECORDED_WITHIN) => {
                    tracing::warn!("what happened to locks at last is not recorded yet");
                }
            }
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

/// Asks until the lock is ours, time is over, or nobody wants to know.
async fn wait_for(
    core: &Arc<Core>,
    name: LockName,
    kind: Option<Arc<str>>,
    within: Duration,
    answer: &mut oneshot::Sender<Result<Option<LockGuard>, LockError>>,
) -> Result<Option<LockGuard>, LockError> {
    let deadline = Moment::now().plus(within);
    // Who does not wait does not stand in line. Whose time is over in the line still asks once.
    let _turn = tokio::select! {
        biased;
        () = answer.closed() => return Ok(None),
        turn = core.local_waiters.wait(&name), if !within.is_zero() => turn,
        () = tokio::time::sleep(within) => None,
    };
    let since = Moment::now();
    // Nobody listens for a lock that is granted at once.
    let mut freed = None;
    let mut failures = 0;
    loop {
        let asked = ask(core, &name, kind.clone()).await;
        let retriable = match &asked {
            Ok(held) => held.is_none(),
            Err(error) => error.is_unavailable(),
        };
        if !retriable || deadline.remaining().is_zero() {
            return asked;
        }
        failures = if asked.is_err() { failures + 1 } else { 0 };
        let pause = patience(pause(&core.options, since), failures).min(deadline.remaining());
        tokio::select! {
            () = answer.closed() => return Ok(None),
            () = tokio::time::sleep(pause) => {}
            () = freed.take().unwrap_or_else(|| core.backend.freed(&name)) => {}
        }
        // From before the next question: what is released while its answer is on its way is heard, too.
        freed = Some(core.backend.freed(&name));
    }
}

/// Asks once.
async fn ask(
    core: &Arc<Core>,
    name: &LockName,
    kind: Option<Arc<str>>,
) -> Result<Option<LockGuard>, LockError> {
    let (ttl, holder) = (core.options.ttl, core.holder.clone());
    let ask = LockRequest { name: name.clone(), token: Uuid::new_v4(), ttl, kind, holder };
    let within = core.options.request_timeout;
    let asked_at = Moment::now();
    let error =
        match timeout(within, core.backend.acquire(&ask)).await.unwrap_or_else(|_| Err(no_answer(within))) {
            Ok(Some(_)) if renewal::trust(&core.options, asked_at).remaining().is_zero() => {
                LockError::unavailable("the answer came too late to be trusted")
            }
            Ok(Some(taken)) => {
                tracing::debug!(lock.name = %name, lock.epoch = %taken.epoch, "took a lock");
                return Ok(Some(LockGuard::new(core.clone(), ask, taken, asked_at)));
            }
            Ok(None) => {
                tracing::trace!(lock.name = %name, "a lock is busy");
                return Ok(None);
            }
            Err(error) => error,
        };
    // It may have been granted without our hearing of it.
    if error.is_unavailable() {
        let_go_in_background(core, ask, None);
    }
    Err(error)
}

/// A store that cannot be reached is asked less and less often, and at least about once in a second: all who wait ask it, and take back what
/// they may have been granted, and it has to come up again under that.
pub(crate) fn patience(pause: Duration, failures: u32) -> Duration {
    let longer = pause.saturating_mul(1 << failures.min(10));
    longer.min(PATIENCE.max(pause))
}

/// A different pause for everybody, so that they do not all ask at once; and the longer one has waited, the more often it
/// asks, so that nobody starves.
fn pause(options: &LockOptions, since: Moment) -> Duration {
    let waited = Moment::now().minus(Duration::from_micros(since.micros())).micros();
    let retry = u64::try_from(options.retry_interval.as_micros()).unwrap_or(u64::MAX);
    // Down to a quarter after twenty pauses.
    let patience = retry - (retry / 4 * 3).min(waited / 27);
    let dice = Uuid::new_v4().as_u64_pair().0 % patience.max(1);
    Duration::from_micros(patience / 2 + dice)
}
