//! Child processes that end with this process, whatever ends it.

mod confinement;
mod descendants;
mod group;
mod guard;
mod hidden_args;
mod supervisor;

pub(crate) use confinement::{CommandUser, Confinement, Limit};
pub(crate) use group::{Group, Launch, become_command, check, exit_code};
pub(crate) use guard::{Guard, watch};
pub(crate) use hidden_args::{HIDDEN_ARGS, hide_passwords};
pub(crate) use supervisor::{confine, supervise};

/// Names of internal commands.
const SUPERVISE: &str = "supervise";
const CONFINE: &str = "confine";
