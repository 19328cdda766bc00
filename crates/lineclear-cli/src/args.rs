//! Arguments that several commands share.

mod confirm;
mod db;

pub(crate) use confirm::Confirm;
pub(crate) use db::{DbArgs, open_existing};
