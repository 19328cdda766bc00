//! The built-in kinds of a server.

pub(crate) mod command;
mod command_confined;
pub(crate) mod http;
mod secrets;
