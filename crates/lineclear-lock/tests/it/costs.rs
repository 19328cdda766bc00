//! Round trips, rows and log lines.

mod log_lines;
mod registry;
mod round_trips;
