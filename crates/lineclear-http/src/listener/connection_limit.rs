//! Limits concurrent connections, in total and of one address.
//!
//! A client that only connects costs an attacker nothing, so such a connection does not keep a seat: when there is no other, the oldest
//! connection without a whole request is closed for a new one, and after those the connection that is idle for longest. When requests use
//! all seats, a few further ones answer probes, and tell other clients to come back.
//!
//! A request that waits for work leaves its seat meanwhile: ten thousand idle workers must not keep a person from the dashboard.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lineclear::log_fold::LogFold;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::{LOG_EVERY, ListenerLimits};
use crate::auth::{TrustedProxies, address_key};

/// Seats beyond the limit, in which only probes are answered.
const PROBE_SEATS: usize = 128;
/// A connection between two requests keeps its seat for this time: its client may be about to send the next one.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// Connections that were closed to make room.
const CLOSED: &str = "lineclear_connections_closed_total";
/// Connections that got no seat.
const REFUSED: &str = "lineclear_connections_refused_total";

/// The limit of connections.
pub(super) struct ConnectionLimit(Arc<Inner>);

struct Inner {
    max: usize,
    max_per_address: usize,
    max_waiting: usize,
    proxies: TrustedProxies,
    counts: Mutex<Counts>,
    log: Arc<LogFold<()>>,
}

#[derive(Default)]
struct Counts {
    /// By number: the oldest connection comes first.
    seats: BTreeMap<u64, Seat>,
    probe_seats: BTreeMap<u64, Seat>,
    /// Connections whose request waits for work.
    waiting: BTreeMap<u64, Seat>,
    by_address: HashMap<IpAddr, usize>,
    next: u64,
}

struct Seat {
    address: IpAddr,
    activity: Arc<Activity>,
}

/// A permit for one connection, until it is dropped.
pub(super) struct ConnectionPermit {
    connections: Arc<Inner>,
    number: u64,
    /// All other seats are in use: only probes are answered.
    pub(super) for_probes: bool,
}

impl ConnectionLimit {
    pub(super) fn new(limits: &ListenerLimits, proxies: TrustedProxies) -> ConnectionLimit {
        metrics::describe_counter!(CLOSED, "connections that were closed to make room for others, by state");
        metrics::describe_counter!(REFUSED, "connections that were refused because of a limit, by limit");
        let (max, max_per_address) = (limits.connections, limits.connections_per_address);
        let log = Arc::new(LogFold::new(LOG_EVERY));
        let (max_waiting, counts) = (limits.polls, Mutex::default());
        ConnectionLimit(Arc::new(Inner { max, max_per_address, max_waiting, proxies, counts, log }))
    }

    /// Tells of log lines that were left out until the listener ends.
    pub(super) fn sweep_until(&self, ended: CancellationToken) {
        self.0.log.sweep_until(ended, |(), left_out| {
            tracing::warn!(left_out, "the limit of connections is reached: lines left out");
        });
    }

    /// A permit for one more connection of this address, if there is one.
    pub(super) fn acquire(&self, address: IpAddr, activity: &Arc<Activity>) -> Option<ConnectionPermit> {
        let (inner, address) = (&self.0, address_key(address));
        let mut counts = inner.counts();
        let own = counts.by_address.get(&address).copied().unwrap_or(0);
        if own >= inner.max_per_address && !inner.is_shared(address) {
            inner.warn("one address has all connections that it may have", Some(address));
            if !counts.make_room(Some(address), false) {
                metrics::counter!(REFUSED, "limit" => "connections_per_address").increment(1);
                return None;
            }
        }
        let mut for_probes = false;
        if counts.seats.len() >= inner.max {
            for_probes = !counts.make_room(None, false);
            let what = match for_probes {
                true => "all have a request; only probes are answered",
                false => "those without a request are closed to make room",
            };
            inner.warn(what, None);
        }
        if for_probes {
            metrics::counter!(REFUSED, "limit" => "connections").increment(1);
            if counts.probe_seats.len() >= PROBE_SEATS && !counts.make_room(None, true) {
                return None;
            }
        }
        let number = counts.insert(address, activity.clone(), for_probes);
        Some(ConnectionPermit { connections: inner.clone(), number, for_probes })
    }

    /// Closes one connection without a request, or one that waits for work: the process has too many open files.
    pub(super) fn make_room(&self) -> bool {
        let mut counts = self.0.counts();
        counts.make_room(None, false) || counts.close_waiting()
    }
}

impl Inner {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether many clients may share the address: programs of this machine, or users of a proxy.
    fn is_shared(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.proxies.contains(address)
    }

