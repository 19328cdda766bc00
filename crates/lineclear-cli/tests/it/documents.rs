//! What the documents and files of the repository say is so.

mod commands;
mod deploy;
pub(crate) mod guide;
mod migrate;
mod samples;
