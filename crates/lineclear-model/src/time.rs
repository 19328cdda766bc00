//! A moment, as both databases can hold it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, UTC.
///
/// PostgreSQL keeps microseconds and rounds, SQLite has integers, `jiff` keeps nanoseconds: without one type
/// that truncates first, the same moment would differ by store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Timestamp", into = "Timestamp")]
pub struct Micros(i64);

impl Micros {
    /// The Unix epoch.
    pub const EPOCH: Micros = Micros(0);

    /// The moment `micros` after the Unix epoch, if it lies in the years −9999 to 9999.
    pub fn new(micros: i64) -> Option<Micros> {
        Timestamp::from_microsecond(micros).ok().map(|_| Micros(micros))
    }

    /// Microseconds since the Unix epoch.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The same moment for calendars and time zones.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_microsecond(self.0).expect("a Micros is in range from its making")
    }

    /// This moment moved by `micros`, held at the ends of the range.
    pub fn offset(self, micros: i64) -> Micros {
        Micros::clamped(self.0.saturating_add(micros))
    }

    /// `jiff` does not take back the fraction of its own last second, so the range ends at whole seconds.
    fn clamped(micros: i64) -> Micros {
        let (min, max) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        Micros(micros.clamp(min * 1_000_000, max * 1_000_000))
    }
}

impl From<Timestamp> for Micros {
    /// Truncates towards the past, so that a stored moment is never later than the one given.
    fn from(at: Timestamp) -> Micros {
        let nanos = at.as_nanosecond();
        Micros::clamped(i64::try_from(nanos.div_euclid(1_000)).expect("a Timestamp fits i64 microseconds"))
    }
}

impl From<Micros> for Timestamp {
    fn from(at: Micros) -> Timestamp {
        at.timestamp()
    }
}

impl fmt::Display for Micros {
    /// RFC 3339, UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timestamp().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_truncated_towards_the_past() {
        let at: Timestamp = "2026-01-01T00:00:00.123456789Z".parse().unwrap();
        assert_eq!(Micros::from(at).to_string(), "2026-01-01T00:00:00.123456Z");
        let before_epoch: Timestamp = "1969-12-31T23:59:59.999999999Z".parse().unwrap();
        assert_eq!(Micros::from(before_epoch).get(), -1);
    }

    #[test]
    fn a_moment_out_of_range_is_refused_or_held_at_the_end() {
        assert_eq!(Micros::new(i64::MAX), None);
        assert_eq!(Micros::EPOCH.offset(i64::MAX).timestamp().as_second(), Timestamp::MAX.as_second());
        assert_eq!(Micros::EPOCH.offset(i64::MIN).timestamp(), Timestamp::MIN);
        assert_eq!(Micros::from(Timestamp::MAX).timestamp().as_second(), Timestamp::MAX.as_second());
    }
}
