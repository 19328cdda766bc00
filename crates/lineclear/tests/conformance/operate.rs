//! What operators do to jobs, and what they are told.

mod bulk_modes;
pub(crate) mod bulk_operations;
mod cancel;
mod dead_letters;
mod explain;
mod health_facts;
mod nodes;
mod retry;
