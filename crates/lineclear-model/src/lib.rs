//! Words and rules of Lineclear. Pure: no I/O, no clock, no async; the caller says what time it is.
#![forbid(unsafe_code)]

pub mod job;
pub mod name;
pub mod time;

pub use name::{BadName, Name};
pub use time::Micros;
