//! Who may use a server: tokens, sessions, and the audit of what was done.

pub(crate) mod audit;
pub(crate) mod secret;
pub(crate) mod sessions;
pub(crate) mod tokens;
