//! Servers that are killed in the middle of a change.

mod bulk_operation;
mod idempotency;
mod secrets;
