//! Checks of the database and the connection to it.

use super::{Check, CheckName};

mod postgres;
mod sqlite;

pub use postgres::{Pooler, Session, Table, dead_rows, pooler, postgres_version, transactions};
pub use sqlite::{FileFacts, file_system, integrity, journal, permissions};

/// Clocks that are further apart than this are a warning.
const SKEW_WARNING_US: i64 = 500_000;
/// Clocks that are further apart than this are a failure: times that nodes and people give would be wrong by half a minute.
const SKEW_FAILURE_US: i64 = 30_000_000;
/// A heartbeat may be written a little ahead of where it is read.
const FUTURE_US: i64 = 1_000_000;

/// How long the database takes to answer; `pings` are in microseconds.
pub fn latency(pings: &[u64]) -> Check {
    let mut sorted = pings.to_vec();
    sorted.sort_unstable();
    let at = |share: usize| {
        let place = (sorted.len() * share).div_ceil(100).saturating_sub(1);
        sorted.get(place).copied().unwrap_or(0)
    };
    let (p50, p95) = (at(50), at(95));
    let ms = |us: u64| format!("{}.{:02} ms", us / 1_000, us % 1_000 / 10);
    let message = format!("{} pings: p50 {}, p95 {}", sorted.len(), ms(p50), ms(p95));
    let remedy =
        "every job is several statements: move nodes closer to the database, and check its load and network";
    match (p50, p95) {
        (_, 1_000_000..) => Check::failure(CheckName::Latency, message, remedy),
        (20_000.., _) | (_, 200_000..) => Check::warning(CheckName::Latency, message, remedy),
        _ => Check::ok(CheckName::Latency, message),
    }
}

/// Compares the clock of a machine with the database's. `ahead` is how far the database is ahead in microseconds, `off_by` how
/// far that may be off. `seen` is the newest heartbeat, if it is ahead of the database's clock, and its node.
pub fn clock(name: CheckName, whose: &str, ahead: i64, off_by: i64, seen: Option<(&str, i64)>) -> Check {
    if let Some((node, future)) = seen.filter(|(_, future)| *future > FUTURE_US) {
        let message =
            format!("the database's clock has gone back: {node} was last seen {} from now", seconds(future));
        let remedy = "leases and due times wait until the clock is where it was; set it (chronyc makestep), and stop the nodes until then";
        return Check::failure(name, message, remedy);
    }
    let apart = ahead.saturating_abs().saturating_sub(off_by).max(0);
    let side = if ahead > 0 { "behind" } else { "ahead of" };
    let message = format!(
        "the clock of {whose} is {} {side} the database's (±{} ms)",
        seconds(ahead.saturating_abs()),
        off_by / 1_000 + 1
    );
    let remedy = "the database's clock decides what is due, but times shown here are off by that: run chrony or another NTP client on both";
    match apart {
        SKEW_FAILURE_US.. => Check::failure(name, message, remedy),
        SKEW_WARNING_US.. => Check::warning(name, message, remedy),
        _ => Check::ok(
            name,
            format!(
                "the clocks of {whose} and the database agree, within {} ms",
                (ahead.saturating_abs().max(off_by)) / 1_000 + 1
            ),
        ),
    }
}

fn seconds(us: i64) -> String {
    format!("{}.{:03} s", us / 1_000_000, us % 1_000_000 / 1_000)
}

#[cfg(test)]
mod tests {
    use super::super::Finding;
    use super::*;

    #[test]
    fn the_middle_and_the_slow_end_of_pings_are_told() {
        let pings: Vec<u64> = (1..=20).map(|n| n * 100).collect();
        let check = latency(&pings);
        assert_eq!(
            (check.finding, check.message.as_str()),
            (Finding::Ok, "20 pings: p50 1.00 ms, p95 1.90 ms")
        );
        assert_eq!(latency(&[25_000; 20]).finding, Finding::Warning);
        assert_eq!(latency(&[&[100; 18][..], &[300_000; 2]].concat()).finding, Finding::Warning);
        assert_eq!(latency(&[2_000_000; 20]).finding, Finding::Failure);
        assert_eq!(latency(&[]).finding, Finding::Ok);
    }

    #[test]
    fn clocks_that_are_apart_are_told_and_what_cannot_be_measured_is_not() {
        assert_eq!(clock(CheckName::Clock, "x", 400_000, 0, None).finding, Finding::Ok);
        let behind = clock(CheckName::Clock, "this machine", 2_000_000, 1_000, None);
        assert_eq!(behind.finding, Finding::Warning);
        assert!(
            behind.message.contains("this machine is 2.000 s behind the database's (±2 ms)"),
            "{}",
            behind.message
        );
        assert!(
            clock(CheckName::Clock, "x", -2_000_000, 0, None).message.contains("ahead of"),
            "the other way round"
        );
        assert_eq!(
            clock(CheckName::Clock, "x", 2_000_000, 1_900_000, None).finding,
            Finding::Ok,
            "the answer took so long"
        );
        assert_eq!(clock(CheckName::Clock, "x", -31_000_000, 0, None).finding, Finding::Failure);
        assert_eq!(clock(CheckName::Clock, "x", i64::MIN, 0, None).finding, Finding::Failure);
        let back = clock(CheckName::Clock, "x", 0, 0, Some(("web-1", 60_000_000)));
        assert_eq!(back.finding, Finding::Failure);
        assert!(back.message.contains("web-1 was last seen 60.000 s from now"), "{}", back.message);
    }
}
