//! A rate limiter with a bucket for each key, for a bounded number of keys.
//!
//! `governor` does the counting (GCRA). Keys are bounded because callers choose them: when the table is full, unknown keys share one
//! bucket. So a flood of new keys neither clears the bucket of a known one nor passes without a limit.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter};

/// Keys that have their own bucket.
pub(super) const KEYS_MAX: usize = 10_000;
/// How often a full table is searched for buckets that are as good as new.
const CLEAN_EVERY: Duration = Duration::from_millis(100);

/// A request to a bucket.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Cell<K> {
    /// Take one.
    Take(K),
    /// Only look whether there is one.
    Peek(K),
}

struct Table<K> {
    /// The time at which each bucket is full again.
    buckets: HashMap<K, Nanos>,
    /// The bucket that all other keys share.
    shared: Option<Nanos>,
}

/// The buckets. Cheap to clone.
#[derive(Clone)]
struct Buckets<K>(Arc<Mutex<Table<K>>>);

impl<K> Buckets<K> {
    fn table(&self) -> MutexGuard<'_, Table<K>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<K: Clone + Eq + Hash> StateStore for Buckets<K> {
    type Key = Cell<K>;

    fn measure_and_replace<T, F, E>(&self, cell: &Cell<K>, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut table = self.table();
        let key = match cell {
            // A key without a bucket is not limited: others may have emptied the shared one.
            Cell::Peek(key) => return measure(table.buckets.get(key).copied()).map(|(measured, _)| measured),
            Cell::Take(key) => key,
        };
        let own = table.buckets.get(key).copied();
        let is_shared = own.is_none() && table.buckets.len() >= KEYS_MAX;
        let (measured, next) = measure(if is_shared { table.shared } else { own })?;
        if is_shared {
            table.shared = Some(next);
        } else {
            table.buckets.insert(key.clone(), next);
        }
        Ok(measured)
    }
}

impl<K: Clone + Eq + Hash> ShrinkableKeyedStateStore<Cell<K>> for Buckets<K> {
    fn retain_recent(&self, drop_below: Nanos) {
        self.table().buckets.retain(|_, full_at| *full_at > drop_below);
    }

    fn len(&self) -> usize {
        self.table().buckets.len()
    }

    fn is_empty(&self) -> bool {
        self.table().buckets.is_empty()
    }
}

/// A bucket for each key.
pub(super) struct KeyedLimiter<K: Clone + Eq + Hash, C: Clock = DefaultClock> {
    limiter: RateLimiter<Cell<K>, Buckets<K>, C, NoOpMiddleware<C::Instant>>,
    clock: C,
    cleaned: Mutex<C::Instant>,
}

impl<K: Clone + Eq + Hash> KeyedLimiter<K> {
    pub(super) fn new(quota: Quota) -> KeyedLimiter<K> {
        KeyedLimiter::with_clock(quota, DefaultClock::default())
    }
}

impl<K: Clone + Eq + Hash, C: Clock + Clone> KeyedLimiter<K, C> {
    pub(super) fn with_clock(quota: Quota, clock: C) -> KeyedLimiter<K, C> {
        let buckets = Buckets(Arc::new(Mutex::new(Table { buckets: HashMap::new(), shared: None })));
        let cleaned = Mutex::new(clock.now());
        KeyedLimiter { limiter: RateLimiter::new(quota, buckets, clock.clone()), clock, cleaned }
    }

    /// Takes one from the bucket of a key. `Some`: it is empty for so long.
    pub(super) fn take_one(&self, key: K) -> Option<Duration> {
        if self.limiter.len() >= KEYS_MAX {
            self.clean();
        }
        self.wait(Cell::Take(key))
    }

    /// Whether the bucket of a key is empty, and for how long. A key that shares a bucket is never reported.
    pub(super) fn is_empty(&self, key: K) -> Option<Duration> {
        self.wait(Cell::Peek(key))
    }

    fn wait(&self, cell: Cell<K>) -> Option<Duration> {
        let refused = self.limiter.check_key(&cell).err()?;
        Some(refused.wait_time_from(self.clock.now()))
    }

    /// Drops buckets that are full again.
    fn clean(&self) {
        let now = self.clock.now();
        {
            let mut cleaned = self.cleaned.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if now.duration_since(*cleaned) < CLEAN_EVERY.into() {
                return;
            }
            *cleaned = now;
        }
        self.limiter.retain_recent();
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_full_table_grows_no_further_and_still_limits() {
        let (clock, two) = (FakeRelativeClock::default(), NonZeroU32::new(2).unwrap());
        let limiter = KeyedLimiter::with_clock(Quota::per_second(two), clock.clone());
        let passed =
            |keys: std::ops::Range<usize>| keys.filter(|key| limiter.take_one(*key).is_none()).count();
        assert_eq!(passed(0..KEYS_MAX), KEYS_MAX);
        for round in 1..4 {
            let flood = round * KEYS_MAX..(round + 1) * KEYS_MAX;
            assert!(passed(flood) <= 2, "keys without a bucket share one: round {round}");
            assert_eq!(limiter.limiter.len(), KEYS_MAX, "memory is bounded");
        }
        assert_eq!(
            (limiter.take_one(7), limiter.take_one(7).is_some()),
            (None, true),
            "known keys keep theirs"
        );
        clock.advance(Duration::from_secs(2));
        assert_eq!(limiter.take_one(usize::MAX), None, "idle buckets make room");
        assert!(limiter.limiter.len() < KEYS_MAX);
    }
}
