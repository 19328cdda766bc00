//! How many jobs a node leases ahead of its free slots.
//!
//! A slot that waits for a round trip to the disk after each job is idle most of the time if jobs are short. So a node leases more jobs
//! than it has free slots, as long as more jobs wait and the ones that it leased ahead are about to run: twice as many each
//! time the slots run dry, half as many when too many are left. Nothing is leased ahead if jobs are long, or if nothing more waits.

use std::time::Duration;

/// Jobs that a node leases ahead at most.
pub(crate) const AHEAD_MAX: u32 = 500;
/// What is leased ahead should begin within this time.
const BEGINS_WITHIN: Duration = Duration::from_millis(50);

/// What a node has seen of its handlers and of the queue.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    /// As many as the last round trips called for.
    wanted: u32,
    /// How long handlers run, in seconds; none: none has ended yet.
    mean: Option<f64>,
    /// The last dispatch brought as many jobs as it asked for.
    more_wait: bool,
}

impl Prefetch {
    /// Jobs to lease ahead of `slots`.
    pub(crate) fn ahead(&self, slots: u32) -> u32 {
        let Some(mean) = self.mean else { return 0 };
        let in_time = f64::from(slots) * BEGINS_WITHIN.as_secs_f64() / mean.max(f64::MIN_POSITIVE);
        // A float that is too large becomes the largest integer.
        self.wanted.min(in_time as u32)
    }

    pub(crate) fn more_wait(&self) -> bool {
        self.more_wait
    }

    /// A handler ended. One long job counts at once, many short ones make it forgotten.
    pub(crate) fn ran(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        let mean = self.mean.unwrap_or(took);
        let weight = if took > mean { 0.5 } else { 1.0 / 16.0 };
        self.mean = Some(mean + (took - mean) * weight);
    }

    /// A dispatch asked for so many jobs and got so many, when so many that were leased before still waited for a slot.
    pub(crate) fn arrived(&mut self, asked: u32, got: u32, waiting: u32, slots: u32) {
        self.more_wait = got >= asked;
        if !self.more_wait {
            self.wanted /= 2;
        } else if waiting == 0 {
            self.wanted = (self.wanted * 2).clamp(slots.min(AHEAD_MAX), AHEAD_MAX);
        } else if waiting > self.wanted / 4 {
            self.wanted -= self.wanted / 4;
        }
    }

    /// Jobs that were leased ahead waited too long.
    pub(crate) fn waited_too_long(&mut self) {
        self.wanted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(jobs: u32, took: Duration) -> Prefetch {
        let mut prefetch = Prefetch::default();
        (0..jobs).for_each(|_| prefetch.ran(took));
        (0..20).for_each(|_| prefetch.arrived(8, 8, 0, 8));
        prefetch
    }

    #[test]
    fn an_idle_node_leases_nothing_ahead() {
        let mut prefetch = Prefetch::default();
        prefetch.ran(Duration::from_micros(20));
        assert_eq!(prefetch.ahead(8), 0);
        prefetch.arrived(8, 1, 0, 8);
        assert_eq!(prefetch.ahead(8), 0);
    }

    #[test]
    fn nothing_is_leased_ahead_until_a_handler_has_ended() {
        let mut prefetch = Prefetch::default();
        prefetch.arrived(8, 8, 0, 8);
        assert_eq!(prefetch.ahead(8), 0);
        prefetch.ran(Duration::from_micros(20));
        assert_eq!(prefetch.ahead(8), 8);
    }

    #[test]
    fn short_jobs_of_a_backlog_are_leased_ahead_more_and_more() {
        let mut prefetch = Prefetch::default();
        let mut ahead = Vec::new();
        for _ in 0..8 {
            prefetch.ran(Duration::from_micros(20));
            prefetch.arrived(8, 8, 0, 8);
            ahead.push(prefetch.ahead(8));
        }
        assert_eq!(ahead, [8, 16, 32, 64, 128, 256, 500, 500]);
    }

    #[test]
    fn what_is_leased_ahead_begins_soon() {
        assert_eq!(after(100, Duration::from_millis(20)).ahead(8), 20);
        assert_eq!(after(100, Duration::from_secs(1)).ahead(8), 0, "long jobs are not leased ahead");
    }

    #[test]
    fn one_long_job_counts_and_is_forgotten() {
        let mut prefetch = after(100, Duration::from_micros(100));
        assert_eq!(prefetch.ahead(8), AHEAD_MAX);
        prefetch.ran(Duration::from_secs(1));
        assert_eq!(prefetch.ahead(8), 0);
        (0..100).for_each(|_| prefetch.ran(Duration::from_micros(100)));
        assert!(prefetch.ahead(8) > 100, "{prefetch:?}");
    }

    #[test]
    fn it_shrinks_when_much_is_left_and_when_the_backlog_ends() {
        let mut prefetch = after(100, Duration::from_micros(100));
        prefetch.arrived(400, 400, 200, 8);
        assert_eq!(prefetch.ahead(8), 375);
        prefetch.arrived(400, 400, 50, 8);
        assert_eq!(prefetch.ahead(8), 375, "about right");
        prefetch.arrived(400, 399, 0, 8);
        assert_eq!(prefetch.ahead(8), 187);
        assert!(!prefetch.more_wait());
        prefetch.waited_too_long();
        assert_eq!(prefetch.ahead(8), 0);
    }
}
