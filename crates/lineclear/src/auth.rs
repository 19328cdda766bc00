//! Access to a server: tokens, browser sessions, and the audit log.

pub(crate) mod audit;
pub(crate) mod secret;
pub(crate) mod sessions;
pub(crate) mod tokens;
