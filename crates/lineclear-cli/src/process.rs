//! Child processes that end with this process, whatever ends it.

mod group;
mod guard;

pub(crate) use group::{Group, become_command, check, exit_code};
pub(crate) use guard::{Guard, watch};
