//! Addresses that present too many wrong tokens are refused for a while, before the database is asked.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::Quota;
use governor::clock::{Clock, DefaultClock};

use super::address_key;
use super::keyed_limiter::KeyedLimiter;

/// Wrong tokens that one address may present at once.
const FAILURES_MAX: NonZeroU32 = NonZeroU32::new(10).expect("not zero");
/// The time after which it may present one more.
const FORGIVEN_AFTER: Duration = Duration::from_secs(6);

/// Wrong tokens of each address.
pub(super) struct Lockout<C: Clock = DefaultClock>(KeyedLimiter<IpAddr, C>);

impl Lockout {
    pub(super) fn new() -> Lockout {
        Lockout::with_clock(DefaultClock::default())
    }
}

impl<C: Clock + Clone> Lockout<C> {
    fn with_clock(clock: C) -> Lockout<C> {
        let quota = Quota::with_period(FORGIVEN_AFTER).expect("not zero").allow_burst(FAILURES_MAX);
        Lockout(KeyedLimiter::with_clock(quota, clock))
    }

    /// Counts a wrong token. `Some`: it is one too many; the address is locked out for so long.
    pub(super) fn record_failure(&self, address: IpAddr) -> Option<Duration> {
        self.0.take_one(address_key(address))
    }

    /// Whether the address is locked out, and for how long. Failures of other addresses never lock out one without failures of its
    /// own, not even when there are more addresses than are counted: its token may be right.
    pub(super) fn locked_for(&self, address: IpAddr) -> Option<Duration> {
        self.0.is_empty(address_key(address))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use governor::clock::FakeRelativeClock;

    use super::super::keyed_limiter::KEYS_MAX;
    use super::*;

    #[test]
    fn ten_failures_are_allowed_and_more_are_refused() {
        let clock = FakeRelativeClock::default();
        let lockout = Lockout::with_clock(clock.clone());
        let (one, same, other) = ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1");
        let [one, same, other] = [one, same, other].map(|text| text.parse::<IpAddr>().unwrap());
        for _ in 0..FAILURES_MAX.get() {
            assert_eq!(lockout.locked_for(one), None);
            assert_eq!(lockout.record_failure(one), None);
        }
        assert!(lockout.locked_for(same).is_some_and(|left| left <= FORGIVEN_AFTER), "the same network");
        assert!(lockout.record_failure(one).is_some());
        assert_eq!((lockout.locked_for(other), lockout.record_failure(other)), (None, None));
        clock.advance(FORGIVEN_AFTER);
        assert_eq!((lockout.locked_for(one), lockout.record_failure(one)), (None, None), "one more");
        assert!(lockout.locked_for(one).is_some());
    }

    #[test]
    fn a_flood_of_addresses_neither_frees_an_attacker_nor_locks_out_others() {
        let lockout = Lockout::with_clock(FakeRelativeClock::default());
        let address = |n: usize| IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(n).unwrap()));
        let (attacker, customer) = (address(4_000_000_000), address(4_000_000_001));
        while lockout.record_failure(attacker).is_none() {}
        let flood: Vec<bool> =
            (0..2 * KEYS_MAX).map(|n| lockout.record_failure(address(n)).is_none()).collect();
        assert!(lockout.locked_for(attacker).is_some(), "the flood does not help the attacker");
        assert_eq!(lockout.locked_for(customer), None, "and does not lock out an address without failures");
        let answered = flood.iter().filter(|answered| **answered).count();
        assert_eq!(answered, KEYS_MAX - 1 + 10, "addresses that are not counted share ten failures");
    }
}
