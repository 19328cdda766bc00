//! Commands that we run for somebody: they end when we do, whatever ends us.

mod group;
mod guard;

pub(crate) use group::{Group, become_it, check, code};
pub(crate) use guard::{Guard, watch};
