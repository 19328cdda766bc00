//! Who shows a wrong token again and again is not listened to for a while.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Wrong tokens of one address in a window.
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 10_000;

/// Addresses, how often they failed, and since when that is counted.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<IpAddr, (u32, Instant)>>);

impl Failures {
    fn all(&self) -> MutexGuard<'_, HashMap<IpAddr, (u32, Instant)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// One more. `Some`: it was one too many; how long it lasts.
    pub(super) fn note(&self, address: IpAddr) -> Option<Duration> {
        let (now, mut all) = (Instant::now(), self.all());
        if all.len() >= ADDRESSES_MAX {
            all.retain(|_, (_, since)| now.duration_since(*since) < WINDOW);
        }
        if all.len() >= ADDRESSES_MAX {
            // From so many places at once that counting each is no help; what they guess at is 256 bits long.
            all.clear();
        }
        let (count, since) = all.entry(as_one(address)).or_insert((0, now));
        if now.duration_since(*since) >= WINDOW {
            (*count, *since) = (0, now);
        }
        *count = count.saturating_add(1);
        (*count > FAILURES_MAX).then(|| WINDOW.saturating_sub(now.duration_since(*since)))
    }

    /// Whether the address has failed too often; how long that lasts.
    pub(super) fn too_many(&self, address: IpAddr) -> Option<Duration> {
        let (count, since) = *self.all().get(&as_one(address))?;
        let left = WINDOW.saturating_sub(since.elapsed());
        (count >= FAILURES_MAX && !left.is_zero()).then_some(left)
    }
}

/// Addresses that are one machine's: it has a whole network of IPv6 addresses to itself.
pub(crate) fn as_one(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_failures_are_answered_and_more_are_not() {
        let failures = Failures::default();
        let (one, same, other) = ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1");
        let [one, same, other] = [one, same, other].map(|text| text.parse::<IpAddr>().unwrap());
        for _ in 0..FAILURES_MAX {
            assert_eq!(failures.too_many(one), None);
            assert_eq!(failures.note(one), None);
        }
        assert!(failures.too_many(same).is_some_and(|left| left <= WINDOW), "the same network");
        assert!(failures.note(one).is_some());
        assert_eq!((failures.too_many(other), failures.note(other)), (None, None));
    }
}
