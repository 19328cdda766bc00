//! The built-in kinds of a server.

pub(crate) mod command;
pub(crate) mod http;
mod secrets;
