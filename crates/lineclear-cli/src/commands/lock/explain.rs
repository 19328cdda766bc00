//! What is known of a lock, in plain words.

use std::time::SystemTime;

use lineclear_lock::{Epoch, Explanation, Lease, LeaseState, Next, What};

use super::list::in_words;
use super::report::{long, moment, short, times};

/// Who holds it, since when, is it alive, what happens next and when, and what happened lately.
pub(super) fn sentences(known: &Explanation, now: SystemTime) -> Vec<String> {
    let mut says = vec![who(known, now)];
    says.extend(known.lease.as_ref().and_then(doubt));
    says.extend(alive(known));
    says.push(next(known));
    if let Some(lease) = known.lease.as_ref().filter(|lease| lease.contended > 0) {
        says.push(format!("Others have found it busy {} meanwhile.", times(lease.contended)));
    }
    if !known.history.is_empty() {
        says.push("What happened lately:".to_owned());
        let events = known.history.iter().take(3);
        says.extend(events.map(|event| format!("  {}  {}.", moment(event.at), in_words(event))));
    }
    says
}

/// Who holds it, and since when.
fn who(known: &Explanation, now: SystemTime) -> String {
    let name = &known.name;
    let since =
        |at: SystemTime| format!("{} ({} ago)", moment(at), long(now.duration_since(at).unwrap_or_default()));
    let of_kind = |kind: &Option<String>| {
        kind.as_ref().map(|kind| format!(", for work of the kind {kind}")).unwrap_or_default()
    };
    let Some(seen) = &known.engine else {
        return match &known.lease {
            Some(lease) if lease.released_at.is_none() => {
                let (node, kind) = (&lease.node, of_kind(&lease.kind));
                format!("{node} holds {name:?} since {}{kind}, as it was recorded.", since(lease.since))
            }
            _ => format!("Nobody holds lock {name:?}."),
        };
    };
    let holder = short(&seen.holding.holder);
    let lease = known.lease.as_ref().filter(|lease| lease.holder() == seen.holding.holder);
    // Taking a lock away raises the number that its store keeps.
    let number = lease.map_or(seen.holding.epoch, |lease| lease.epoch);
    let holds = format!("{holder} holds lock {name:?} as holder number {number}");
    let kind = of_kind(&seen.holding.kind);
    let held_last = format!("Nobody holds lock {name:?}. {holder} held it last, as holder number {number}");
    match (seen.holding.ends_in, lease) {
        (Some(_), Some(lease)) if lease.holds > 1 => {
            format!(
                "{holds}{kind}. It has taken it {} in a row since {}.",
                times(lease.holds),
                since(lease.since)
            )
        }
        (Some(_), Some(lease)) => format!("{holds} since {}{kind}.", since(lease.acquired_at)),
        (Some(_), None) => format!("{holds}{kind}. Since when is not recorded."),
        (None, Some(Lease { released_at: Some(at), .. })) => {
            format!("{held_last}, {} at {}.", ended(known, number), since(*at))
        }
        (None, _) => format!("{held_last}."),
    }
}

/// How the last hold ended.
fn ended(known: &Explanation, number: Epoch) -> &'static str {
    let mut events = known.history.iter().filter(|event| event.epoch == number).map(|event| event.what);
    if events.clone().any(|what| what == What::Broken) {
        "until it was taken away"
    } else if events.any(|what| what == What::Lost) {
        "and lost it"
    } else {
        "and released it"
    }
}

/// Where the record and the store do not say the same.
fn doubt(lease: &Lease) -> Option<String> {
    match lease.state {
        LeaseState::Drift => {
            Some(format!("The record says otherwise: {}, number {}.", short(&lease.holder()), lease.epoch))
        }
        LeaseState::Orphan => Some("It was never released: its holder went away.".to_owned()),
        LeaseState::Held | LeaseState::Idle | LeaseState::Stale => None,
    }
}

/// Whether the holder is alive.
fn alive(known: &Explanation) -> Option<String> {
    let (seen, lease) = match (&known.engine, &known.lease) {
        (Some(seen), lease) => {
            let holder = &seen.holding.holder;
            seen.holding.ends_in?;
            (seen.alive, lease.as_ref().filter(|lease| lease.holder() == *holder))
        }
        (None, Some(lease)) if lease.released_at.is_none() => (None, Some(lease)),
        (None, _) => return None,
    };
    let heard = lease.map(|lease| {
        let (ago, every) = (long(lease.renewed_ago), long(lease.renew_every));
        match lease.state {
            LeaseState::Stale => format!("it was last heard of {ago} ago, though it should be every {every}"),
            _ => format!("it was last heard of {ago} ago"),
        }
    });
    let stale = lease.is_some_and(|lease| lease.state == LeaseState::Stale);
    Some(match (seen, heard) {
        (Some(true), Some(heard)) if stale => {
            format!("The server sees its connection, but {heard}: it seems to be frozen.")
        }
        (Some(true), Some(heard)) => format!("It is alive: the server sees its connection, and {heard}."),
        (Some(true), None) => "It is alive: the server sees its connection.".to_owned(),
        (Some(false), Some(heard)) => {
            format!("It seems to be dead: the server does not see its connection any more, and {heard}.")
        }
        (Some(false), None) => {
            "It seems to be dead: the server does not see its connection any more.".to_owned()
        }
        (None, Some(heard)) if stale => format!("It seems to be dead or frozen: {heard}."),
        (None, Some(heard)) => format!("It is alive: {heard}."),
        (None, None) => {
            "Whether it is alive cannot be told: this store does not know, and it is not recorded.".to_owned()
        }
    })
}

