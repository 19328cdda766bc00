//! The lease registry: which node holds which lock, since when, and whether it is alive. Tables for people and dashboards; no lock
//! depends on them.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("locks.db").display());
//! use lineclear_lock::{LockOptions, Locks, RegistryOptions};
//!
//! let locks = Locks::open_with_registry(&url, LockOptions::default(), RegistryOptions::default()).await?;
//! let held = locks.of_kind("report").try_lock("nightly-report").await?;
//! # let held = held.unwrap();
//! let registry = locks.registry().expect("it was opened with one");
//! registry.flush().await?;
//! for lease in registry.leases(100).await? {
//!     println!("{} is {} by {}", lease.name, lease.state, lease.node);
//! }
//! # held.release().await?;
//! locks.flush().await;
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))] fn main() {}
//! ```
//!
//! - A lock that is acquired gets a row, which is renewed while the lock is held, stamped when it is released, and kept. A process
//!   that finds the lock busy writes nothing; how often that happens is counted in memory and written with the next heartbeat.
//! - A thread of the registry's own writes all of it, beside the locks: if the database is slow or fails, that is logged and counted
//!   (`lineclear_lock_registry_failures_total`), and the locks go on.
//! - Runners ([`Singleton`](crate::Singleton)) have rows, too: on each node, what they do, since when, and their last error.
//! - Times are the database's.
//!
//! | file | content |
//! |---|---|
//! | `recording.rs` | a backend that reports the locks of another backend to the registry |
//! | `pending_writes.rs`, `writer.rs` | what is not written yet, and the loop that writes it |
//! | `runners.rs` | runners of all nodes: work that runs on one of them |
//! | `reconcile.rs`, `sweep.rs` | the state of a row, compared with the store of its lock; removal of rows whose holders vanished |
//! | `sql.rs` | **one driver for all databases**: begin here to add one |

pub(crate) mod explain;
mod options;
mod pending_writes;
mod reconcile;
mod runners;
mod record;
mod recording;
mod sql;
mod sweep;
mod updates;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use uuid::Uuid;

pub use explain::{Explanation, Next};
pub use options::{Classifier, RegistryOptions, kind_by_prefix};
pub use pending_writes::Hold;
use pending_writes::PendingWrites;
pub use record::{LeaseRecord, LeaseState, LockEvent, LockEventKind};
pub use recording::RecordingBackend;
pub(crate) use runners::Runner;
pub use runners::RunnerRecord;
use runners::Runners;
use sql::{TableSet, Tables};
pub(crate) use updates::HoldEnd;
use updates::LeaseFilter;

use crate::background_runtime::BackgroundRuntime;
use crate::error::LockError;
use crate::locks::Core;
use crate::name::{Epoch, LockName};
use crate::timely::timely;

/// How long the database may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The lease registry of one database. Cheap to clone; clones share the thread and its connection.
#[derive(Clone, Debug)]
pub struct Registry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tables: Tables,
    options: RegistryOptions,
    runtime: Arc<BackgroundRuntime>,
    pending: Mutex<PendingWrites>,
    runners: Mutex<Runners>,
    wake: Arc<Notify>,
    /// Held while rows are written: one writer at a time.
    writing: tokio::sync::Mutex<()>,
    /// Whether the tables are known to exist.
    prepared: AtomicBool,
    /// Whether the last write failed: the first failure is logged, and the next success.
    failing: AtomicBool,
    /// The stores of locks that rows are compared with.
    lock_stores: Mutex<Vec<(Arc<str>, Weak<Core>)>>,
}

impl Registry {
    /// A registry in the database that a URL names: `postgres://…`, `mysql://…`, `mssql://…`, `sqlite:FILE`. It connects, and creates
    /// its tables, with the first row.
    pub fn new(url: &str, options: RegistryOptions) -> Result<Registry, LockError> {
        let tables = sql::open(url)?;
        options.check()?;
        let inner = Arc::new(Inner {
            tables,
            options,
            runtime: BackgroundRuntime::start().map_err(LockError::failed)?,
            pending: Mutex::default(),
            runners: Mutex::default(),
            wake: Arc::default(),
            writing: tokio::sync::Mutex::default(),
            prepared: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            lock_stores: Mutex::default(),
        });
        let heartbeat = inner.options.heartbeat;
        inner.runtime.spawn(writer::write(Arc::downgrade(&inner), inner.wake.clone(), heartbeat));
        inner.runtime.spawn(sweep::sweep(Arc::downgrade(&inner), inner.options.sweep_after));
        Ok(Registry(inner))
    }

    /// The options in use.
    pub fn options(&self) -> &RegistryOptions {
        &self.0.options
    }

    /// Reports that a lock was acquired: it gets a row, which is renewed until the end of the hold is reported. For programs that report
    /// by hand; [`RecordingBackend`] calls it by itself. It returns at once and cannot fail.
    pub fn acquired(&self, mut hold: Hold) {
        if hold.kind.is_none() {
            hold.kind = self.0.options.kind_of(hold.name.as_str());
        }
        self.0.pending().acquired(hold);
        self.0.wake.notify_one();
    }

    /// Reports that a lock is held for another time to live.
    pub fn renewed(&self, token: Uuid) {
        self.0.pending().renewed(token);
    }

    /// Reports that a lock was released.
    pub fn released(&self, token: Uuid) {
        if self.0.pending().released(token) {
            self.0.wake.notify_one();
        }
    }

    /// Reports that a lock was lost: it belongs to another holder, or may do so.
    pub fn lost(&self, token: Uuid, why: &str) {
        if self.0.pending().lost(token, why) {
            self.0.wake.notify_one();
        }
    }

    /// Reports that a lock was found busy. It is counted, and written with the next heartbeat to the row of the holder.
    pub fn busy(&self, store: &Arc<str>, name: &LockName) {
        self.0.pending().busy(store, name);
    }

