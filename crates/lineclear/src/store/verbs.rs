//! The verbs, in the order of the journey. Each is one atomic transition.

pub(crate) mod manifest;
mod circle;
pub(crate) mod merge;
pub(crate) mod group;
pub(crate) mod declare;
pub(crate) mod remove;
pub(crate) mod said;
pub(crate) mod seen;
pub(crate) mod switch;
pub(crate) mod enqueue;
pub(crate) mod trigger;
pub(crate) mod backfill;
pub(crate) mod once;
pub(crate) mod plan;
pub(crate) mod turn;
pub(crate) mod look;
pub(crate) mod promote;
pub(crate) mod dispatch;
pub(crate) mod wake;
pub(crate) mod claim;
pub(crate) mod renew;
pub(crate) mod step;
pub(crate) mod progress;
pub(crate) mod log;
pub(crate) mod reclaim;
pub(crate) mod settle;
pub(crate) mod arm;
pub(crate) mod parent;
pub(crate) mod activate;
pub(crate) mod dead_letter;
pub(crate) mod retry;
pub(crate) mod cancel;
pub(crate) mod batch;
pub(crate) mod explain;
pub(crate) mod over;
pub(crate) mod events;
pub(crate) mod setting;
pub(crate) mod stats;
pub(crate) mod totals;
pub(crate) mod condition;
pub(crate) mod clean;
pub(crate) mod node;
pub(crate) mod notify;
pub(crate) mod token;
pub(crate) mod session;
pub(crate) mod audit;

/// A statement that always has a row had none.
pub(crate) fn no_answer(statement: &str) -> super::StoreError {
    super::StoreError::Corrupt { what: format!("{statement} did not answer") }
}
