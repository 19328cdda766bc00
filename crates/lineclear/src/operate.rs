//! Operations on jobs and nodes, and diagnostics.

pub(crate) mod bench;
pub(crate) mod bulk;
pub(crate) mod cancel;
pub(crate) mod dead_letters;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod health_facts;
pub(crate) mod retry;
pub(crate) mod settings;
