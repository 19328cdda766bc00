//! The JSON of locks, and helpers to print times.

use std::time::{Duration, SystemTime};

use lineclear_lock::{Explanation, LeaseRecord, LockEvent, Next};
use serde::Serialize;

use crate::output::approx_duration;

/// A lock in the registry.
#[derive(Serialize)]
pub(super) struct LeaseReport {
    name: String,
    store: String,
    state: &'static str,
    node: String,
    machine: String,
    pid: u32,
    incarnation: String,
    kind: Option<String>,
    epoch: i64,
    since: String,
    acquired_at: String,
    renewed_at: String,
    released_at: Option<String>,
    renewed_ago_ms: u64,
    renew_every_ms: u64,
    holds: u64,
    contended: u64,
    contended_at: Option<String>,
}

impl From<&LeaseRecord> for LeaseReport {
    fn from(lease: &LeaseRecord) -> LeaseReport {
        LeaseReport {
            name: lease.name.clone(),
            store: lease.store.clone(),
            state: lease.state.as_str(),
            node: lease.node.clone(),
            machine: lease.machine.clone(),
            pid: lease.pid,
            incarnation: lease.incarnation.clone(),
            kind: lease.kind.clone(),
            epoch: lease.epoch.get(),
            since: moment(lease.since),
            acquired_at: moment(lease.acquired_at),
            renewed_at: moment(lease.renewed_at),
            released_at: lease.released_at.map(moment),
            renewed_ago_ms: millis(lease.renewed_ago),
            renew_every_ms: millis(lease.renew_every),
            holds: lease.holds,
            contended: lease.contended,
            contended_at: lease.contended_at.map(moment),
        }
    }
}

/// An event of a lock.
#[derive(Serialize)]
pub(super) struct EventReport {
    id: String,
    name: String,
    store: String,
    what: &'static str,
    at: String,
    holder: String,
    epoch: i64,
    before: Option<String>,
    by_whom: Option<String>,
    why: Option<String>,
}

impl From<&LockEvent> for EventReport {
    fn from(event: &LockEvent) -> EventReport {
        EventReport {
            id: event.id.to_string(),
            name: event.name.clone(),
            store: event.store.clone(),
            what: event.what.as_str(),
            at: moment(event.at),
            holder: event.holder.clone(),
            epoch: event.epoch.get(),
            before: event.before.clone(),
            by_whom: event.by_whom.clone(),
            why: event.why.clone(),
        }
    }
}

/// Everything known about one lock.
#[derive(Serialize)]
pub(super) struct LockReport {
    name: String,
    backend: &'static str,
    held: bool,
    holder: Option<String>,
    epoch: Option<i64>,
    kind: Option<String>,
    ends_in_ms: Option<u64>,
    /// Whether the server sees the holder's connection; null if it does not track it.
    alive: Option<bool>,
    connection: Option<i64>,
    lease: Option<LeaseReport>,
    next: NextReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sentences: Vec<String>,
    history: Vec<EventReport>,
}

/// What happens next, and when.
#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum NextReport {
    Free,
    Held { if_it_dies_ms: u64, if_it_freezes_ms: Option<u64> },
    FreeIn { in_ms: u64 },
    EndsIn { in_ms: u64 },
    Never,
}

impl From<&Explanation> for LockReport {
    fn from(known: &Explanation) -> LockReport {
        let holding = known.inspection.as_ref().map(|seen| &seen.holding);
        let ends_in = holding.and_then(|holding| holding.ends_in);
        LockReport {
            name: known.name.clone(),
            backend: known.promises.backend,
            held: ends_in.is_some(),
            holder: holding.map(|holding| holding.holder.clone()),
            epoch: holding.map(|holding| holding.epoch.get()),
            kind: holding.and_then(|holding| holding.kind.clone()),
            ends_in_ms: ends_in.filter(|left| *left != Duration::MAX).map(millis),
            alive: known.inspection.as_ref().and_then(|seen| seen.alive),
            connection: known.inspection.as_ref().and_then(|seen| seen.connection),
            lease: known.lease.as_ref().map(LeaseReport::from),
            next: match known.next {
                Next::Free => NextReport::Free,
                Next::Held { if_it_dies, if_it_freezes } => NextReport::Held {
                    if_it_dies_ms: millis(if_it_dies),
                    if_it_freezes_ms: if_it_freezes.map(millis),
                },
                Next::FreeIn(wait) => NextReport::FreeIn { in_ms: millis(wait) },
                Next::EndsIn(wait) => NextReport::EndsIn { in_ms: millis(wait) },
                Next::Never => NextReport::Never,
            },
            sentences: Vec::new(),
            history: known.history.iter().map(EventReport::from).collect(),
        }
    }
}

impl LockReport {
    /// Adds the explanation.
    pub(super) fn with_sentences(self, sentences: Vec<String>) -> LockReport {
        LockReport { sentences, ..self }
    }
}

/// RFC 3339, to the second.
pub(super) fn moment(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at)
        .map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_else(|_| "-".to_owned())
}

/// A holder with the beginning of its incarnation: `machine/pid/0475c72a`.
pub(super) fn short_holder(holder: &str) -> String {
    match holder.rsplit_once('/') {
        Some((node, incarnation)) if incarnation.len() == 36 && incarnation.is_ascii() => {
            format!("{node}/{}", &incarnation[..8])
        }
        _ => holder.to_owned(),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// `3h 12m`; below a second, in milliseconds.
pub(super) fn format_duration(time: Duration) -> String {
    if time < Duration::from_secs(1) && !time.is_zero() {
        return format!("{}ms", time.as_millis().max(1));
    }
    approx_duration(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}

/// `once`, `3 times`
pub(super) fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
