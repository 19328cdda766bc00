//! Databases that stall, and applications that hold locks, while nodes work. What is counted is what the handlers see: how many run
//! at once, and where.
//!
//! A few seconds each in the suite; `make stalls` runs each of them for ten minutes, and prints its figures.

mod held;
mod random;
mod slow;
mod stalled;
mod world;

use std::time::Duration;

/// How long one of them takes.
fn length(usual: Duration) -> Duration {
    let asked = std::env::var("LINECLEAR_TEST_STALL_SECONDS").ok();
    asked.map_or(usual, |seconds| Duration::from_secs(seconds.parse().expect("a number of seconds")))
}
