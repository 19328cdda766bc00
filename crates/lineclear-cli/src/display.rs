//! How results are printed: for people, tables that fit the terminal and states with a sign; for programs, tabs and full timestamps.

mod cell;
pub(crate) mod doctor_check;
mod progress;
mod style;
mod table;

pub(crate) use cell::Cell;
pub(crate) use progress::Progress;
pub(crate) use style::OutputStyle;
pub(crate) use table::{Column, print_fields, print_table};
