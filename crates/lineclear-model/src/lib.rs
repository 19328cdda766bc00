//! Words and rules of Lineclear. Pure: no I/O, no clock, no async; the caller says what time it is.
#![forbid(unsafe_code)]

pub mod duration;
pub mod exclude;
pub mod job;
pub mod name;
pub mod plan;
pub mod rules;
pub mod schedule;
pub mod text;
pub mod time;

pub use exclude::Exclusion;
pub use name::{BadName, Name};
pub use plan::{Decision, Skip, Tick, begin, decide};
pub use rules::{Misfire, MisfirePolicy, Overlap, Rules, SkipReason};
pub use schedule::{BadSchedule, Schedule, ScheduleFields};
pub use time::Micros;
