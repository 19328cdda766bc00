//! A dispatcher's position in the index of a route's waiting jobs.
//!
//! In PostgreSQL, entries of dispatched jobs stay at the front of the index until a vacuum, and a scan from the front reads
//! all of them: after a million jobs it takes three times as long. So a dispatcher that has just taken a full batch continues
//! where that batch ended. A scan from the front, now and then, finds jobs that were inserted before that position (a higher
//! priority, or a job that another node released).

use std::time::{Duration, Instant};

/// The lowest rank there is.
pub(crate) const FRONT: i64 = i64::MIN;
/// Of so many parts of the time, one at most goes into looking at the front.
const PARTS: u32 = 20;
/// A job that goes before others is passed by for no longer than this.
const LONGEST: Duration = Duration::from_secs(1);

/// What a dispatcher remembers of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    rank: i64,
    /// Until then it may begin there.
    until: Instant,
}

impl Cursor {
    /// One who knows nothing begins at the front.
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

    /// A pass took all that it wanted, up to this rank.
    pub(crate) fn reached(&mut self, rank: i64, from: i64, pass: Duration) {
        self.rank = rank;
        if from == FRONT {
            // The longer the way from the front is, the less often it is gone.
            self.until = Instant::now() + (pass * PARTS).min(LONGEST);
        }
    }
}
