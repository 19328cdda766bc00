//! A dispatcher's position in the index of a route's waiting jobs.
//!
//! In PostgreSQL, entries of dispatched jobs stay at the front of the index until a vacuum, and a scan from the front reads
//! all of them: after a million jobs it takes three times as long. So a dispatcher that has just taken a full batch continues
//! where that batch ended. A scan from the front, now and then, finds jobs that were inserted before that position (a higher
//! priority, or a job that another node released).

use std::time::{Duration, Instant};

/// The lowest rank there is.
pub(crate) const FRONT: i64 = i64::MIN;
/// At most one part in this many of a dispatcher's time goes into scans from the front.
const PARTS: u32 = 20;
/// The longest time without a scan from the front.
const LONGEST: Duration = Duration::from_secs(1);

/// A dispatcher's position in one route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    rank: i64,
    /// Until then a scan may begin there.
    until: Instant,
}

impl Cursor {
    /// A new cursor, at the front.
    pub(crate) fn unknown() -> Cursor {
        Cursor { rank: FRONT, until: Instant::now() }
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
}