/// What happens next, and when.
fn next(known: &Explanation) -> String {
    let take_away = format!("`lineclear lock break {} --note WHY` takes it away", quoted(&known.name));
    match known.next {
        Next::Free if known.engine.is_none() && known.lease.as_ref().is_some_and(|l| l.released_at.is_none()) => {
            "Its store cannot be asked from here. What a node of the scheduler does is taken up by another node when it goes away.".to_owned()
        }
        Next::Free => "Whoever asks next has it.".to_owned(),
        Next::Held { if_it_dies, if_it_freezes: Some(freezes) } => format!(
            "It is held until its holder releases it. If its holder dies, another can have it within {}; if it freezes, within {}.",
            long(if_it_dies),
            long(freezes)
        ),
        Next::Held { if_it_dies, if_it_freezes: None } => format!(
            "It is held until its holder releases it. If its holder dies, another can have it within {}; if it freezes, it keeps it: {take_away}.",
            long(if_it_dies)
        ),
        Next::FreeIn(wait) => format!("Whoever asks has it within {}.", long(wait)),
        Next::EndsIn(wait) => {
            format!(
                "Unless it is renewed, it ends in {}; then whoever asks has it. {take_away} now.",
                long(wait)
            )
        }
        Next::Never => format!("It does not end by itself: {take_away}."),
    }
}

/// A name as a shell wants it.
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

    fn lease(state: LeaseState, holder: &str) -> Lease {
        let parts: Vec<&str> = holder.split('/').collect();
        let renewed_ago = Duration::from_secs(if state == LeaseState::Stale { 40 } else { 2 });
        Lease {
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
            engine: None,
        }
    }

    /// What is said of a lock whose store and record say this, an hour after it was taken.
    fn said(alive: Option<bool>, ends_in: Option<u64>, lease: Option<Lease>, next: Next) -> String {
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
        let engine = Some(Inspection { alive, ..Inspection::from(holding) });
        let known =
            Explanation { name: "report".to_owned(), promises, engine, lease, history: Vec::new(), next };
        sentences(&known, at(4600)).join(" ")
    }

    #[test]
    fn what_is_to_be_thought_of_a_lock_is_said_in_plain_words() {
        let second = Duration::from_secs(1);
        let held = Next::Held { if_it_dies: second, if_it_freezes: None };
        let holds =
            "b7/4711/0475c72a holds lock \"report\" as holder number 7 since 1970-01-01T00:16:40Z (1h ago).";
        assert_eq!(
            said(Some(true), Some(30), Some(lease(LeaseState::Held, HOLDER)), held),
            format!(
                "{holds} It is alive: the server sees its connection, and it was last heard of 2s ago. It is held until its holder \
                 releases it. If its holder dies, another can have it within 1s; if it freezes, it keeps it: `lineclear lock break \
                 report --note WHY` takes it away."
            )
        );
        assert_eq!(
            said(Some(false), Some(30), Some(lease(LeaseState::Held, HOLDER)), Next::FreeIn(second)),
            format!(
                "{holds} It seems to be dead: the server does not see its connection any more, and it was last heard of 2s ago. \
                 Whoever asks has it within 1s."
            )
        );
        assert_eq!(
            said(Some(true), Some(30), Some(lease(LeaseState::Stale, HOLDER)), Next::Never),
            format!(
                "{holds} The server sees its connection, but it was last heard of 40s ago, though it should be every 5s: it seems to \
                 be frozen. It does not end by itself: `lineclear lock break report --note WHY` takes it away."
            )
        );
        let other = "b8/1/11111111-cefb-4beb-9097-a1ba0c20f0cd";
        assert_eq!(
            said(None, Some(30), Some(lease(LeaseState::Drift, other)), Next::EndsIn(second * 30)),
            "b7/4711/0475c72a holds lock \"report\" as holder number 7. Since when is not recorded. The record says otherwise: \
             b8/1/11111111, number 7. Whether it is alive cannot be told: this store does not know, and it is not recorded. Unless it is \
             renewed, it ends in 30s; then whoever asks has it. `lineclear lock break report --note WHY` takes it away now."
        );
        assert_eq!(
            said(None, None, Some(lease(LeaseState::Orphan, HOLDER)), Next::Free),
            "Nobody holds lock \"report\". b7/4711/0475c72a held it last, as holder number 7. It was never released: its holder went \
             away. Whoever asks next has it."
        );
    }
}
