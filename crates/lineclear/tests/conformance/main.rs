//! The conformance suite of the store: every verb and every state, the same tests on SQLite and on PostgreSQL; those that
//! may differ there also on PostgreSQL behind pgbouncer in transaction mode (see `kit.rs`).
//!
//! No test sleeps: time moves by moving rows. Every test ends with an audit of the tables.

#[macro_use]
mod kit;

mod audit;
mod backfill;
mod batch_modes;
mod batches;
mod cancel;
mod claim;
mod clean;
mod condition;
mod dead_letter;
mod declare;
mod dependents;
mod dispatch;
mod enqueue;
mod explain;
mod events;
mod faults;
mod gather;
mod limits;
mod lock_tables;
mod manifests;
mod migrate;
mod nodes;
mod once;
mod own_transaction;
mod plan;
mod retry;
mod search;
mod settle;
mod stats;
mod steps;
mod tend;
mod tokens;
#[cfg(feature = "tls")]
mod tls;

mod views;
