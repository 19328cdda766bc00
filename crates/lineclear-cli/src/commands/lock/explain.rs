//! `lineclear lock explain`: the state of a lock in sentences.

use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use lineclear_lock::{Epoch, Explanation, LeaseRecord, LeaseState, LockEventKind, Next};

use super::history::describe;
use super::report::{LockReport, format_duration, moment, short_holder, times};
use super::show::LockArgs;
use crate::failure::Failure;
use crate::output::{print, print_json, sanitize};

const EXAMPLES: &str = "\
Examples:
  lineclear lock explain nightly-backup
  lineclear lock explain nightly-backup --store postgres://app@db.internal/app --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explain {
    #[command(flatten)]
    args: LockArgs,
}

impl Explain {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let known = self.args.read().await?;
        let sentences = sentences(&known, SystemTime::now());
        match self.args.json {
            true => print_json(&LockReport::from(&known).with_sentences(sentences))?,
            false => print(&sentences.iter().map(|line| sanitize(line) + "\n").collect::<String>())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The holder and since when, whether it is alive, what happens next, and the latest events.
fn sentences(known: &Explanation, now: SystemTime) -> Vec<String> {
    let mut lines = vec![holder(known, now)];
    lines.extend(known.lease.as_ref().and_then(discrepancy));
    lines.extend(alive(known));
    lines.push(next(known));
    if let Some(lease) = known.lease.as_ref().filter(|lease| lease.contended > 0) {
        lines.push(format!("Others found it busy {} meanwhile.", times(lease.contended)));
    }
    if !known.history.is_empty() {
        lines.push("Latest events:".to_owned());
        let events = known.history.iter().take(3);
        lines.extend(events.map(|event| format!("  {}  {}.", moment(event.at), describe(event))));
    }
    lines
}

/// The holder, and since when.
fn holder(known: &Explanation, now: SystemTime) -> String {
    let name = &known.name;
    let since = |at: SystemTime| {
        format!("{} ({} ago)", moment(at), format_duration(now.duration_since(at).unwrap_or_default()))
    };
    let of_kind = |kind: &Option<String>| {
        kind.as_ref().map(|kind| format!(", for work of the kind {kind}")).unwrap_or_default()
    };
    let Some(seen) = &known.inspection else {
        return match &known.lease {
            Some(lease) if lease.released_at.is_none() => {
                let (node, kind) = (&lease.node, of_kind(&lease.kind));
                format!(
                    "{node} has held {name:?} since {}{kind}, according to the registry.",
                    since(lease.since)
                )
            }
            _ => format!("Lock {name:?} is free."),
        };
    };
    let holder = short_holder(&seen.holding.holder);
    let lease = known.lease.as_ref().filter(|lease| lease.holder() == seen.holding.holder);
    // Breaking a lock raises the number in its store.
    let number = lease.map_or(seen.holding.epoch, |lease| lease.epoch);
    let holds = format!("{holder} holds lock {name:?} as holder number {number}");
    let kind = of_kind(&seen.holding.kind);
    let held_last = format!("Lock {name:?} is free. {holder} held it last, as holder number {number}");
    match (seen.holding.ends_in, lease) {
        (Some(_), Some(lease)) if lease.holds > 1 => {
            format!(
                "{holds}{kind}. It has acquired it {} in a row since {}.",
                times(lease.holds),
                since(lease.since)
            )
        }
        (Some(_), Some(lease)) => format!("{holds} since {}{kind}.", since(lease.acquired_at)),
        (Some(_), None) => format!("{holds}{kind}. The time of acquisition is not recorded."),
        (None, Some(LeaseRecord { released_at: Some(at), .. })) => {
            format!("{held_last}, {} at {}.", ended(known, number), since(*at))
        }
        (None, _) => format!("{held_last}."),
    }
}

/// How the last hold ended.
fn ended(known: &Explanation, number: Epoch) -> &'static str {
    let mut events = known.history.iter().filter(|event| event.epoch == number).map(|event| event.what);
    if events.clone().any(|what| what == LockEventKind::Broken) {
        "until it was broken"
    } else if events.any(|what| what == LockEventKind::Lost) {
        "and lost it"
    } else {
        "and released it"
    }
}

/// Where the registry and the store disagree.
fn discrepancy(lease: &LeaseRecord) -> Option<String> {
    match lease.state {
        LeaseState::Drift => Some(format!(
            "The registry recorded another holder: {}, number {}.",
            short_holder(&lease.holder()),
            lease.epoch
        )),
        LeaseState::Orphan => Some("It was never released: its holder disappeared.".to_owned()),
        LeaseState::Held | LeaseState::Idle | LeaseState::Stale => None,
    }
}

/// Whether the holder is alive.
fn alive(known: &Explanation) -> Option<String> {
    let (seen, lease) = match (&known.inspection, &known.lease) {
        (Some(seen), lease) => {
            let holder = &seen.holding.holder;
            seen.holding.ends_in?;
            (seen.alive, lease.as_ref().filter(|lease| lease.holder() == *holder))
        }
        (None, Some(lease)) if lease.released_at.is_none() => (None, Some(lease)),
        (None, _) => return None,
    };
    let renewed = lease.map(|lease| {
        let (ago, every) = (format_duration(lease.renewed_ago), format_duration(lease.renew_every));
        match lease.state {
            LeaseState::Stale => format!("it last renewed the lock {ago} ago and should every {every}"),
            _ => format!("it last renewed the lock {ago} ago"),
        }
    });
    let stale = lease.is_some_and(|lease| lease.state == LeaseState::Stale);
    Some(match (seen, renewed) {
        (Some(true), Some(renewed)) if stale => {
            format!("The server sees its connection, but {renewed}: it may be frozen.")
        }
        (Some(true), Some(renewed)) => format!("It is alive: the server sees its connection, and {renewed}."),
        (Some(true), None) => "It is alive: the server sees its connection.".to_owned(),
        (Some(false), Some(renewed)) => {
            format!("It may be dead: the server no longer sees its connection, and {renewed}.")
        }
        (Some(false), None) => "It may be dead: the server no longer sees its connection.".to_owned(),
        (None, Some(renewed)) if stale => format!("It may be dead or frozen: {renewed}."),
        (None, Some(renewed)) => format!("It is alive: {renewed}."),
        (None, None) => {
            "Whether it is alive is unknown: this store does not track it, and nothing is recorded."
                .to_owned()
        }
    })
}

/// What happens next, and when.
fn next(known: &Explanation) -> String {
    let break_it = format!("`lineclear lock break {} --note REASON` frees it", quoted(&known.name));
    match known.next {
        Next::Free
            if known.inspection.is_none()
                && known.lease.as_ref().is_some_and(|l| l.released_at.is_none()) =>
        {
            "Its store cannot be reached from here. If the node disappears, another node takes over its role."
                .to_owned()
        }
        Next::Free => "The next process that asks gets it.".to_owned(),
        Next::Held { if_it_dies, if_it_freezes: Some(freezes) } => format!(
            "It is held until its holder releases it. If the holder dies, another can acquire it within {}; if it freezes, within {}.",
            format_duration(if_it_dies),
            format_duration(freezes)
        ),
        Next::Held { if_it_dies, if_it_freezes: None } => format!(
            "It is held until its holder releases it. If the holder dies, another can acquire it within {}; if it freezes, it keeps the lock: {break_it}.",
            format_duration(if_it_dies)
        ),
        Next::FreeIn(wait) => format!("A process that asks gets it within {}.", format_duration(wait)),
        Next::EndsIn(wait) => {
            format!(
                "Unless it is renewed, it expires in {}; then the next process that asks gets it. {break_it} now.",
                format_duration(wait)
            )
        }
        Next::Never => format!("It does not expire: {break_it}."),
    }
}

/// A name quoted for a shell.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    if name.chars().all(is_plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lineclear_lock::{FenceClass, Holding, Inspection, Promises};

