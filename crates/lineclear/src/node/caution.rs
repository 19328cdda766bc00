//! When a node may call another one dead.
//!
//! A database that stalls lets the leases of live nodes run out. The node that is served first afterwards must not reclaim them. It
//! cannot see the stall of a database that still answers reads, as SQLite does while another process writes. So it goes by its own
//! writes: while its heartbeats come late, it reclaims nothing, and for half a lease after that.
//!
//! A database that is slow for hours would keep all nodes from ever reclaiming a job of a dead one. So after ten leases in which the
//! database answered late and did not fail, a node reclaims what ended three leases ago: a live node has renewed its leases since,
//! or has given up their jobs itself. Only failures of what takes, renews and reports count: planning fails for as long as an
//! application locks a table that only planning needs, and no lease runs out because of that.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lineclear_model::Micros;

use crate::options::NodeOptions;
use crate::store::StoreError;

/// Leases for which a node is cautious without a failure, before it reclaims old ones nevertheless.
const CAUTIOUS_MAX: u32 = 10;
/// How old those must be, in leases.
const SURELY_OVER: u32 = 3;

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
    /// Since when it has kept quiet without a failure in between.
    cautious_since: Option<Instant>,
    /// When its last heartbeat was written.
    beat_at: Instant,
    /// What the database's clock said last, and between which moments.
    clock: Option<([Instant; 2], Micros)>,
}

