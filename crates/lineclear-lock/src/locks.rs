//! The locks of one store, and how they are opened.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, Promises};
use crate::background_runtime::BackgroundRuntime;
use crate::error::LockError;
use crate::holder::Holder;
use crate::local_waiters::LocalWaiters;
use crate::options::LockOptions;
use crate::registry::{RecordingBackend, Registry, RegistryOptions, store_of};
use crate::timely::timely;

/// How long opening may take: it may create tables, and it checks that the locks of the store work.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a program that ends waits for its last rows in the registry, which no lock depends on.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The locks of one store. Cheap to clone; clones share the thread and its connections.
#[derive(Clone, Debug)]
pub struct Locks {
    pub(crate) core: Arc<Core>,
    pub(crate) kind: Option<Arc<str>>,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) runtime: Arc<BackgroundRuntime>,
    pub(crate) options: LockOptions,
    pub(crate) local_waiters: LocalWaiters,
    pub(crate) holder: Arc<Holder>,
    pub(crate) registry: Option<Registry>,
}

impl Locks {
    /// Opens the locks of a store given by URL, with the default options. See [`Locks::open_with`].
    pub async fn open(url: &str) -> Result<Locks, LockError> {
        Locks::open_with(url, LockOptions::default()).await
    }

    /// Opens the locks of a store given by URL: `postgres://…`, `mysql://…`, `mssql://…`, `redis://…`, `sqlite:FILE`, a path, or `:memory:`.
    pub async fn open_with(url: &str, options: LockOptions) -> Result<Locks, LockError> {
        Locks::new(crate::open::backend(url, &options)?, options).await
    }

    /// Opens the locks of a store given by URL, and records who holds them. The tables are in the same database unless the options
    /// name another; see [`registry`](crate::registry).
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
        let core = Arc::new(Core {
            backend,
            runtime: BackgroundRuntime::start().map_err(LockError::failed)?,
            options,
            local_waiters: LocalWaiters::default(),
            holder: Arc::new(Holder::this()),
            registry,
        });
        let (opening, within) = (core.clone(), core.options.request_timeout.max(OPEN_TIMEOUT));
        core.runtime.run(async move { timely(within, opening.backend.open()).await }).await?;
        Ok(Locks { core, kind: None })
    }

    /// The same locks, for work of this kind. The kind is shown to people.
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> Locks {
        Locks { core: self.core.clone(), kind: Some(Arc::from(kind)) }
    }

    /// What the store promises.
    pub fn promises(&self) -> Promises {
        self.core.backend.promises()
    }

    /// The options in use.
    pub fn options(&self) -> &LockOptions {
        &self.core.options
    }

    /// This process, as other holders see it.
    pub fn holder(&self) -> &Holder {
        &self.core.holder
    }

    /// The registry that records these locks.
    pub fn registry(&self) -> Option<&Registry> {
        self.core.registry.as_ref()
    }

    /// The registry's word for the store of these locks.
    pub fn store(&self) -> Arc<str> {
        store_of(&*self.core.backend, &self.core.holder)
    }

    /// Waits until dropped locks are released, or their release has failed, and until the registry has recorded that.
    pub async fn flush(&self) {
        self.core.runtime.flush().await;
        if let Some(registry) = &self.core.registry {
            tokio::select! {
                // The registry logs its errors.
                _ = registry.flush() => {}
                () = self.core.runtime.sleep(FLUSH_TIMEOUT) => {
                    tracing::warn!("the lease registry did not record the last changes in time");
                }
            }
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}