    use super::*;

    const HOLDER: &str = "b7/4711/0475c72a-cefb-4beb-9097-a1ba0c20f0cd";

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn lease(state: LeaseState, holder: &str) -> LeaseRecord {
        let parts: Vec<&str> = holder.split('/').collect();
        let renewed_ago = Duration::from_secs(if state == LeaseState::Stale { 40 } else { 2 });
        LeaseRecord {
            name: "report".to_owned(),
            store: "postgres".to_owned(),
            state,
            node: format!("{}/{}", parts[0], parts[1]),
            machine: parts[0].to_owned(),
            pid: parts[1].parse().unwrap(),
            incarnation: parts[2].to_owned(),
            kind: None,
            epoch: Epoch::new(7),
            since: at(1000),
            acquired_at: at(1000),
            renewed_at: at(4600) - renewed_ago,
            released_at: None,
            renewed_ago,
            renew_every: Duration::from_secs(5),
            holds: 1,
            contended: 0,
            contended_at: None,
            inspection: None,
        }
    }

    /// The explanation of such a lock, an hour after it was acquired.
    fn explanation(
        alive: Option<bool>,
        ends_in: Option<u64>,
        lease: Option<LeaseRecord>,
        next: Next,
    ) -> String {
        let holding = Holding {
            epoch: Epoch::new(7),
            holder: HOLDER.to_owned(),
            kind: None,
            ends_in: ends_in.map(Duration::from_secs),
        };
        let promises = Promises {
            backend: "postgres-lease",
            fence: FenceClass::BestEffort,
            crash_detected_within: None,
            frozen_holder_ends: true,
        };
        let inspection = Some(Inspection { alive, ..Inspection::from(holding) });
        let known =
            Explanation { name: "report".to_owned(), promises, inspection, lease, history: Vec::new(), next };
        sentences(&known, at(4600)).join(" ")
    }

