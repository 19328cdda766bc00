//! What the thread that writes a SQLite file does: whether it waits for the file's lock, or works.
//!
//! A look at the queue does not tell these apart: a verb waits there for as long behind a lock of another process as behind many
//! verbs of this one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct WriterActivity(Mutex<Since>);

#[derive(Debug, Default)]
struct Since {
    /// Since when no transaction could begin.
    blocked: Option<Instant>,
    /// Since when it has worked on one verb, or committed.
    writing: Option<Instant>,
}

impl WriterActivity {
    fn since(&self) -> MutexGuard<'_, Since> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It asks for the lock. An earlier try that failed counts, too.
    pub(super) fn begins(&self) {
        self.since().blocked.get_or_insert_with(Instant::now);
    }

    /// It has the lock, and turns to the next verb, or to the commit.
    pub(super) fn turns_to_next(&self) {
        *self.since() = Since { blocked: None, writing: Some(Instant::now()) };
    }

    /// Its transaction is over, or could not begin.
    pub(super) fn ended(&self) {
        self.since().writing = None;
    }

    pub(super) fn blocked_for(&self) -> Option<Duration> {
        self.since().blocked.map(|since| since.elapsed())
    }

    pub(super) fn writing_for(&self) -> Option<Duration> {
        self.since().writing.map(|since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_that_fail_one_after_the_other_are_one_wait() {
        let activity = WriterActivity::default();
        activity.begins();
        activity.ended();
        std::thread::sleep(Duration::from_millis(5));
        activity.begins();
        assert!(activity.blocked_for().is_some_and(|blocked| blocked >= Duration::from_millis(5)));
        assert_eq!(activity.writing_for(), None);
        activity.turns_to_next();
        assert!(activity.blocked_for().is_none() && activity.writing_for().is_some());
        activity.ended();
        assert_eq!(activity.writing_for(), None);
    }
}
