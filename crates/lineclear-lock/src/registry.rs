//! The lease registry: which node holds which lock, since when, and is it alive. A table for people and dashboards; no lock depends
//! on it.
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
//! let registry = locks.registry().expect("it was asked for");
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
//! - A lock that is taken gets a row, which is renewed while it is held, stamped when it is released, and kept. One who finds it busy
//!   writes nothing; how often that happens is counted in memory and written with the next heartbeat.
//! - All of it is written by a thread of the registry's own, beside the locks: a registry that is slow, broken or away is logged, counted
//!   (`lineclear_lock_registry_failures_total`) and costs nobody a lock.
//! - Times are the database's.
//!
//! | file | what it has |
//! |---|---|
//! | `recording.rs` | the decorator: a backend that tells the registry what happens to another |
//! | `ledger.rs`, `writer.rs` | what is not written yet, and who writes it |
//! | `judge.rs`, `sweep.rs` | what the row says against what the store of the locks says; rows of those who went away |
//! | `table.rs` | **what a database must provide**: begin here to add one |
//! | `postgres.rs`, `mysql.rs`, `sqlite.rs`, `mssql.rs` | the databases |

pub(crate) mod explain;
mod reconcile;
mod record;
mod pending_writes;
mod options;
mod recording;
mod sweep;
pub mod table;
mod writer;

#[cfg(feature = "mssql")]
mod mssql;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use uuid::Uuid;

pub use explain::{Explanation, Next};
pub use options::{Classifier, RegistryOptions, kind_by_prefix};
pub use pending_writes::Hold;
use pending_writes::PendingWrites;
pub use record::{LeaseRecord, LeaseState, LockEvent, LockEventKind};
pub use recording::RecordingBackend;
use table::{LeaseFilter, Table};

use crate::background_runtime::BackgroundRuntime;
use crate::error::LockError;
use crate::locks::Core;
use crate::name::{Epoch, LockName};
use crate::renewal::no_answer;

/// How long the table may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The lease registry of one database. Cheap to clone; clones share the thread and its connection.
#[derive(Clone, Debug)]
pub struct Registry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: Arc<dyn Table>,
    options: RegistryOptions,
    runtime: Arc<BackgroundRuntime>,
    ledger: Mutex<PendingWrites>,
    wake: Arc<Notify>,
    /// One writes at a time.
    turn: tokio::sync::Mutex<()>,
    /// Whether the tables are known to be there.
    prepared: AtomicBool,
    /// Whether it was said that nothing can be written: once, until something can be again.
    failing: AtomicBool,
    /// The stores whose locks we can ask about.
    lock_stores: Mutex<Vec<(Arc<str>, Weak<Core>)>>,
}

impl Registry {
    /// A registry in the database that a URL names: `postgres://…`, `mysql://…`, `mssql://…`, `sqlite:FILE`. Nothing is asked of it yet, and its
    /// tables are made with the first row.
    pub fn new(url: &str, options: RegistryOptions) -> Result<Registry, LockError> {
        Registry::with(table::of_url(url)?, options)
    }

    /// A registry in a table of your own.
    pub fn with(table: Arc<dyn Table>, options: RegistryOptions) -> Result<Registry, LockError> {
        options.check()?;
        let inner = Arc::new(Inner {
            table,
            options,
            runtime: BackgroundRuntime::start().map_err(LockError::failed)?,
            ledger: Mutex::default(),
            wake: Arc::default(),
            turn: tokio::sync::Mutex::default(),
            prepared: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            lock_stores: Mutex::default(),
        });
        inner.runtime.spawn(writer::write(
            Arc::downgrade(&inner),
            inner.wake.clone(),
            inner.options.heartbeat,
        ));
        inner.runtime.spawn(sweep::sweep(Arc::downgrade(&inner), inner.options.sweep_after));
        Ok(Registry(inner))
    }

    /// What it was told.
    pub fn options(&self) -> &RegistryOptions {
        &self.0.options
    }

    /// A lock was taken: it gets a row, which is renewed until it is said to have ended. For those who record by hand; the decorator does
    /// it by itself. It returns at once, and cannot fail.
    pub fn acquired(&self, mut hold: Hold) {
        if hold.kind.is_none() {
            hold.kind = self.0.options.kind_of(hold.name.as_str());
        }
        self.0.ledger().acquired(hold);
        self.0.wake.notify_one();
    }

    /// It is held for another time to live.
    pub fn renewed(&self, token: Uuid) {
        self.0.ledger().renewed(token);
    }

    /// It was given back.
    pub fn released(&self, token: Uuid) {
        if self.0.ledger().released(token) {
            self.0.wake.notify_one();
        }
    }

    /// It is another's now, or may be.
    pub fn lost(&self, token: Uuid, why: &str) {
        if self.0.ledger().lost(token, why) {
            self.0.wake.notify_one();
        }
    }

    /// Somebody found it busy: counted, and written with the next heartbeat to the row of who holds it.
    pub fn busy(&self, store: &Arc<str>, name: &LockName) {
        self.0.ledger().busy(store, name);
    }

    /// Writes what is not written yet, as with a heartbeat, and waits for it. A program that ends calls it last, or
    /// [`Locks::flush`](crate::Locks::settled).
    pub async fn flush(&self) -> Result<(), LockError> {
        let inner = self.0.clone();
        self.0.runtime.run(async move { inner.flush(true).await }).await
    }

