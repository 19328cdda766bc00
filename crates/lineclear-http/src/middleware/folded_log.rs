//! Log lines that an attacker can cause: a few in each period, then a count of those that were left out.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long lines are counted together.
const PERIOD: Duration = Duration::from_secs(10);

struct State {
    began: Instant,
    lines: u32,
    left_out: u64,
}

/// The lines of one kind. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FoldedLog {
    /// What the lines are about.
    about: &'static str,
    max: u32,
    period: Duration,
    state: Arc<Mutex<State>>,
}

impl FoldedLog {
    /// At most `max` lines in ten seconds, and one with the number of the others.
    pub(crate) fn new(about: &'static str, max: u32) -> FoldedLog {
        let state = State { began: Instant::now(), lines: 0, left_out: 0 };
        FoldedLog { about, max, period: PERIOD, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Writes a line, or counts it.
    pub(crate) fn write(&self, line: impl FnOnce()) {
        if self.admits() {
            line();
        }
    }

    fn admits(&self) -> bool {
        let mut state = self.state();
        if state.began.elapsed() >= self.period && state.left_out == 0 {
            *state = State { began: Instant::now(), lines: 0, left_out: 0 };
        }
        if state.lines < self.max {
            state.lines += 1;
            return true;
        }
        state.left_out += 1;
        if state.left_out == 1 {
            tokio::spawn(self.clone().count_at_the_end(self.period.saturating_sub(state.began.elapsed())));
        }
        false
    }

    /// Writes the number of lines that were left out, when the period ends.
    async fn count_at_the_end(self, wait: Duration) {
        tokio::time::sleep(wait).await;
        let mut state = self.state();
        tracing::warn!(times = state.left_out, "{}: lines left out", self.about);
        *state = State { began: Instant::now(), lines: 0, left_out: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn few_lines_are_written_and_the_others_are_counted() {
        let log = FoldedLog { period: Duration::from_secs(3), ..FoldedLog::new("floods", 3) };
        let written = |times: u32| (0..times).filter(|_| log.admits()).count();
        assert_eq!(written(1_000), 3);
        assert_eq!(log.state().left_out, 997);
        while log.state().left_out > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(written(2), 2, "and lines are written again");
    }
}
