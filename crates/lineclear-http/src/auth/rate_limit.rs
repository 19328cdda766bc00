//! How often somebody may ask.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Askers that are remembered.
const REMEMBERED_MAX: usize = 10_000;
/// So many seconds' worth may come at once.
const BURST: f64 = 2.0;

/// Requests of each asker: a bucket that fills by and by, and that each request takes one from.
pub(super) struct Rates<K> {
    per_second: f64,
    buckets: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K: Eq + Hash> Rates<K> {
    /// 0: any number.
    pub(super) fn new(per_second: u32) -> Rates<K> {
        Rates { per_second: f64::from(per_second), buckets: Mutex::default() }
    }

    /// One more. `Some`: it was too many; after this time there is room for one.
    pub(super) fn take(&self, asker: K) -> Option<Duration> {
        self.take_at(asker, Instant::now())
    }

    fn take_at(&self, asker: K, now: Instant) -> Option<Duration> {
        if self.per_second == 0.0 {
            return None;
        }
        let full = self.per_second * BURST;
        let filled = |(left, at): (f64, Instant)| {
            (left + now.saturating_duration_since(at).as_secs_f64() * self.per_second).min(full)
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if buckets.len() >= REMEMBERED_MAX {
            // A full bucket is as good as none.
            buckets.retain(|_, bucket| filled(*bucket) < full);
        }
        if buckets.len() >= REMEMBERED_MAX {
            buckets.clear();
        }
        let bucket = buckets.entry(asker).or_insert((full, now));
        let left = filled(*bucket);
        if left < 1.0 {
            *bucket = (left, now);
            return Some(Duration::from_secs_f64((1.0 - left) / self.per_second));
        }
        *bucket = (left - 1.0, now);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_too_often_waits_and_others_do_not() {
        let rates = Rates::new(10);
        let now = Instant::now();
        let later = |ms| now + Duration::from_millis(ms);
        let taken = (0..100).filter(|_| rates.take_at("a", now).is_none()).count();
        assert_eq!(taken, 20, "two seconds' worth at once");
        let wait = rates.take_at("a", now).unwrap();
        assert!(wait > Duration::from_millis(90) && wait <= Duration::from_millis(100), "{wait:?}");
        assert_eq!(rates.take_at("b", now), None);
        let taken = (0..100).filter(|_| rates.take_at("a", later(1000)).is_none()).count();
        assert_eq!(taken, 10);
        assert!(rates.take_at("a", later(1000)).is_some() && rates.take_at("a", later(1150)).is_none());
    }

    #[test]
    fn zero_is_no_limit() {
        let rates = Rates::new(0);
        assert!((0..10_000).all(|_| rates.take("a").is_none()));
    }
}
