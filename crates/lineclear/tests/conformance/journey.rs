//! Each arrow of the state diagram, in its order.

mod backfill;
mod caller_tx;
mod claim;
mod clean;
mod dependents;
mod dispatch;
mod enqueue;
mod enqueue_batches;
mod idempotency;
mod limits;
mod plan;
mod promote;
mod reclaim;
mod settle;
mod steps;
