//! Ids that a runner passed without a message: their transactions may still commit.
//!
//! A transaction draws an id before it commits, so a higher id can be visible while a lower one is still to come. The runner reads such gaps
//! again with each batch, until all transactions that may hold one of their ids have ended. It does not read again what it has seen, because
//! the rows of delivered messages stay in the index until the database removes them.

use tokio::time::{Duration, Instant};

/// Beyond that many, close ranges become one, and the ids between them are read again, too.
const RANGES_MAX: usize = 256;
/// How long after an id was seen all lower ones are certainly written, or their transactions have ended, for a database that does not tell.
const AGE: Duration = Duration::from_secs(2);

/// Ids from the first to the last.
pub(crate) type IdRange = (i64, i64);

#[derive(Debug)]
pub(crate) struct Gaps {
    /// Every lower id was seen, is in a range, or will never come.
    next: i64,
    /// In order, and apart from each other.
    ranges: Vec<IdRange>,
    /// `next` as it was when.
    aging: (i64, Instant),
    /// `next` as it was at least [`AGE`] ago.
    aged: i64,
}

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps { next: 0, ranges: Vec::new(), aging: (0, Instant::now()), aged: 0 }
    }
}

impl Gaps {
    /// The id after the highest one that was seen.
    pub(crate) fn next(&self) -> i64 {
        self.next
    }

    /// What [`Gaps::next`] was at least two seconds ago.
    pub(crate) fn aged(&mut self) -> i64 {
        let now = Instant::now();
        if now.duration_since(self.aging.1) >= AGE {
            self.aged = self.aging.0;
            self.aging = (self.next, now);
        }
        self.aged
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The gaps below this id.
    pub(crate) fn below(&self, id: i64) -> Vec<IdRange> {
        let below = self.ranges.iter().take_while(|(first, _)| *first < id);
        below.map(|(first, last)| (*first, (*last).min(id - 1))).collect()
    }

    /// Messages were read: all that were visible between the lowest and the highest of them.
    pub(crate) fn see(&mut self, ids: impl Iterator<Item = i64>) {
        for id in ids {
            if id >= self.next {
                if id > self.next {
                    self.ranges.push((self.next, id - 1));
                }
                self.next = id + 1;
                continue;
            }
            let at = self.ranges.partition_point(|(_, last)| *last < id);
            let Some((first, last)) = self.ranges.get(at).copied().filter(|(first, _)| *first <= id) else {
                continue;
            };
            let parts = [(first, id - 1), (id + 1, last)];
            self.ranges.splice(at..=at, parts.into_iter().filter(|(first, last)| first <= last));
        }
        self.join_close_ones();
    }

    /// Up to this id, every message was read, or will never come.
    pub(crate) fn close(&mut self, upto: i64) {
        self.ranges.retain_mut(|(first, last)| {
            *first = (*first).max(upto.saturating_add(1));
            *first <= *last
        });
    }

    fn join_close_ones(&mut self) {
        let Some(excess) = self.ranges.len().checked_sub(RANGES_MAX).filter(|excess| *excess > 0) else {
            return;
        };
        let apart = |pair: &[IdRange]| pair[1].0 - pair[0].1;
        let mut distances: Vec<i64> = self.ranges.windows(2).map(apart).collect();
        distances.sort_unstable();
        let (limit, mut left) = (distances[excess - 1], excess);
        let mut joined: Vec<IdRange> = Vec::with_capacity(RANGES_MAX);
        for range in self.ranges.drain(..) {
            match joined.last_mut() {
                Some(before) if left > 0 && range.0 - before.1 <= limit => {
                    before.1 = range.1;
                    left -= 1;
                }
                _ => joined.push(range),
            }
        }
        self.ranges = joined;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(batches: &[&[i64]]) -> Gaps {
        let mut gaps = Gaps::default();
        gaps.close(0);
        for batch in batches {
            gaps.see(batch.iter().copied());
        }
        gaps
    }

    #[test]
    fn what_is_passed_is_a_gap_until_it_is_seen() {
        let mut gaps = seen(&[&[0, 1, 4, 5, 9]]);
        assert_eq!((gaps.below(100), gaps.next()), (vec![(2, 3), (6, 8)], 10));
        assert_eq!(gaps.below(7), [(2, 3), (6, 6)]);
        gaps.see([2, 7].into_iter());
        assert_eq!(gaps.below(100), [(3, 3), (6, 6), (8, 8)]);
        gaps.see([3, 5, 10].into_iter());
        assert_eq!((gaps.below(100), gaps.next()), (vec![(6, 6), (8, 8)], 11));
    }

    #[test]
    fn gaps_close_from_below() {
        let mut gaps = seen(&[&[0, 4, 9]]);
        gaps.close(2);
        assert_eq!(gaps.below(100), [(3, 3), (5, 8)]);
        gaps.close(8);
        assert!(gaps.is_empty() && gaps.next() == 10);
        gaps.see([12].into_iter());
        assert_eq!(gaps.below(100), [(10, 11)]);
        gaps.close(i64::MAX);
        assert!(gaps.is_empty());
    }

    #[test]
    fn many_gaps_become_fewer_and_lose_no_id() {
        // Every second id is missing, and a wide space stands in the middle.
        let ids = (0..1_000).map(|n| if n < 500 { n * 2 } else { n * 2 + 10_000 });
        let mut gaps = seen(&[]);
        gaps.see(ids.clone());
        let ranges = gaps.below(i64::MAX);
        assert!(ranges.len() <= RANGES_MAX, "{}", ranges.len());
        let missing = |id: i64| ranges.iter().any(|(first, last)| (*first..=*last).contains(&id));
        assert!((1..998).step_by(2).all(missing) && missing(5_000));
        let sorted: Vec<i64> = ranges.iter().flat_map(|(first, last)| [*first, *last]).collect();
        assert!(sorted.is_sorted());
    }
}
