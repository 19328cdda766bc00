//! When a node may call another one dead.
//!
//! A database that stalls lets the leases of live nodes run out. The node that is served first afterwards must not reclaim them. It
//! cannot see the stall of a database that still answers reads, as SQLite does while another process writes. So it goes by its own
//! writes: while its heartbeats come late, it reclaims nothing, and for half a lease after that.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lineclear_model::Micros;

use crate::options::NodeOptions;

/// What a node has seen of its database.
pub(crate) struct Caution {
    lease: Duration,
    /// A heartbeat that is not written within this time after the last one is late.
    beat_within: Duration,
    seen: Mutex<Seen>,
}

struct Seen {
    /// Until then the node reclaims no lease.
    quiet_until: Instant,
    /// When its last heartbeat was written.
    beat_at: Instant,
    /// What the database's clock said last, and when.
    clock: Option<(Instant, Micros)>,
}

impl Caution {
    pub(crate) fn new(options: &NodeOptions) -> Caution {
        let now = Instant::now();
        let beat_within = options.heartbeat_interval() + options.lease / 6;
        let seen = Mutex::new(Seen { quiet_until: now, beat_at: now, clock: None });
        Caution { lease: options.lease, beat_within, seen }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// After an outage the leases of all nodes look expired. The node that reconnects first must not reclaim those of the others.
    pub(crate) fn keep_quiet(&self) {
        self.seen().quiet_until = Instant::now() + self.lease / 2;
    }

    /// The database answered so late that leases of live nodes may have run out meanwhile: keeps quiet, too.
    pub(crate) fn note_answer(&self, took: Duration) {
        if took >= self.lease / 6 {
            self.keep_quiet();
        }
    }

    /// A heartbeat was written that was begun at `asked_at`. If it is late, keeps quiet: other nodes could not renew either.
    pub(crate) fn note_beat(&self, asked_at: Instant) {
        self.note_answer(asked_at.elapsed());
        let now = Instant::now();
        let last = std::mem::replace(&mut self.seen().beat_at, now);
        if now - last > self.beat_within {
            self.keep_quiet();
        }
    }

    /// Compares the database's clock with the time that has passed here. After a jump, leases of live nodes look expired, or this
    /// machine slept: keeps quiet, too. Returns the jump.
    pub(crate) fn note_clock(&self, now: Micros) -> Option<Duration> {
        let here = Instant::now();
        let (then, clock) = self.seen().clock.replace((here, now))?;
        let passed = i64::try_from((here - then).as_micros()).unwrap_or(i64::MAX);
        let jump = Duration::from_micros((now.get() - clock.get()).abs_diff(passed));
        if jump < self.lease / 6 {
            return None;
        }
        self.keep_quiet();
        Some(jump)
    }

    /// Whether this node may reclaim leases of others.
    pub(crate) fn may_reclaim(&self) -> bool {
        let (now, seen) = (Instant::now(), self.seen());
        now >= seen.quiet_until && now - seen.beat_at <= self.beat_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caution(lease: Duration) -> Caution {
        Caution::new(&NodeOptions { lease, ..NodeOptions::default() })
    }

    #[test]
    fn a_node_whose_heartbeat_is_late_reclaims_nothing_for_half_a_lease() {
        let caution = caution(Duration::from_millis(600));
        assert!(caution.may_reclaim());
        std::thread::sleep(Duration::from_millis(320));
        assert!(!caution.may_reclaim(), "the heartbeat is late");
        caution.note_beat(Instant::now());
        assert!(!caution.may_reclaim(), "it came late");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !caution.may_reclaim() {
            assert!(Instant::now() < deadline, "it comes in time again");
            std::thread::sleep(Duration::from_millis(10));
            caution.note_beat(Instant::now());
        }
    }

    #[test]
    fn a_heartbeat_that_waited_for_its_answer_is_late_too() {
        let caution = caution(Duration::from_secs(600));
        caution.note_beat(Instant::now());
        assert!(caution.may_reclaim());
        let asked_at = Instant::now().checked_sub(Duration::from_secs(101));
        caution.note_beat(asked_at.expect("the machine runs for longer"));
        assert!(!caution.may_reclaim());
    }

    #[test]
    fn a_clock_that_jumps_is_told_from_one_that_runs() {
        let caution = caution(Duration::from_secs(60));
        let at = |s: i64| Micros::new(1_000_000_000_000 + s * 1_000_000).expect("a time");
        assert_eq!(caution.note_clock(at(0)), None);
        assert_eq!(caution.note_clock(at(1)), None, "a second is little");
        assert!(caution.may_reclaim());
        assert!(caution.note_clock(at(100)).is_some());
        assert!(!caution.may_reclaim());
    }
}
