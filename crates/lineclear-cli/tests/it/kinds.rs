//! Kinds of jobs that a server brings with it.

pub(crate) mod command;
pub(crate) mod http;
