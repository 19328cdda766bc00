//! submit: a lease of a node → a lease of a submitter or of a remote worker. Between claim and execute, for kinds whose jobs leave
//! their node.

pub(crate) mod claim_token;
pub(crate) mod find_worker;
pub(crate) mod polls;
pub(crate) mod overdue;
pub(crate) mod pull;
pub(crate) mod report;
pub(crate) mod routes;
pub(crate) mod submission;
pub(crate) mod transfer;
pub(crate) mod workers;
