//! What operators do to jobs and nodes, and how they find out what is wrong.

pub(crate) mod bench;
pub(crate) mod bulk;
pub(crate) mod cancel;
pub(crate) mod dead_letters;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod health_facts;
pub(crate) mod retry;
pub(crate) mod settings;
