//! How often one caller may send requests.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::Quota;
use governor::clock::{Clock, DefaultClock};

use super::keyed_limiter::KeyedLimiter;

/// The burst: how many seconds' worth of requests may come at once.
const BURST_SECONDS: u32 = 2;

/// A limit of requests per second for each key.
pub(super) struct RateLimit<K: Clone + Eq + Hash, C: Clock = DefaultClock>(Option<KeyedLimiter<K, C>>);

impl<K: Clone + Eq + Hash> RateLimit<K> {
    /// 0: no limit.
    pub(super) fn new(per_second: u32) -> RateLimit<K> {
        RateLimit(quota(per_second).map(KeyedLimiter::new))
    }
}

impl<K: Clone + Eq + Hash, C: Clock + Clone> RateLimit<K, C> {
    /// Counts a request. `Some`: it is one too many; the next one is allowed after this time.
    pub(super) fn check(&self, key: K) -> Option<Duration> {
        self.0.as_ref()?.take_one(key)
    }
}

fn quota(per_second: u32) -> Option<Quota> {
    let per_second = NonZeroU32::new(per_second)?;
    let burst = per_second.saturating_mul(NonZeroU32::new(BURST_SECONDS)?);
    Some(Quota::per_second(per_second).allow_burst(burst))
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::super::keyed_limiter::KEYS_MAX;
    use super::*;

    fn at_rate<K: Clone + Eq + Hash>(
        per_second: u32,
    ) -> (RateLimit<K, FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let limiter = quota(per_second).map(|quota| KeyedLimiter::with_clock(quota, clock.clone()));
        (RateLimit(limiter), clock)
    }

    #[test]
    fn one_caller_is_limited_and_others_are_not() {
        let (limit, clock) = at_rate(10);
        let allowed = || (0..100).filter(|_| limit.check("a").is_none()).count();
        assert_eq!(allowed(), 20, "two seconds' worth at once");
        let wait = limit.check("a").unwrap();
        assert!(wait > Duration::from_millis(90) && wait <= Duration::from_millis(100), "{wait:?}");
        assert_eq!(limit.check("b"), None);
        clock.advance(Duration::from_secs(1));
        assert_eq!(allowed(), 10);
        assert!(limit.check("a").is_some());
        clock.advance(Duration::from_millis(150));
        assert!(limit.check("a").is_none());
    }

    #[test]
    fn a_flood_of_callers_does_not_clear_the_limit_of_one() {
        let (limit, clock) = at_rate::<usize>(10);
        let (attacker, customer) = (usize::MAX, usize::MAX - 1);
        while limit.check(attacker).is_none() {}
        assert_eq!(limit.check(customer), None);
        let flood: Vec<bool> = (0..2 * KEYS_MAX).map(|caller| limit.check(caller).is_none()).collect();
        assert!(limit.check(attacker).is_some(), "the flood does not help the attacker");
        assert_eq!(limit.check(customer), None, "and does not harm a caller that is known");
        let allowed = flood.iter().filter(|allowed| **allowed).count();
        assert_eq!(allowed, KEYS_MAX - 2 + 20, "unknown callers share one bucket");
        clock.advance(Duration::from_secs(1));
        assert_eq!(limit.check(3 * KEYS_MAX), None, "idle buckets make room for new callers");
    }

    #[test]
    fn zero_is_no_limit() {
        let limit = RateLimit::new(0);
        assert!((0..10_000).all(|_| limit.check("a").is_none()));
    }
}
