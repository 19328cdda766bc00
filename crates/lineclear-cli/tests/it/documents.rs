//! The documents and files of the repository are correct.

mod commands;
mod deploy;
pub(crate) mod guide;
mod migrate;
mod samples;
mod workers;
