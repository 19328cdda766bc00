//! The actions of operators on jobs, and the answers.

mod bulk_modes;
pub(crate) mod bulk_operations;
mod cancel;
mod dead_letters;
mod explain;
mod health_facts;
mod nodes;
mod retry;
mod submitters;
