//! How far back a poll must read.
//!
//! In PostgreSQL, entries of jobs that are over stay in the indexes until a vacuum, and no vacuum removes them while a transaction holds
//! an old snapshot (a dump, a forgotten session). A poll that asks for the first entry reads all of them: 72 ms instead of 0.6 after 300,000
//! jobs. So a poll that took long and found nothing is followed by polls that read only what can have come since. Polls from
//! the front, now and then, find what was committed late, or was changed behind our back.

use std::time::{Duration, Instant};

use lineclear_model::Micros;

/// At most one part in this many of the time goes into polls from the front.
const PARTS: u32 = 100;
/// The longest time without a poll from the front.
const LONGEST: Duration = Duration::from_secs(10);

/// The moment up to which the last poll from the front found nothing: a mark for each thing that it asks for.
#[derive(Clone, Debug)]
pub(crate) struct LowWater<const MARKS: usize> {
    marks: [Option<Micros>; MARKS],
    /// Until then the marks hold.
    until: Instant,
}

impl<const MARKS: usize> Default for LowWater<MARKS> {
    fn default() -> LowWater<MARKS> {
        LowWater { marks: [None; MARKS], until: Instant::now() }
    }
}

impl<const MARKS: usize> LowWater<MARKS> {
    /// Where the next poll begins, for each thing that it asks for; `None`: at the front.
    pub(crate) fn marks(&self) -> [Option<Micros>; MARKS] {
        if Instant::now() < self.until { self.marks } else { [None; MARKS] }
    }

    /// The next poll begins at the front.
    pub(crate) fn forget(&mut self) {
        self.until = Instant::now();
    }

    /// A poll that began at `from` found these things, or did not. `now`: the database's clock.
    pub(crate) fn polled(
        &mut self,
        from: [Option<Micros>; MARKS],
        found: [bool; MARKS],
        now: Micros,
        took: Duration,
    ) {
        // Only a poll from the front says what lies before a mark.
        if from.iter().any(Option::is_some) {
            return;
        }
        self.marks = found.map(|found| (!found).then_some(now));
        self.until = Instant::now() + (took * PARTS).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros::EPOCH;
    const SLOW: Duration = Duration::from_secs(1);

    #[test]
    fn what_a_slow_poll_did_not_find_has_a_mark() {
        let mut water = LowWater::<2>::default();
        assert_eq!(water.marks(), [None, None]);
        water.polled([None, None], [true, false], NOW, SLOW);
        assert_eq!(water.marks(), [None, Some(NOW)]);
        water.forget();
        assert_eq!(water.marks(), [None, None]);
    }

    #[test]
    fn a_poll_from_a_mark_moves_no_mark() {
        let mut water = LowWater::<1>::default();
        water.polled([None], [false], NOW, SLOW);
        water.polled(water.marks(), [false], NOW.offset(5), SLOW);
        assert_eq!(water.marks(), [Some(NOW)]);
    }

    #[test]
    fn after_a_quick_poll_the_next_one_begins_at_the_front_again() {
        let mut water = LowWater::<1>::default();
        water.polled([None], [false], NOW, Duration::ZERO);
        assert_eq!(water.marks(), [None]);
    }
}
