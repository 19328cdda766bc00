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
//! Each arrow is a verb of the [`store`], and each verb one SQL file per database. The nodes that walk this path by
//! themselves are still to come; today the store can be driven by hand.
#![forbid(unsafe_code)]

pub mod handler;
pub mod node;
pub mod store;

pub mod crash;

pub use handler::{
    Cancel, Done, HandlerError, Input, JobInfo, KindOptions, Permanent, RetryIn, Snooze, State,
};
pub use lineclear_model as model;
pub use node::{Lineclear, Node, NodeOptions, Role};
pub use store::{Store, StoreError, StoreOptions};