    fn warn(&self, what: &'static str, address: Option<IpAddr>) {
        let address = address.map(tracing::field::display);
        if let Some(left_out) = self.log.note(&()) {
            tracing::warn!(max = self.max, address, left_out, "the limit of connections is reached: {what}");
        }
    }
}

impl Counts {
    fn insert(&mut self, address: IpAddr, activity: Arc<Activity>, for_probes: bool) -> u64 {
        self.next += 1;
        *self.by_address.entry(address).or_default() += 1;
        let seats = if for_probes { &mut self.probe_seats } else { &mut self.seats };
        seats.insert(self.next, Seat { address, activity });
        self.next
    }

    /// Frees a seat. Does nothing if it was freed before.
    fn remove(&mut self, number: u64) -> Option<Seat> {
        if let Some(seat) = self.waiting.remove(&number) {
            return Some(seat);
        }
        let seat = self.seats.remove(&number).or_else(|| self.probe_seats.remove(&number))?;
        if let Some(count) = self.by_address.get_mut(&seat.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_address.remove(&seat.address);
            }
        }
        Some(seat)
    }

    /// Closes the oldest connection that waits. Its client asks again.
    fn close_waiting(&mut self) -> bool {
        let Some((_, seat)) = self.waiting.pop_first() else { return false };
        metrics::counter!(CLOSED, "reason" => "waiting").increment(1);
        seat.activity.close();
        true
    }

    /// Closes a connection without a request, of one address or of any.
    fn make_room(&mut self, address: Option<IpAddr>, for_probes: bool) -> bool {
        let seats = if for_probes { &self.probe_seats } else { &self.seats };
        let candidates = || seats.iter().filter(|(_, seat)| address.is_none_or(|of| seat.address == of));
        // A request may begin meanwhile: then the connection stays, and the next one is tried.
        let silent = candidates().find(|(_, seat)| seat.activity.is_silent() && seat.activity.try_close());
        let idle = || {
            let times =
                candidates().filter_map(|(number, seat)| Some((seat.activity.idle_for()?, number, seat)));
            let mut idle: Vec<_> = times.filter(|(time, ..)| *time >= IDLE_MIN).collect();
            idle.sort_unstable_by_key(|(time, ..)| std::cmp::Reverse(*time));
            idle.into_iter().find(|(.., seat)| seat.activity.try_close()).map(|(_, number, _)| *number)
        };
        let (number, state) = match silent {
            Some((number, _)) => (*number, "silent"),
            None => match idle() {
                Some(number) => (number, "idle"),
                None => return false,
            },
        };
        metrics::counter!(CLOSED, "reason" => state).increment(1);
        self.remove(number);
        true
    }
}

impl ConnectionPermit {
    /// For the requests of the connection.
    pub(super) fn seat(&self) -> ConnectionSeat {
        ConnectionSeat { connections: self.connections.clone(), number: self.number }
    }
}

/// The seat of a connection, which a request leaves while it waits.
#[derive(Clone)]
pub(crate) struct ConnectionSeat {
    connections: Arc<Inner>,
    number: u64,
}

impl ConnectionSeat {
    /// Leaves the seat until the result is dropped. `None`: as many connections wait as may.
    pub(crate) fn leave(&self) -> Option<LeftSeat> {
        let mut counts = self.connections.counts();
        if counts.waiting.len() >= self.connections.max_waiting {
            return None;
        }
        // Without a seat, the connection is about to be closed.
        if let Some(seat) = counts.remove(self.number) {
            counts.waiting.insert(self.number, seat);
        }
        Some(LeftSeat(self.clone()))
    }

    /// As many connections may wait.
    pub(crate) fn max_waiting(&self) -> usize {
        self.connections.max_waiting
    }
}

/// A connection that waits. Dropped, it takes a seat again, even if there is none: its response must be sent, and then it is idle.
pub(crate) struct LeftSeat(ConnectionSeat);

