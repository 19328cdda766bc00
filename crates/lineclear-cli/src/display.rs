//! What a person sees: tables that fit, and states that are words with a sign. What a program sees: tabs, and whole times.

mod cell;
pub(crate) mod check;
mod progress;
mod table;

pub(crate) use cell::{Cell, Look};
pub(crate) use progress::Progress;
pub(crate) use table::{Column, fields, list};
