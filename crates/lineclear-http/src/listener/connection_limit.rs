//! How many connections there are, in all and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Limits;
use crate::access::{Network, as_one};

/// Places for connections.
pub(super) struct Seats(Arc<Inner>);

struct Inner {
    most: usize,
    most_per_address: usize,
    proxies: Vec<Network>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A place, until it is dropped.
pub(super) struct Seat {
    seats: Arc<Inner>,
    address: IpAddr,
}

impl Seats {
    pub(super) fn new(limits: &Limits, proxies: Vec<Network>) -> Seats {
        let (most, most_per_address) = (limits.connections, limits.connections_per_address);
        Seats(Arc::new(Inner { most, most_per_address, proxies, taken: Mutex::default() }))
    }

    /// A place for one more connection of this address, if there is one.
    pub(super) fn take(&self, address: IpAddr) -> Option<Seat> {
        let address = as_one(address);
        let most = if self.0.is_many(address) { usize::MAX } else { self.0.most_per_address };
        let mut taken = self.0.taken();
        if taken.all >= self.0.most || taken.by_address.get(&address).is_some_and(|&count| count >= most) {
            return None;
        }
        taken.all += 1;
        *taken.by_address.entry(address).or_default() += 1;
        Some(Seat { seats: self.0.clone(), address })
    }
}

impl Inner {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Many clients may be behind it: programs of this machine, or users of a proxy.
    fn is_many(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.proxies.iter().any(|network| network.contains(address))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.all = taken.all.saturating_sub(1);
        if let Some(count) = taken.by_address.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all_places_and_a_place_that_is_left_is_free() {
        let limits = Limits { connections: 8, connections_per_address: 2, ..Limits::default() };
        let seats = Seats::new(&limits, vec!["10.0.0.0/8".parse().unwrap()]);
        let take = |address: &str| seats.take(address.parse().unwrap());
        let (one, two) = (take("192.0.2.1"), take("192.0.2.1"));
        assert!(one.is_some() && two.is_some() && take("192.0.2.1").is_none());
        assert!(take("192.0.2.2").is_some(), "another address");
        drop(one);
        let again = take("192.0.2.1");
        assert!(again.is_some());
        let many: Vec<_> = (0..6).map(|_| take("127.0.0.1")).collect();
        assert!(many.iter().all(Option::is_some), "this machine may take all that are left");
        assert!(take("127.0.0.1").is_none() && take("192.0.2.3").is_none(), "and then it is full");
        drop(many);
        let many: Vec<_> = (0..6).map(|_| take("10.1.2.3")).collect();
        assert!(many.iter().all(Option::is_some), "so may a proxy");
        drop((two, again, many));
        assert!(seats.0.taken().by_address.is_empty() && seats.0.taken().all == 0, "nothing is left over");
    }
}