    /// Removes rows of holders that went away, and what is too old, now. It is done by itself every minute or so; this is for programs
    /// that do not live that long.
    pub async fn sweep(&self) -> Result<(), LockError> {
        let inner = self.0.clone();
        self.0.runtime.run(async move { inner.sweep_once().await }).await
    }

    /// The leases, by name, each with its state: at most so many. [`Registry::leases_after`] has the next ones.
    pub async fn leases(&self, most: u32) -> Result<Vec<LeaseRecord>, LockError> {
        self.judged(LeaseFilter { most, ..LeaseFilter::default() }).await
    }

    /// The leases that come after this one.
    pub async fn leases_after(&self, last: &LeaseRecord, most: u32) -> Result<Vec<LeaseRecord>, LockError> {
        let after = Some((last.name.clone(), last.store.clone()));
        self.judged(LeaseFilter { after, most, ..LeaseFilter::default() }).await
    }

    /// The leases of this name: none if nobody held it lately, and more than one if locks of several stores have that name.
    pub async fn lease(&self, name: &str) -> Result<Vec<LeaseRecord>, LockError> {
        self.judged(LeaseFilter { name: Some(name.to_owned()), most: 100, ..LeaseFilter::default() }).await
    }

    /// What happened to a lock, or to all, newest first; `before` is the id of the last one that is known already.
    pub async fn history(
        &self,
        name: Option<&str>,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<LockEvent>, LockError> {
        let (inner, name) = (self.0.clone(), name.map(str::to_owned));
        let read = async move { inner.within(inner.table.events(name.as_deref(), before, most)).await };
        self.or_nothing(self.0.runtime.run(read).await).await
    }

    /// Whether the tables are there: they are made with the first row.
    pub async fn tables_exist(&self) -> Result<bool, LockError> {
        let inner = self.0.clone();
        self.0.runtime.run(async move { inner.within(inner.table.tables_exist()).await }).await
    }

    /// Writes down that somebody took a lock away from its holder.
    pub(crate) async fn broken(&self, ending: table::HoldEnd) -> Result<(), LockError> {
        let inner = self.0.clone();
        let write = async move {
            inner.prepare().await?;
            inner.within(inner.table.end(&ending)).await
        };
        self.0.runtime.run(write).await
    }

    /// From now on the rows of this store are checked against it.
    pub(crate) fn attach(&self, store: Arc<str>, core: Weak<Core>) {
        self.0.lock_stores().push((store, core));
    }

    /// Makes the tables soon, in the background.
    pub(crate) fn prepare_soon(&self) {
        let inner = self.0.clone();
        self.0.runtime.spawn(async move {
            let prepared = inner.prepare().await;
            inner.tell(&prepared);
        });
    }

    /// What is read from tables that are not there is nothing.
    async fn or_nothing<T>(&self, read: Result<Vec<T>, LockError>) -> Result<Vec<T>, LockError> {
        match read {
            Err(LockError::Failed { .. }) if !self.tables_exist().await? => Ok(Vec::new()),
            read => read,
        }
    }
}

impl Inner {
    fn ledger(&self) -> MutexGuard<'_, PendingWrites> {
        // Nothing panics while it is locked.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_stores(&self) -> MutexGuard<'_, Vec<(Arc<str>, Weak<Core>)>> {
        self.lock_stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn within<T>(&self, answer: impl Future<Output = Result<T, LockError>>) -> Result<T, LockError> {
        timeout(ANSWER_WITHIN, answer).await.unwrap_or_else(|_| Err(no_answer(ANSWER_WITHIN)))
    }

    async fn prepare(&self) -> Result<(), LockError> {
        if !self.prepared.load(Ordering::SeqCst) {
            self.within(self.table.prepare()).await?;
            self.prepared.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Failures are said once, and counted always.
    fn tell<T>(&self, done: &Result<T, LockError>) {
        match done {
            Ok(_) => {
                if self.failing.swap(false, Ordering::SeqCst) {
                    tracing::info!("the lease registry can be written again");
                }
            }
            Err(error) => {
                metrics::counter!("lineclear_lock_registry_failures_total").increment(1);
                // The tables may have gone.
                self.prepared.store(false, Ordering::SeqCst);
                if !self.failing.swap(true, Ordering::SeqCst) {
                    tracing::warn!(%error, "the lease registry cannot be written; the locks go on without it");
                }
            }
        }
    }
}

/// The word for the store that a backend keeps its locks in: names of one store are one lock, whichever way it is taken.
pub(crate) fn store_of(backend: &dyn crate::Backend, holder: &crate::Holder) -> Arc<str> {
    match backend.promises().backend {
        word if word.starts_with("postgres") => Arc::from("postgres"),
        // Each process has locks of its own.
        "in-process" => Arc::from(format!("in-process/{}/{}", holder.machine, holder.pid)),
        word => Arc::from(word),
    }
}

impl Hold {
    /// Of a lock that was taken through [`Locks`](crate::Locks).
    pub(crate) fn of(ask: &crate::backend::LockRequest, epoch: Epoch, store: Arc<str>) -> Hold {
        Hold {
            name: ask.name.clone(),
            store,
            token: ask.token,
            epoch,
            kind: ask.kind.clone(),
            holder: ask.holder.clone(),
            ttl: Some(ask.ttl),
        }
    }
}
