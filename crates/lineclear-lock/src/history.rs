//! Checks the history of locks: were there two holders, or epochs that do not grow?
//!
//! Contenders, in any number of processes on one machine, record when they requested a lock, when it was granted, and until when
//! they trusted it, each as one line of text. [`check`] reads all lines afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::clock::Moment;
use crate::name::Epoch;

/// What a contender observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// It requested the lock.
    Asked,
    /// It was granted the lock.
    Held(Epoch),
    /// It stopped trusting the lock: before the release, or when it learnt of the loss. For a contender that was killed, the killer records
    /// it.
    Ended(Epoch),
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The contender; without blanks.
    pub contender: String,
    /// The lock.
    pub lock: String,
    /// What it observed.
    pub observation: Observation,
    /// When.
    pub at: Moment,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, epoch) = match self.observation {
            Observation::Asked => ("asked", 0),
            Observation::Held(epoch) => ("held", epoch.get()),
            Observation::Ended(epoch) => ("ended", epoch.get()),
        };
        write!(f, "lock {word} {epoch} {} {} {}", self.at.micros(), self.contender, self.lock)
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Event, String> {
        let bad = || format!("not an event: {line:?}");
        let parts: Vec<&str> = line.splitn(6, ' ').collect();
        let ["lock", word, epoch, at, contender, lock] = parts[..] else { return Err(bad()) };
        let epoch = Epoch::new(epoch.parse().map_err(|_| bad())?);
        let observation = match word {
            "asked" => Observation::Asked,
            "held" => Observation::Held(epoch),
            "ended" => Observation::Ended(epoch),
            _ => return Err(bad()),
        };
        let at = Moment::from_micros(at.parse().map_err(|_| bad())?);
        Ok(Event { contender: contender.to_owned(), lock: lock.to_owned(), observation, at })
    }
}

/// A violation of what locks promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The second was granted the lock while the first trusted it.
    TwoHolders {
        /// The first holder.
        first: Event,
        /// The second holder.
        second: Event,
    },
    /// A later holder's epoch is not higher than an earlier one's.
    EpochNotHigher {
        /// The earlier holder.
        before: Event,
        /// The later one.
        after: Event,
    },
    /// It waited too long for the lock, while others acquired it.
    Starved {
        /// Its request.
        asked: Event,
        /// How long it waited.
        waited: Duration,
    },
    /// The history itself is invalid.
    EndWithoutStart(Event),
}

/// Returns the violations of a history, whose events may be in any order. A contender without an `Ended` event counts as a holder to the
/// end of the history.
pub fn check(mut events: Vec<Event>, patience: Duration) -> Vec<Violation> {
    // The sort is stable: events of one moment keep their order.
    events.sort_by_key(|event| event.at);
    let mut locks: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in events {
        locks.entry(event.lock.clone()).or_default().push(event);
    }
    let found = locks.values().flat_map(|events| {
        let mut found = holders(events);
        found.extend(starving(events, patience));
        found
    });
    found.collect()
}

/// Two holders at once, and epochs that do not grow.
fn holders(events: &[Event]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut open: Vec<&Event> = Vec::new();
    let mut highest: Option<(Epoch, &Event)> = None;
    for event in events {
        match event.observation {
            Observation::Asked => {}
            Observation::Held(epoch) => {
                let two =
                    |first: &&Event| Violation::TwoHolders { first: (*first).clone(), second: event.clone() };
                found.extend(open.iter().map(two));
                if let Some((_, before)) = highest.filter(|(highest, _)| epoch <= *highest) {
                    found.push(Violation::EpochNotHigher { before: before.clone(), after: event.clone() });
                }
                if highest.is_none_or(|(highest, _)| epoch > highest) {
                    highest = Some((epoch, event));
                }
                open.push(event);
            }
            Observation::Ended(epoch) => {
                let begun = |held: &&Event| {
                    held.contender == event.contender && held.observation == Observation::Held(epoch)
                };
                match open.iter().position(begun) {
                    Some(index) => drop(open.remove(index)),
                    None => found.push(Violation::EndWithoutStart(event.clone())),
                }
            }
        }
    }
    found
}

/// Contenders that waited too long while others acquired the lock.
fn starving(events: &[Event], patience: Duration) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut waiting: BTreeMap<&str, &Event> = BTreeMap::new();
    let mut over = |asked: &Event, until: Moment| {
        let waited = Duration::from_micros(until.micros() - asked.at.micros());
        let others = |event: &Event| {
            matches!(event.observation, Observation::Held(_))
                && event.contender != asked.contender
                && event.at > asked.at
        };
        if waited > patience && events.iter().any(|event| others(event) && event.at <= until) {
            found.push(Violation::Starved { asked: asked.clone(), waited });
        }
    };
    for event in events {
        match event.observation {
            // A second request does not restart the wait.
            Observation::Asked => drop(waiting.entry(&event.contender).or_insert(event)),
            Observation::Held(_) => {
                if let Some(asked) = waiting.remove(event.contender.as_str()) {
                    over(asked, event.at);
                }
            }
            Observation::Ended(_) => {}
        }
    }
    if let Some(last) = events.last() {
        waiting.values().for_each(|asked| over(asked, last.at));
    }
    found
}

#[cfg(test)]
mod tests;
