//! Tenures of locks, from the events of the registry.
//!
//! A tenure begins when a node acquires a lock that another one held. It ends when another node acquires it, when the holder loses it, or
//! when it is released and stays free. So a node that acquires a lock every few seconds has one tenure, not thousands.

use std::collections::BTreeMap;
use std::time::SystemTime;

use lineclear::read::NodeView;
use lineclear_lock::{LeaseRecord, LeaseState, LockEvent, LockEventKind};
use lineclear_model::Micros;

/// Why a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It has not ended.
    Open,
    /// It was released.
    Released,
    /// Another node acquired it.
    Handed,
    /// Its holder stopped renewing it.
    Silent,
    /// The holder lost it, disappeared, or the lock was broken.
    Was(LockEventKind),
}

impl End {
    pub(super) fn is_loss(self) -> bool {
        matches!(self, End::Silent | End::Was(_))
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            End::Open => "held",
            End::Released => "released",
            End::Handed => "handed over",
            End::Silent => "silent",
            End::Was(LockEventKind::Lost) => "lost",
            End::Was(LockEventKind::Broken) => "broken",
            End::Was(_) => "disappeared",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tenure {
    pub(super) name: String,
    pub(super) store: String,
    /// `machine/pid/incarnation`.
    pub(super) holder: String,
    /// `None`: it began before the oldest event.
    pub(super) epoch: Option<i64>,
    /// `None`: before the oldest event.
    pub(super) from: Option<Micros>,
    /// `None`: it has not ended.
    pub(super) to: Option<Micros>,
    pub(super) end: End,
}

/// A time of the registry, clamped to the calendar.
pub(super) fn micros(at: SystemTime) -> Micros {
    jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::MAX).into()
}

/// The last part of `machine/pid/incarnation`.
pub(super) fn incarnation(holder: &str) -> &str {
    holder.rsplit('/').next().unwrap_or(holder)
}

/// The tenures of all locks, oldest first. `events` are newest first.
pub(super) fn tenures(events: &[LockEvent], leases: &[LeaseRecord], nodes: &[NodeView]) -> Vec<Tenure> {
    let mut by_lock: BTreeMap<(&str, &str), Vec<&LockEvent>> = BTreeMap::new();
    for event in events.iter().rev() {
        by_lock.entry((&event.name, &event.store)).or_default().push(event);
    }
    let row =
        |name: &str, store: &str| leases.iter().find(|lease| lease.name == name && lease.store == store);
    let mut all = Vec::new();
    for ((name, store), mut events) in by_lock {
        events.sort_by_key(|event| (event.at, event.id));
        all.extend(of_lock(name, store, &events, row(name, store), nodes));
    }
    for lease in leases {
        if !events.iter().any(|event| event.name == lease.name && event.store == lease.store) {
            let (to, end) = end_of(lease);
            all.push(Tenure {
                name: lease.name.clone(),
                store: lease.store.clone(),
                holder: lease.holder(),
                epoch: Some(lease.epoch.get()),
                from: Some(micros(lease.since)),
                to,
                end,
            });
        }
    }
    all
}

fn of_lock(
    name: &str,
    store: &str,
    events: &[&LockEvent],
    lease: Option<&LeaseRecord>,
    nodes: &[NodeView],
) -> Vec<Tenure> {
    let mut all: Vec<Tenure> = Vec::new();
    let new = |holder: &str, epoch, from| Tenure {
        name: name.to_owned(),
        store: store.to_owned(),
        holder: holder.to_owned(),
        epoch,
        from,
        to: None,
        end: End::Open,
    };
    for event in events {
        let at = micros(event.at);
        if event.what == LockEventKind::Taken {
            match (all.last_mut(), &event.before) {
                (Some(last), _) if last.end == End::Open => (last.to, last.end) = (Some(at), End::Handed),
                (None, Some(before)) => {
                    all.push(Tenure { to: Some(at), end: End::Handed, ..new(before, None, None) });
                }
                _ => {}
            }
            all.push(new(&event.holder, Some(event.epoch.get()), Some(at)));
            continue;
        }
        // A loss may be recorded after the next acquisition.
        let same = |tenure: &&mut Tenure| tenure.holder == event.holder && !tenure.end.is_loss();
        let is_first = all.is_empty();
        match all.iter_mut().rev().find(same) {
            Some(tenure) => {
                (tenure.to, tenure.end) = (Some(tenure.to.map_or(at, |to| to.min(at))), End::Was(event.what))
            }
            None if is_first => {
                let epoch = Some(event.epoch.get());
                all.push(Tenure {
                    to: Some(at),
                    end: End::Was(event.what),
                    ..new(&event.holder, epoch, None)
                });
            }
            None => {}
        }
    }
    if let Some(last) = all.last_mut().filter(|last| last.end == End::Open) {
        match lease.filter(|lease| lease.holder() == last.holder) {
            Some(lease) => (last.to, last.end) = end_of(lease),
            // The row is gone, or of another holder: only the acquisition is known.
            None => (last.to, last.end) = (last.from, End::Silent),
        }
    }
    // A planner renews with each heartbeat, so the end of its tenure is its last one.
    for tenure in all.iter_mut().filter(|tenure| store == "engine" && tenure.end == End::Handed) {
        let node = nodes.iter().find(|node| node.incarnation == incarnation(&tenure.holder));
        if let Some(seen) =
            node.map(|node| node.seen_at).filter(|seen| tenure.to.is_some_and(|to| *seen < to))
            && tenure.from.is_none_or(|from| from <= seen)
        {
            (tenure.to, tenure.end) = (Some(seen), End::Silent);
        }
    }
    all
}

/// The end of the last tenure of a lock.
fn end_of(lease: &LeaseRecord) -> (Option<Micros>, End) {
    match (lease.state, lease.released_at) {
        (LeaseState::Held | LeaseState::Drift, None) => (None, End::Open),
        (_, Some(at)) => (Some(micros(at)), End::Released),
        _ => (Some(micros(lease.renewed_at)), End::Silent),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lineclear_lock::Epoch;

    use super::*;

    fn event(second: u64, what: LockEventKind, holder: &str, epoch: i64, before: Option<&str>) -> LockEvent {
        LockEvent {
            id: i64::try_from(second).unwrap(),
            name: "report".to_owned(),
            store: "postgres".to_owned(),
            what,
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
            holder: holder.to_owned(),
            epoch: Epoch::new(epoch),
            before: before.map(str::to_owned),
            by_whom: None,
            why: None,
        }
    }

    /// Holder, seconds from and to, and the end; from events in the order in which they happened.
    fn drawn(mut events: Vec<LockEvent>) -> Vec<(String, Option<i64>, Option<i64>, End)> {
        events.reverse();
        let second = |at: Option<Micros>| at.map(|at| at.get() / 1_000_000);
        let all = tenures(&events, &[], &[]).into_iter();
        all.map(|tenure| (tenure.holder, second(tenure.from), second(tenure.to), tenure.end)).collect()
    }

    #[test]
    fn a_tenure_ends_where_the_next_begins_or_where_it_was_lost() {
        let is = drawn(vec![
            event(10, LockEventKind::Taken, "b", 2, Some("a")),
            event(20, LockEventKind::Broken, "b", 2, None),
            event(30, LockEventKind::Taken, "c", 4, Some("b")),
            event(40, LockEventKind::Taken, "d", 5, Some("c")),
            event(41, LockEventKind::Lost, "c", 4, None),
        ]);
        let expected = [
            ("a", None, Some(10), End::Handed),
            ("b", Some(10), Some(20), End::Was(LockEventKind::Broken)),
            ("c", Some(30), Some(40), End::Was(LockEventKind::Lost)),
            ("d", Some(40), Some(40), End::Silent),
        ];
        assert_eq!(is, expected.map(|(holder, from, to, end)| (holder.to_owned(), from, to, end)));
    }

    #[test]
    fn a_tenure_older_than_the_history_has_no_start() {
        let is = drawn(vec![event(20, LockEventKind::Vanished, "a", 7, None)]);
        assert_eq!(is, [("a".to_owned(), None, Some(20), End::Was(LockEventKind::Vanished))]);
        assert_eq!(drawn(Vec::new()), []);
    }
}
