//! A manual clock for tests, which a database in memory follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lineclear_model::Micros;

/// A manual clock, which never moves back. Clones share the same time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    pub(crate) fn new(now: Micros) -> Clock {
        Clock(Arc::new(AtomicI64::new(now.get())))
    }

    pub(crate) fn micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// The current time.
    pub fn now(&self) -> Micros {
        Micros::EPOCH.offset(self.micros())
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.store(self.now().offset(micros).get(), Ordering::SeqCst);
    }

    /// Sets the clock to a later time: `2026-03-29T01:00:00Z`, or `2026-03-29T03:00:00[Europe/Berlin]`.
    ///
    /// # Panics
    ///
    /// If the text is not a time, or the time is past.
    pub fn set(&self, moment: &str) {
        let to = parse(moment);
        assert!(to >= self.now(), "{moment} is past: it is {}", self.now().timestamp());
        self.0.store(to.get(), Ordering::SeqCst);
    }
}

/// Parses a time.
pub(crate) fn parse(moment: &str) -> Micros {
    let in_a_zone = moment.parse::<jiff::Zoned>().map(|zoned| zoned.timestamp());
    let at = in_a_zone.or_else(|_| moment.parse::<jiff::Timestamp>());
    at.map(Micros::from).unwrap_or_else(|error| panic!("{moment:?} is not a moment: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_only_as_told() {
        let clock = Clock::new(parse("2026-03-29T00:59:59Z"));
        let same = clock.clone();
        clock.advance(Duration::from_millis(1500));
        assert_eq!(same.now(), parse("2026-03-29T01:00:00.5Z"));
        clock.set("2026-03-29T03:30:00[Europe/Berlin]");
        assert_eq!(same.now(), parse("2026-03-29T01:30:00Z"));
    }

    #[test]
    #[should_panic(expected = "is past")]
    fn time_does_not_go_back() {
        Clock::new(parse("2026-03-29T00:59:59Z")).set("2026-03-29T00:00:00Z");
    }
}
