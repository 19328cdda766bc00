//! # The journey of a job
//!
//! ```text
//!  manifest ──plan──▶ work_queue ──dispatch──▶ background_job ──claim──▶ leased ──execute──▶ outcome
//!     ▲               ▲   ▲   ▲                                             │                  │
//!     │   enqueue ────┘   │   └───────── lease ran out: the worker died ────┘                settle
//!     │                   └───────────── retry, later ─────────────────────────────────────────┤
//!     └── revive ── dead_letter ◀─────── retries used up ──────────────────────────────────────┤
//!                                                               execution (history) ◀──────────┘ ──clean──▶ gone
//! ```
//!
//! Each arrow is a verb of the [`store`], written once, with its SQL for each database. A [`node`] walks this path by
//! itself: it plans, takes jobs, runs their [handlers](handler), settles and cleans, beside any number of others.
#![forbid(unsafe_code)]

pub(crate) mod auth;
pub(crate) mod builder;
pub(crate) mod client;
pub(crate) mod db;
pub(crate) mod error;
pub mod handler;
pub(crate) mod ids;
pub(crate) mod journey;
#[doc(hidden)]
pub mod log_fold;
#[cfg(feature = "logs")]
pub mod logs;
pub(crate) mod manifests;
pub mod node;
pub(crate) mod operate;
pub(crate) mod options;
#[cfg(feature = "outbound")]
pub mod outbound;
pub mod read;
pub mod secrets;
pub mod store;
pub mod testing;
pub mod trace;
pub(crate) mod validate;
#[cfg(test)]
mod tests;

pub mod crash;

pub use handler::{
    Cancel, Ctx, Dependents, Done, HandlerError, Input, JobInfo, KindOptions, Parents, Permanent, Progress,
    RetryIn, Snooze, State, StepError, Trust, WhenTrustEnds,
};
pub use lineclear_model as model;
pub use node::{Client, Event, JobEvent, Lineclear, Node, NodeOptions, Role};
/// The driver whose connections [`Store::enqueue_in_sqlite`] takes.
pub use rusqlite;
/// The driver whose connections [`Store::enqueue_in_sqlx`] takes.
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use store::{Store, StoreError, StoreOptions};
/// The driver whose transactions [`Store::enqueue_in`] takes.
pub use tokio_postgres;

/// The examples of the guide are compiled.
#[cfg(all(doctest, feature = "logs"))]
#[doc = include_str!("../../../docs/handlers.md")]
struct HandlersGuide;

/// The guide's examples are compiled, and run where they can.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/manifests.md")]
struct GuideToManifests;
