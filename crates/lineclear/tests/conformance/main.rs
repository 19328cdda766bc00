//! The conformance suite of the store: every verb and every state, the same tests on SQLite and on PostgreSQL; those that
//! may differ there also on PostgreSQL behind pgbouncer in transaction mode (see `kit.rs`).
//!
//! No test sleeps: time moves by moving rows. Every test ends with an audit of the tables.

#[macro_use]
mod kit;

mod manifests;
mod journey;
mod operate;
mod read;
mod auth;
mod db;
