//! What a dispatcher remembers of a route between two dispatches, so that it does not read again what has not changed.
//!
//! Its position in the index of waiting jobs: in PostgreSQL, entries of dispatched jobs stay at the front of the index until a vacuum, and
//! a scan from the front reads all of them: after a million jobs it takes three times as long. So a dispatcher that has just taken a
//! full batch continues where that batch ended. A scan from the front, now and then, finds jobs that were inserted before that
//! position (a higher priority, or a job that another node released).
//!
//! The gated groups that have room: reading all groups whose jobs wait takes long if very many of them are full. So a dispatcher that
//! has found many looks only at those that had room, and at those of which this process has settled a job since, and reads all of
//! them again now and then. This decides only where to look: limits are counted under the locks of the groups.

use std::time::{Duration, Instant};

/// The lowest rank there is.
pub(crate) const FRONT: i64 = i64::MIN;
/// At most one part in this many of a dispatcher's time goes into scans from the front.
const PARTS: u32 = 20;
/// The longest time without a scan from the front, and without reading all groups.
const LONGEST: Duration = Duration::from_secs(1);
/// So few waiting groups are read with every dispatch.
const FEW_GROUPS: u32 = 32;
/// About what it takes to read a group.
const GROUP_COST: Duration = Duration::from_micros(10);
/// Groups that a cursor keeps: as many as one dispatch can fill.
pub(crate) const GROUPS_MAX: usize = 100;

/// What a dispatcher remembers of one route.
#[derive(Clone, Debug)]
pub struct Cursor {
    rank: i64,
    /// Until then a scan may begin there.
    until: Instant,
    /// Gated groups that may have room.
    groups: Vec<i64>,
    /// Until then only these are looked at.
    groups_until: Instant,
}

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor::unknown()
    }
}

impl Cursor {
    /// A new cursor, which remembers nothing.
    pub fn unknown() -> Cursor {
        let now = Instant::now();
        Cursor { rank: FRONT, until: now, groups: Vec::new(), groups_until: now }
    }

    /// The rank to begin at.
    pub(crate) fn start(&self) -> i64 {
        if Instant::now() < self.until { self.rank } else { FRONT }
    }

    #[cfg(test)]
    pub(crate) fn rank(&self) -> i64 {
        self.rank
    }

    /// A pass got as many jobs as it wanted, up to this rank.
    pub(crate) fn reached(&mut self, rank: i64, from: i64, pass: Duration) {
        self.rank = rank;
        if from == FRONT {
            // The longer a scan from the front takes, the rarer it is.
            self.until = Instant::now() + (pass * PARTS).min(LONGEST);
        }
    }

    /// The next scan begins at the front.
    pub(crate) fn restart(&mut self) {
        self.until = Instant::now();
    }

    /// The gated groups to look at; `None`: all of them.
    pub(crate) fn groups(&self) -> Option<Vec<i64>> {
        self.groups_due_in().map(|_| self.groups.clone())
    }

    /// How long until all groups are read again; `None`: with the next dispatch.
    pub(crate) fn groups_due_in(&self) -> Option<Duration> {
        self.groups_until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// All groups whose jobs wait were read: how many there are, and those that have room.
    pub(crate) fn read_groups(&mut self, waiting: u32, with_room: Vec<i64>) {
        let all = with_room.len() < GROUPS_MAX;
        // The more there are, the rarer they are all read.
        let pause = if waiting > FEW_GROUPS && all { GROUP_COST * PARTS * waiting } else { Duration::ZERO };
        self.groups_until = Instant::now() + pause.min(LONGEST);
        self.groups = with_room;
    }

    /// Keeps the groups for as long as a test takes.
    #[cfg(test)]
    pub(crate) fn keep_groups(&mut self) {
        self.groups_until = Instant::now() + Duration::from_secs(3600);
    }

    /// These groups may have room now.
    pub(crate) fn may_have_room(&mut self, groups: &[i64]) {
        for group in groups {
            if !self.groups.contains(group) {
                self.groups.push(*group);
            }
        }
        if self.groups.len() > GROUPS_MAX {
            self.groups_until = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_groups_are_read_every_time_and_many_now_and_then() {
        let mut cursor = Cursor::unknown();
        assert_eq!(cursor.groups(), None);
        cursor.read_groups(FEW_GROUPS, vec![7]);
        assert_eq!(cursor.groups(), None);
        cursor.read_groups(100_000, vec![7]);
        assert_eq!(cursor.groups(), Some(vec![7]));
        assert!(cursor.groups_due_in().is_some_and(|left| left <= LONGEST));
    }

    #[test]
    fn a_group_that_may_have_room_is_looked_at() {
        let mut cursor = Cursor::unknown();
        cursor.read_groups(100_000, vec![7]);
        cursor.may_have_room(&[8, 7]);
        assert_eq!(cursor.groups(), Some(vec![7, 8]));
        cursor.may_have_room(&(0..200).collect::<Vec<_>>());
        assert_eq!(cursor.groups(), None, "too many to remember: all are read");
    }

    #[test]
    fn groups_that_were_not_all_kept_are_read_again() {
        let mut cursor = Cursor::unknown();
        cursor.read_groups(100_000, (0..100).collect());
        assert_eq!(cursor.groups(), None);
    }
}
