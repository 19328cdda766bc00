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
/// How far a mark stays behind the clock when it moves: what transactions commit that were open for less is not behind it.
pub(crate) const BEHIND: Duration = Duration::from_secs(1);

/// The moment up to which polls found nothing: a mark for each thing that they ask for.
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

    /// As after a poll from the front that found nothing up to this moment, for as long as a test takes.
    #[cfg(test)]
    pub(crate) fn keep(&mut self, mark: Micros) {
        (self.marks, self.until) = ([Some(mark); MARKS], Instant::now() + Duration::from_secs(3600));
    }

    #[cfg(test)]
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// A poll that began at `from` found these things, or did not. `now`: the database's clock.
    ///
    /// After a poll from a mark the mark moves, or what is over would pile up behind it. The next poll from the front comes no later for
    /// that: only it finds what a transaction brings that was open for longer.
    pub(crate) fn polled(
        &mut self,
        from: [Option<Micros>; MARKS],
        found: [bool; MARKS],
        now: Micros,
        took: Duration,
    ) {
        if from.iter().any(Option::is_some) {
            let behind = now.offset(-i64::try_from(BEHIND.as_micros()).unwrap_or(i64::MAX));
            for (mark, found) in self.marks.iter_mut().zip(found) {
                // Only a poll from the front says what lies before a mark that is not set.
                *mark = mark.map(|mark| if found { mark } else { mark.max(behind) });
            }
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
    fn a_poll_from_a_mark_that_left_nothing_moves_it_to_a_second_ago_and_no_deadline() {
        let mut water = LowWater::<2>::default();
        water.polled([None, None], [false, true], NOW, SLOW);
        let until = water.until();
        water.polled(water.marks(), [false, false], NOW.offset(5), SLOW);
        assert_eq!(water.marks(), [Some(NOW), None], "a mark does not move back, and none is set");
        water.polled(water.marks(), [true, false], NOW.offset(5_000_000), SLOW);
        assert_eq!(water.marks(), [Some(NOW), None], "something is left");
        water.polled(water.marks(), [false, false], NOW.offset(5_000_000), SLOW);
        assert_eq!(water.marks(), [Some(NOW.offset(4_000_000)), None]);
        assert_eq!(water.until(), until, "the next poll from the front comes no later");
    }

    #[test]
    fn after_a_quick_poll_the_next_one_begins_at_the_front_again() {
        let mut water = LowWater::<1>::default();
        water.polled([None], [false], NOW, Duration::ZERO);
        assert_eq!(water.marks(), [None]);
    }
}