    #[test]
    fn the_state_of_a_lock_is_explained_in_sentences() {
        let second = Duration::from_secs(1);
        let held = Next::Held { if_it_dies: second, if_it_freezes: None };
        let holds =
            "b7/4711/0475c72a holds lock \"report\" as holder number 7 since 1970-01-01T00:16:40Z (1h ago).";
        assert_eq!(
            explanation(Some(true), Some(30), Some(lease(LeaseState::Held, HOLDER)), held),
            format!(
                "{holds} It is alive: the server sees its connection, and it last renewed the lock 2s ago. It is held until its holder \
                 releases it. If the holder dies, another can acquire it within 1s; if it freezes, it keeps the lock: `lineclear lock \
                 break report --note REASON` frees it."
            )
        );
        assert_eq!(
            explanation(Some(false), Some(30), Some(lease(LeaseState::Held, HOLDER)), Next::FreeIn(second)),
            format!(
                "{holds} It may be dead: the server no longer sees its connection, and it last renewed the lock 2s ago. A process that \
                 asks gets it within 1s."
            )
        );
        assert_eq!(
            explanation(Some(true), Some(30), Some(lease(LeaseState::Stale, HOLDER)), Next::Never),
            format!(
                "{holds} The server sees its connection, but it last renewed the lock 40s ago and should every 5s: it may be frozen. It \
                 does not expire: `lineclear lock break report --note REASON` frees it."
            )
        );
        let other = "b8/1/11111111-cefb-4beb-9097-a1ba0c20f0cd";
        assert_eq!(
            explanation(None, Some(30), Some(lease(LeaseState::Drift, other)), Next::EndsIn(second * 30)),
            "b7/4711/0475c72a holds lock \"report\" as holder number 7. The time of acquisition is not recorded. The registry \
             recorded another holder: b8/1/11111111, number 7. Whether it is alive is unknown: this store does not track it, and nothing is \
             recorded. Unless it is renewed, it expires in 30s; then the next process that asks gets it. `lineclear lock break report \
             --note REASON` frees it now."
        );
        assert_eq!(
            explanation(None, None, Some(lease(LeaseState::Orphan, HOLDER)), Next::Free),
            "Lock \"report\" is free. b7/4711/0475c72a held it last, as holder number 7. It was never released: its holder disappeared. The \
             next process that asks gets it."
        );
    }
}
