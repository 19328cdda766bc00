//! Which node leads the planning, and since when: a node reports the cycles that it has won with its heartbeat, never one by one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::store::Led;

/// The cycles that were won and not reported yet.
#[derive(Default)]
pub(crate) struct Leadership(Mutex<State>);

#[derive(Default)]
struct State {
    untold: Option<WonCycles>,
    /// Whether there is anything to resign from.
    ever: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct WonCycles {
    cycles: u32,
    first: Instant,
    last: Instant,
}

impl WonCycles {
    pub(crate) fn led(&self) -> Led {
        let (first_ago, last_ago) = (self.first.elapsed(), self.last.elapsed());
        Led { cycles: self.cycles, first_ago, last_ago }
    }

    /// Adds later cycles.
    fn and(self, later: WonCycles) -> WonCycles {
        WonCycles { cycles: self.cycles.saturating_add(later.cycles), first: self.first, last: later.last }
    }
}

impl Leadership {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a cycle was won.
    pub(crate) fn won(&self) {
        let now = Instant::now();
        let won = WonCycles { cycles: 1, first: now, last: now };
        let mut state = self.state();
        state.untold = Some(state.untold.map_or(won, |before| before.and(won)));
        state.ever = true;
    }

    /// The cycles to report with the next heartbeat.
    pub(crate) fn take_untold(&self) -> Option<WonCycles> {
        self.state().untold.take()
    }

    /// The heartbeat failed: report them with the next one.
    pub(crate) fn put_back(&self, won: WonCycles) {
        let mut state = self.state();
        state.untold = Some(state.untold.map_or(won, |later| won.and(later)));
    }

    /// The node has resigned.
    pub(crate) fn over(&self) {
        self.state().ever = false;
    }

    pub(crate) fn ever(&self) -> bool {
        self.state().ever
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_that_could_not_be_told_are_told_with_the_next() {
        let leadership = Leadership::default();
        assert!(leadership.take_untold().is_none() && !leadership.ever());
        leadership.won();
        leadership.won();
        let untold = leadership.take_untold().unwrap();
        assert!(leadership.take_untold().is_none() && leadership.ever());
        leadership.won();
        leadership.put_back(untold);
        let all = leadership.take_untold().unwrap();
        assert_eq!((all.cycles, all.first), (3, untold.first));
        assert!(all.last > untold.last && all.led().first_ago >= all.led().last_ago);
    }
}
