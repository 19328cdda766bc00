//! Distributed locks on the database you have: with a fencing epoch that never goes back, a time for which the lock can be
//! trusted, and a signal when it is lost.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lineclear_lock::LockError> {
//! use lineclear_lock::Locks;
//!
//! let locks = Locks::open(":memory:").await?;
//! match locks.try_lock("nightly-report").await? {
//!     None => println!("another process holds the lock"),
//!     Some(guard) => {
//!         let done = guard.guard(async { 6 * 7 }).await;
//!         println!("{done:?} as holder number {}", guard.epoch());
//!         guard.release().await?;
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! - *Busy* is an answer (`None`). An error means that the holder is unknown: skip this time, do not go ahead.
//! - A lock ends by itself when its holder dies or freezes. A frozen holder that wakes up does not know that yet: what it
//!   must not do then has to be [fenced](Fence). Transactions on PostgreSQL and SQLite can be.
//! - [`Lease::trusted_for`] is counted from the request, not from its answer, and ends before the lock does.
//! - A thread of its own talks to the store: a program that blocks its runtime keeps its locks, and one that shuts down
//!   can still release them.
//!
//! | file | content |
//! |---|---|
//! | `locks.rs`, `open.rs` | opening the locks of a store |
//! | `acquire.rs`, `exclusive.rs`, `election.rs`, `singleton.rs` | acquire a lock; run work under it; one leader among many; work that runs on one node |
//! | `guard.rs`, `lease.rs` | a held lock, and its lease |
//! | `renewal.rs`, `background_runtime.rs` | the renewal of a held lock, and the thread that it runs on |
//! | `inspect.rs` | read, explain and break locks, for operators |
//! | [`mod@backend`] | **what a store of locks must provide**: begin here to add one |
//! | `in_process.rs`, `sqlite.rs`, `postgres/`, `mysql/`, `mssql/`, `redis/` | the stores |
//! | [`mod@registry`] | who holds which lock: tables for people |
//! | [`history`] | a checker: were there ever two holders? |
//!
//! To add a backend: implement [`Backend`] behind a feature, name its URL in `open.rs`, and run the shared
//! tests on it (`tests/it/`).

pub mod backend;
pub mod history;
pub mod registry;

mod locks;
mod acquire;
mod exclusive;
mod election;
mod singleton;
mod inspect;
mod guard;
mod lease;
mod background_runtime;
mod renewal;
mod local_waiters;
mod timely;
mod clock;
mod error;
mod holder;
mod name;
mod open;
mod options;

#[cfg(any(feature = "mysql", feature = "mssql"))]
mod key_hash;

mod in_process;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "mssql")]
pub mod mssql;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use backend::{Backend, FenceClass, Holding, Inspection, Promises, Released};
pub use clock::Moment;
pub use election::{Election, Term};
pub use error::{LockError, Source};
pub use exclusive::Exclusive;
pub use guard::LockGuard;
pub use holder::Holder;
pub use in_process::InProcess;
pub use lease::{Fence, Lease, LostReason};
pub use locks::Locks;
#[cfg(feature = "mssql")]
pub use mssql::Mssql;
#[cfg(feature = "mysql")]
pub use mysql::Mysql;
pub use name::{Epoch, LockName, NAME_BYTES_MAX};
pub use open::backend;
pub use options::{LockOptions, TTL_MIN};
#[cfg(feature = "redis")]
pub use redis::Redis;
pub use registry::{
    Explanation, LeaseRecord, LeaseState, LockEvent, LockEventKind, Next, Registry, RegistryOptions,
    RunnerRecord,
};
pub use singleton::{RunnerState, RunnerStatus, Singleton};
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;

/// The examples of `docs/locks.md`, compiled.
#[cfg(all(doctest, feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../../../docs/locks.md")]
struct Guide;
