//! Servers that are killed in the middle of something.

mod bulk_operation;
mod idempotency;
mod secrets;