impl Caution {
    pub(crate) fn new(options: &NodeOptions) -> Caution {
        let now = Instant::now();
        let beat_within = options.heartbeat_interval() + options.lease / 6;
        let seen = Mutex::new(Seen { quiet_until: now, cautious_since: None, beat_at: now, clock: None });
        Caution { lease: options.lease, beat_within, seen }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// After an outage the leases of all nodes look expired. The node that reconnects first must not reclaim those of the others.
    pub(crate) fn keep_quiet(&self) {
        let now = Instant::now();
        let mut seen = self.seen();
        (seen.quiet_until, seen.cautious_since) = (now + self.lease / 2, Some(now));
    }

    /// A pass failed: keeps quiet if leases of other nodes may have run out for the same reason.
    pub(crate) fn note_failure(&self, error: &StoreError) {
        if error.may_stop_renewals() {
            self.keep_quiet();
        }
    }

    /// A pass of a loop failed that no lease depends on. Keeps quiet only if the last heartbeat is late as well.
    pub(crate) fn note_other_failure(&self, error: &StoreError) {
        let is_late = self.seen().beat_at.elapsed() > self.beat_within;
        if is_late {
            self.note_failure(error);
        }
    }

    /// The database answered so late that leases of live nodes may have run out meanwhile: keeps quiet, too. After a whole lease without
    /// an answer, as after a failure: nothing was renewed.
    pub(crate) fn note_answer(&self, took: Duration) {
        if took >= self.lease {
            self.keep_quiet();
        } else if took >= self.lease / 6 {
            self.note_lateness();
        }
    }

    /// Something came too late, and nothing failed.
    pub(crate) fn note_lateness(&self) {
        let now = Instant::now();
        let mut seen = self.seen();
        // A node that was not quiet any more begins anew.
        if now >= seen.quiet_until {
            seen.cautious_since = None;
        }
        seen.quiet_until = now + self.lease / 2;
        seen.cautious_since.get_or_insert(now);
    }

    /// A heartbeat was written that was begun at `asked_at`. If it is late, keeps quiet: other nodes could not renew either.
    pub(crate) fn note_beat(&self, asked_at: Instant) {
        self.note_answer(asked_at.elapsed());
        let now = Instant::now();
        let last = std::mem::replace(&mut self.seen().beat_at, now);
        if now - last > self.beat_within {
            self.note_lateness();
        }
    }

    /// Compares the database's clock, which was asked for at `asked_at`, with the time that has passed here. After a jump, leases of live
    /// nodes look expired, or this machine slept: keeps quiet, too. Returns the jump. An answer that came late does not tell when the
    /// clock was read, so that it is no jump.
    pub(crate) fn note_clock(&self, asked_at: Instant, now: Micros) -> Option<Duration> {
        let here = [asked_at, Instant::now()];
        let (then, clock) = self.seen().clock.replace((here, now))?;
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        // Below zero if two loops asked at one time, and the first to ask is the last to hear.
        let least = micros(here[0].saturating_duration_since(then[1]))
            - micros(then[1].saturating_duration_since(here[0]));
        let most = micros(here[1].saturating_duration_since(then[0])).max(least);
        let passed = now.get() - clock.get();
        let jump = Duration::from_micros(passed.abs_diff(passed.clamp(least, most)));
        if jump < self.lease / 6 {
            return None;
        }
        self.keep_quiet();
        Some(jump)
    }

    /// What the database's clock says now, as far as this node knows: its last answer, and the time that has passed here since.
    pub(crate) fn database_clock(&self) -> Option<Micros> {
        let ([_, then], clock) = self.seen().clock?;
        Some(clock.offset(i64::try_from(then.elapsed().as_micros()).unwrap_or(i64::MAX)))
    }

    /// Which leases of others this node may reclaim: those that ended so long ago. `None`: none of them.
    pub(crate) fn may_reclaim_after(&self) -> Option<Duration> {
        let (now, seen) = (Instant::now(), self.seen());
        if now - seen.beat_at > self.beat_within {
            return None;
        }
        if now >= seen.quiet_until {
            return Some(Duration::ZERO);
        }
        let is_long = seen.cautious_since.is_some_and(|since| now - since >= self.lease * CAUTIOUS_MAX);
        is_long.then_some(self.lease * SURELY_OVER)
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
        assert!(caution.may_reclaim_after() == Some(Duration::ZERO));
        std::thread::sleep(Duration::from_millis(320));
        assert!(caution.may_reclaim_after().is_none(), "the heartbeat is late");
        caution.note_beat(Instant::now());
        assert!(caution.may_reclaim_after().is_none(), "it came late");
        let deadline = Instant::now() + Duration::from_secs(20);
        while caution.may_reclaim_after().is_none() {
            assert!(Instant::now() < deadline, "it comes in time again");
            std::thread::sleep(Duration::from_millis(10));
            caution.note_beat(Instant::now());
        }
    }

    #[test]
    fn a_heartbeat_that_waited_for_its_answer_is_late_too() {
        let caution = caution(Duration::from_secs(600));
        caution.note_beat(Instant::now());
        assert!(caution.may_reclaim_after() == Some(Duration::ZERO));
        let asked_at = Instant::now().checked_sub(Duration::from_secs(101));
        caution.note_beat(asked_at.expect("the machine runs for longer"));
        assert!(caution.may_reclaim_after().is_none());
    }

    #[test]
    fn a_clock_that_jumps_is_told_from_one_that_runs() {
        let caution = caution(Duration::from_secs(60));
        let at = |s: i64| Micros::new(1_000_000_000_000 + s * 1_000_000).expect("a time");
        assert_eq!(caution.note_clock(Instant::now(), at(0)), None);
        assert_eq!(caution.note_clock(Instant::now(), at(1)), None, "a second is little");
        assert!(caution.may_reclaim_after() == Some(Duration::ZERO));
        assert!(caution.note_clock(Instant::now(), at(100)).is_some());
        assert!(caution.may_reclaim_after().is_none());
    }

    #[test]
    fn an_answer_that_comes_late_is_no_jump_of_the_clock() {
        let caution = caution(Duration::from_secs(6));
        let at = |s: i64| Micros::new(1_000_000_000_000 + s * 1_000_000).expect("a time");
        let asked = Instant::now().checked_sub(Duration::from_secs(5)).expect("the machine runs for longer");
        assert_eq!(caution.note_clock(asked, at(0)), None);
        assert_eq!(
            caution.note_clock(Instant::now(), at(4)),
            None,
            "the clock was read when it was asked for"
        );
        assert!(caution.note_clock(Instant::now(), at(8)).is_some(), "this answer came at once");
        caution.note_clock(Instant::now(), at(8));
        assert_eq!(caution.note_clock(asked, at(4)), None, "it was asked for before, and heard of after");
    }

    #[test]
    fn a_loop_that_no_lease_depends_on_keeps_a_node_quiet_only_while_its_heartbeat_is_late() {
        let held = StoreError::Locked { source: "lock timeout".into() };
        let in_time = caution(Duration::from_secs(600));
        in_time.note_other_failure(&held);
        assert!(in_time.may_reclaim_after().is_some(), "its own leases are renewed");
        let late = caution(Duration::from_millis(300));
        std::thread::sleep(Duration::from_millis(160));
        let before = Instant::now();
        late.note_other_failure(&held);
        assert!(late.seen().quiet_until > before, "nothing answered");
    }

    #[test]
    fn a_node_whose_database_is_slow_for_long_reclaims_what_ended_long_ago() {
        let lease = Duration::from_millis(120);
        let caution = caution(lease);
        let (began, late) = (Instant::now(), lease / 2);
        let old = loop {
            caution.note_beat(Instant::now());
            caution.note_answer(late);
            if let Some(old) = caution.may_reclaim_after() {
                break old;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it waits for ever");
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(began.elapsed() >= lease * CAUTIOUS_MAX, "{:?}", began.elapsed());
        assert_eq!(old, lease * SURELY_OVER);
        caution.note_answer(lease);
        caution.note_beat(Instant::now());
        assert_eq!(caution.may_reclaim_after(), None, "after a lease without an answer the time begins anew");
    }

    #[test]
    fn only_an_error_that_may_stop_renewals_keeps_a_node_quiet() {
        let caution = caution(Duration::from_secs(60));
        let held = || StoreError::Locked { source: "lock timeout".into() };
        for harmless in [held().at_the_gate(), StoreError::refused("rule", "a bad row")] {
            caution.note_failure(&harmless);
            assert!(caution.may_reclaim_after().is_some(), "{harmless}");
        }
        caution.note_failure(&held());
        assert!(caution.may_reclaim_after().is_none(), "a table may be locked");
    }
}