impl Drop for LeftSeat {
    fn drop(&mut self) {
        let ConnectionSeat { connections, number } = &self.0;
        let mut counts = connections.counts();
        if let Some(seat) = counts.waiting.remove(number) {
            *counts.by_address.entry(seat.address).or_default() += 1;
            counts.seats.insert(*number, seat);
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.counts().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::InFlight;
    use super::*;

    fn limit(connections: usize, connections_per_address: usize) -> ConnectionLimit {
        let limits = ListenerLimits { connections, connections_per_address, ..ListenerLimits::default() };
        let networks = vec!["10.0.0.0/8".parse().unwrap()];
        ConnectionLimit::new(&limits, TrustedProxies { networks, secret: None })
    }

    /// A connection with a request in flight.
    fn busy(connections: &ConnectionLimit, address: &str) -> Option<(ConnectionPermit, InFlight)> {
        let activity = Arc::new(Activity::new());
        let permit = connections.acquire(address.parse().unwrap(), &activity)?;
        Some((permit, InFlight::begin(&activity).unwrap()))
    }

    #[tokio::test]
    async fn one_address_does_not_use_all_connections_and_a_closed_one_is_free_again() {
        let connections = limit(8, 2);
        let take = |address: &str| busy(&connections, address).filter(|(permit, _)| !permit.for_probes);
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
        let counts = connections.0.counts();
        assert!(counts.by_address.is_empty() && counts.seats.is_empty(), "nothing is left over");
        assert!(counts.probe_seats.is_empty());
    }

    #[tokio::test]
    async fn a_request_that_waits_leaves_its_seat_and_takes_one_again() {
        let limits = ListenerLimits {
            connections: 2,
            connections_per_address: 2,
            polls: 3,
            ..ListenerLimits::default()
        };
        let connections = ConnectionLimit::new(&limits, TrustedProxies::default());
        let take = || busy(&connections, "192.0.2.1").filter(|(permit, _)| !permit.for_probes);
        let pollers: Vec<_> =
            (0..3).map(|_| take().unwrap()).map(|one| (one.0.seat().leave(), one)).collect();
        assert!(pollers.iter().all(|(left, _)| left.is_some()), "more than the limit of one address");
        let (one, two) = (take().unwrap(), take().unwrap());
        assert!(take().is_none(), "these two have requests");
        assert!(one.0.seat().leave().is_none(), "three may wait");
        let mut pollers = pollers.into_iter();
        let (left, (permit, activity)) = pollers.next().unwrap();
        drop(left);
        assert_eq!(
            connections.0.counts().seats.len(),
            3,
            "it was answered, and is one too many for a moment"
        );
        drop(activity);
        assert!(one.0.seat().leave().is_some(), "another one may wait");
        drop((permit, one, two, pollers));
        let counts = connections.0.counts();
        assert!(counts.by_address.is_empty() && counts.seats.is_empty() && counts.waiting.is_empty());
    }

    #[tokio::test]
    async fn with_too_many_open_files_the_oldest_connection_that_waits_is_closed() {
        let connections = limit(4, 4);
        let pollers: Vec<_> = (0..2).map(|_| busy(&connections, "192.0.2.1").unwrap()).collect();
        let left: Vec<_> = pollers.iter().map(|(permit, _)| permit.seat().leave().unwrap()).collect();
        assert!(connections.make_room());
        assert_eq!(connections.0.counts().waiting.len(), 1);
        drop((left, pollers));
        assert!(connections.0.counts().seats.is_empty() && connections.0.counts().by_address.is_empty());
    }

    #[tokio::test]
    async fn the_oldest_silent_connection_makes_room_and_one_with_a_request_does_not() {
        let connections = limit(3, 3);
        let busy = busy(&connections, "192.0.2.1").unwrap();
        let silent = |address: &str| {
            let activity = Arc::new(Activity::new());
            connections.acquire(address.parse().unwrap(), &activity).map(|permit| (permit, activity))
        };
        let (oldest, next) = (silent("192.0.2.2").unwrap(), silent("192.0.2.3").unwrap());
        let new = silent("192.0.2.4").unwrap();
        assert!(oldest.1.is_closed() && !next.1.is_closed() && !new.0.for_probes);
        drop(oldest);
        assert_eq!(connections.0.counts().seats.len(), 3, "a closed connection does not free its seat again");
        let mine: Vec<_> = (0..4).map(|_| silent("192.0.2.9").unwrap()).collect();
        assert!(mine[0].1.is_closed() && !mine[3].1.is_closed(), "one address makes room for itself");
        assert!(!connections.0.counts().seats.is_empty());
        drop(busy);
    }

    #[tokio::test]
    async fn when_requests_use_all_connections_a_bounded_number_answers_probes() {
        let connections = limit(4, 64);
        let all: Vec<_> = (0..4).map(|_| busy(&connections, "127.0.0.1").unwrap()).collect();
        let probes: Vec<_> = (0..PROBE_SEATS).map(|_| busy(&connections, "127.0.0.1").unwrap()).collect();
        assert!(all.iter().all(|(permit, _)| !permit.for_probes));
        assert!(probes.iter().all(|(permit, _)| permit.for_probes));
        assert!(busy(&connections, "127.0.0.1").is_none());
        drop(all);
        assert!(!busy(&connections, "127.0.0.1").unwrap().0.for_probes);
    }
}
