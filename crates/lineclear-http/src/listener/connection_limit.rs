//! Limits concurrent connections, in total and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use super::ListenerLimits;
use crate::auth::{Network, address_key};

/// The limit of connections.
pub(super) struct ConnectionLimit(Arc<Inner>);

struct Inner {
    max: usize,
    max_per_address: usize,
    proxies: Vec<Network>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A permit for one connection, until it is dropped.
pub(super) struct ConnectionPermit {
    connections: Arc<Inner>,
    address: IpAddr,
}

impl ConnectionLimit {
    pub(super) fn new(limits: &ListenerLimits, proxies: Vec<Network>) -> ConnectionLimit {
        let (max, max_per_address) = (limits.connections, limits.connections_per_address);
        ConnectionLimit(Arc::new(Inner { max, max_per_address, proxies, counts: Mutex::default() }))
    }

    /// A permit for one more connection of this address, if there is one.
    pub(super) fn acquire(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let address = address_key(address);
        let max = if self.0.is_shared(address) { usize::MAX } else { self.0.max_per_address };
        let mut counts = self.0.counts();
        if counts.all >= self.0.max || counts.by_address.get(&address).is_some_and(|&count| count >= max) {
            return None;
        }
        counts.all += 1;
        *counts.by_address.entry(address).or_default() += 1;
        Some(ConnectionPermit { connections: self.0.clone(), address })
    }
}

impl Inner {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether many clients may share the address: programs of this machine, or users of a proxy.
    fn is_shared(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.proxies.iter().any(|network| network.contains(address))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.connections.counts();
        counts.all = counts.all.saturating_sub(1);
        if let Some(count) = counts.by_address.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_use_all_connections_and_a_closed_one_is_free_again() {
        let limits =
            ListenerLimits { connections: 8, connections_per_address: 2, ..ListenerLimits::default() };
        let connections = ConnectionLimit::new(&limits, vec!["10.0.0.0/8".parse().unwrap()]);
        let take = |address: &str| connections.acquire(address.parse().unwrap());
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
        assert!(
            connections.0.counts().by_address.is_empty() && connections.0.counts().all == 0,
            "nothing is left over"
        );
    }
}
