//! One module for each command.

pub(crate) mod db;
pub(crate) mod schedule;
