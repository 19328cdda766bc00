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
#[cfg(feature = "outbox")]
pub mod outbox;
pub mod read;
/// Remote workers: they run jobs without a connection to the database. What a server does for them, and, for the crate
/// `lineclear-worker`, handlers without a node.
pub mod remote {
    pub use crate::handler::registry::{Registry, RegistryBuilder, RemoteJob, RemoteRun};
    pub use crate::handler::step_recorder::{RecorderError, StepFuture, StepRecorder};
    pub use crate::journey::submit::claim_token::BadClaimToken;
    pub use crate::journey::submit::find_worker::KnownWorker;
    pub use crate::journey::submit::polls::POLLS_MAX;
    pub use crate::journey::submit::pull::{KINDS_MAX, PullError};
    pub use crate::journey::submit::workers::RemoteWorker;
}
pub mod secrets;
pub mod store;
pub mod submitters;
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

/// The examples of the guide are compiled, and run where they can.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/submitters.md")]
struct GuideToSubmitters;

/// The example of the guide is compiled.
#[cfg(all(doctest, feature = "outbound"))]
#[doc = include_str!("../../../docs/push.md")]
struct GuideToPush;