    /// Writes what is pending, as with a heartbeat, and waits for it. A program calls it before it ends, or
    /// [`Locks::flush`](crate::Locks::flush).
    pub async fn flush(&self) -> Result<(), LockError> {
        let inner = self.0.clone();
        self.0.runtime.run(async move { inner.flush(true).await }).await
    }

    /// Removes the rows of holders that vanished, and what is too old, now. The registry does so by itself about once a minute; this is
    /// for programs that end before that.
    pub async fn sweep(&self) -> Result<(), LockError> {
        let inner = self.0.clone();
        self.0.runtime.run(async move { inner.sweep_once().await }).await
    }

    /// The leases, by name, with their states: at most `limit`. [`Registry::leases_after`] has the next ones.
    pub async fn leases(&self, limit: u32) -> Result<Vec<LeaseRecord>, LockError> {
        self.reconciled(LeaseFilter { limit, ..LeaseFilter::default() }).await
    }

    /// The leases that come after this one.
    pub async fn leases_after(&self, last: &LeaseRecord, limit: u32) -> Result<Vec<LeaseRecord>, LockError> {
        let after = Some((last.name.clone(), last.store.clone()));
        self.reconciled(LeaseFilter { after, limit, ..LeaseFilter::default() }).await
    }

    /// The leases of this name: none if the lock was not held lately, and several if locks of several stores have that name.
    pub async fn lease(&self, name: &str) -> Result<Vec<LeaseRecord>, LockError> {
        self.reconciled(LeaseFilter { name: Some(name.to_owned()), limit: 100, ..LeaseFilter::default() })
            .await
    }

    /// The events of a lock, or of all, newest first; `before` is the id of the last event of the page before.
    pub async fn history(
        &self,
        name: Option<&str>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<LockEvent>, LockError> {
        let (inner, name) = (self.0.clone(), name.map(str::to_owned));
        let read = async move { inner.timely(inner.tables.events(name.as_deref(), before, limit)).await };
        self.or_empty(self.0.runtime.run(read).await).await
    }

    /// Whether the tables exist: they are created with the first row.
    pub async fn tables_exist(&self) -> Result<bool, LockError> {
        let inner = self.0.clone();
        self.0.runtime.run(async move { inner.timely(inner.tables.exist(TableSet::Leases)).await }).await
    }

    /// Records that an operator broke a lock.
    pub(crate) async fn broken(&self, end: HoldEnd) -> Result<(), LockError> {
        let inner = self.0.clone();
        let write = async move {
            inner.prepare().await?;
            inner.timely(inner.tables.end(&end)).await
        };
        self.0.runtime.run(write).await
    }

    /// From now on, the rows of this store are compared with it.
    pub(crate) fn attach(&self, store: Arc<str>, core: Weak<Core>) {
        self.0.lock_stores().push((store, core));
    }

    /// Creates the tables in the background.
    pub(crate) fn prepare_in_background(&self) {
        let inner = self.0.clone();
        self.0.runtime.spawn(async move {
            let prepared = inner.prepare().await;
            inner.log_change(&prepared);
        });
    }

    /// Nothing, if the tables do not exist.
    async fn or_empty<T>(&self, read: Result<Vec<T>, LockError>) -> Result<Vec<T>, LockError> {
        match read {
            Err(LockError::Failed { .. }) if !self.tables_exist().await? => Ok(Vec::new()),
            read => read,
        }
    }
}

impl Inner {
    fn pending(&self) -> MutexGuard<'_, PendingWrites> {
        // No code panics while it is locked.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runners(&self) -> MutexGuard<'_, Runners> {
        self.runners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_stores(&self) -> MutexGuard<'_, Vec<(Arc<str>, Weak<Core>)>> {
        self.lock_stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn timely<T>(&self, answer: impl Future<Output = Result<T, LockError>>) -> Result<T, LockError> {
        timely(REQUEST_TIMEOUT, answer).await
    }

    async fn prepare(&self) -> Result<(), LockError> {
        if !self.prepared.load(Ordering::SeqCst) {
            self.timely(self.tables.prepare(TableSet::Leases)).await?;
            self.prepared.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Counts every failure, and logs the first one and the next success.
    fn log_change<T>(&self, done: &Result<T, LockError>) {
        match done {
            Ok(_) => {
                if self.failing.swap(false, Ordering::SeqCst) {
                    tracing::info!("the lease registry can be written again");
                }
            }
            Err(error) => {
                metrics::counter!("lineclear_lock_registry_failures_total").increment(1);
                // The tables may have been dropped.
                self.prepared.store(false, Ordering::SeqCst);
                if !self.failing.swap(true, Ordering::SeqCst) {
                    tracing::warn!(%error, "cannot write the lease registry; locks continue without it");
                }
            }
        }
    }
}

/// The registry's word for the store of a backend: within one store, a name is one lock, whichever backend acquires it.
pub(crate) fn store_of(backend: &dyn crate::Backend, holder: &crate::Holder) -> Arc<str> {
    match backend.promises().backend {
        word if word.starts_with("postgres") => Arc::from("postgres"),
        // Each process has locks of its own.
        "in-process" => Arc::from(format!("in-process/{}/{}", holder.machine, holder.pid)),
        word => Arc::from(word),
    }
}

impl Hold {
    /// The hold of a request that was granted.
    pub(crate) fn of(request: &crate::backend::LockRequest, epoch: Epoch, store: Arc<str>) -> Hold {
        Hold {
            name: request.name.clone(),
            store,
            token: request.token,
            epoch,
            kind: request.kind.clone(),
            holder: request.holder.clone(),
            ttl: Some(request.ttl),
        }
    }
}
