//! What this process holds, and what of it is not written yet. Only the last word about each lock is kept, so that one who takes and
//! releases a thousand times a second writes a few times.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::record::LockEventKind;
use super::table::{Contention, HoldEnd, LeaseUpdate};
use crate::clock::Moment;
use crate::holder::Holder;
use crate::name::{Epoch, LockName};

/// Locks about which something may wait to be written while the registry is away; beyond it, new ones are counted and forgotten.
const UNWRITTEN_MAX: usize = 10_000;
/// Losses that may wait; beyond it, the oldest are counted and forgotten.
const LOST_MAX: usize = 1_000;

/// A lock that this process holds.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The lock.
    pub name: LockName,
    /// Where the lock itself is, in a word.
    pub store: Arc<str>,
    /// Fresh for every acquisition.
    pub token: Uuid,
    /// The holder's number; zero if there is none.
    pub epoch: Epoch,
    /// What kind of work it guards; none: the classifier says.
    pub kind: Option<Arc<str>>,
    /// Who holds it.
    pub holder: Arc<Holder>,
    /// How long it lasts without being renewed; none: until it is said to have ended.
    pub ttl: Option<Duration>,
}

type Key = (LockName, Arc<str>);

#[derive(Debug)]
struct Entry {
    hold: Hold,
    taken_at: Moment,
    until: Option<Moment>,
    is_written: bool,
}

#[derive(Debug)]
struct Ended {
    hold: Hold,
    taken_at: Moment,
    at: Moment,
}

#[derive(Debug, Default)]
pub(super) struct PendingWrites {
    held: HashMap<Uuid, Entry>,
    /// Released, and not written yet.
    ended: HashMap<Key, Ended>,
    /// How often it was taken since that was written, and when first.
    taken: HashMap<Key, (i64, Moment)>,
    busy: HashMap<Key, i64>,
    lost: VecDeque<HoldEnd>,
}

/// What is being written; it comes back if that fails.
#[derive(Debug, Default)]
pub(super) struct Batch {
    held: Vec<Uuid>,
    ended: HashMap<Key, Ended>,
    taken: HashMap<Key, (i64, Moment)>,
    pub(super) words: Vec<LeaseUpdate>,
    pub(super) contentions: Vec<Contention>,
    pub(super) endings: Vec<HoldEnd>,
}

fn key(hold: &Hold) -> Key {
    (hold.name.clone(), hold.store.clone())
}

fn forgotten(count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    metrics::counter!("lineclear_lock_registry_forgotten_total").increment(count);
}

/// Whether there is room for this lock.
fn fits<T>(map: &HashMap<Key, T>, key: &Key) -> bool {
    let fits = map.len() < UNWRITTEN_MAX || map.contains_key(key);
    if !fits {
        forgotten(1);
    }
    fits
}

impl PendingWrites {
    pub(super) fn acquired(&mut self, hold: Hold) {
        let (key, now) = (key(&hold), Moment::now());
        if fits(&self.taken, &key) {
            self.taken.entry(key).or_insert((0, now)).0 += 1;
        }
        let until = hold.ttl.map(|ttl| now.plus(ttl));
        self.held.insert(hold.token, Entry { hold, taken_at: now, until, is_written: false });
    }

    pub(super) fn renewed(&mut self, token: Uuid) {
        if let Some(entry) = self.held.get_mut(&token) {
            entry.until = entry.hold.ttl.map(|ttl| Moment::now().plus(ttl));
        }
    }

    /// `false`: it was not held.
    pub(super) fn released(&mut self, token: Uuid) -> bool {
        let Some(Entry { hold, taken_at, .. }) = self.held.remove(&token) else { return false };
        let key = key(&hold);
        if fits(&self.ended, &key) {
            self.ended.insert(key, Ended { hold, taken_at, at: Moment::now() });
        }
        true
    }

    /// `false`: it was not held.
    pub(super) fn lost(&mut self, token: Uuid, why: &str) -> bool {
        let Some(Entry { hold, .. }) = self.held.remove(&token) else { return false };
        self.taken.remove(&key(&hold));
        self.lost.push_back(HoldEnd {
            name: hold.name,
            store: hold.store,
            holder: hold.holder.to_string(),
            incarnation: Some(hold.holder.incarnation.to_string()),
            epoch: hold.epoch,
            what: LockEventKind::Lost,
            by_whom: None,
            why: Some(why.to_owned()),
        });
        let over = self.lost.len().saturating_sub(LOST_MAX);
        if over > 0 {
            self.lost.drain(..over);
            forgotten(over);
        }
        true
    }

    pub(super) fn busy(&mut self, store: &Arc<str>, name: &LockName) {
        let key = (name.clone(), store.clone());
        if fits(&self.busy, &key) {
            *self.busy.entry(key).or_default() += 1;
        }
    }

    /// What is to be written now; with the heartbeat, all that is held.
    pub(super) fn batch(&mut self, heartbeat: bool, renew: Duration) -> Batch {
        let now = Moment::now();
        // Who did not renew has lost it, and may not have noticed: its row must not look alive.
        let over = |entry: &Entry| entry.until.is_some_and(|until| until <= now);
        let over: Vec<Uuid> = self.held.iter().filter(|(_, e)| over(e)).map(|(token, _)| *token).collect();
        for token in over {
            self.lost(token, "it was not renewed in time");
        }
        let mut batch = Batch { taken: std::mem::take(&mut self.taken), ..Batch::default() };
        let renew_ms = i64::try_from(renew.as_millis()).unwrap_or(i64::MAX);
        for (token, entry) in &mut self.held {
            // A hold that goes on says all that an earlier one has to say.
            self.ended.remove(&key(&entry.hold));
            if heartbeat || !entry.is_written {
                entry.is_written = true;
                batch.held.push(*token);
                let word = word(&entry.hold, entry.taken_at, None, &batch.taken, now, renew_ms);
                batch.words.push(word);
            }
        }
        batch.ended = std::mem::take(&mut self.ended);
        for ended in batch.ended.values() {
            let word = word(&ended.hold, ended.taken_at, Some(ended.at), &batch.taken, now, renew_ms);
            batch.words.push(word);
        }
        // The order in which rows are locked.
        batch.words.sort_by(|a, b| (&a.name, &a.store).cmp(&(&b.name, &b.store)));
        batch.endings = self.lost.drain(..).collect();
        if heartbeat {
            let counts = self.busy.drain().map(|((name, store), busy)| Contention { name, store, busy });
            batch.contentions = counts.collect();
            batch.contentions.sort_by(|a, b| (&a.name, &a.store).cmp(&(&b.name, &b.store)));
        }
        batch
    }

    /// It could not be written: it is to be written again, unless there is news by then.
    pub(super) fn again(&mut self, batch: Batch) {
        for token in batch.held {
            if let Some(entry) = self.held.get_mut(&token) {
                entry.is_written = false;
            }
        }
        for (key, ended) in batch.ended {
            if fits(&self.ended, &key) {
                self.ended.entry(key).or_insert(ended);
            }
        }
        for (key, (count, first)) in batch.taken {
            if fits(&self.taken, &key) {
                let taken = self.taken.entry(key).or_insert((0, first));
                *taken = (taken.0 + count, first);
            }
        }
        for Contention { name, store, busy } in batch.contentions {
            let key = (name, store);
            if fits(&self.busy, &key) {
                *self.busy.entry(key).or_default() += busy;
            }
        }
        for ending in batch.endings.into_iter().rev() {
            if self.lost.len() < LOST_MAX {
                self.lost.push_front(ending);
            }
        }
    }
}

fn ago(then: Moment, now: Moment) -> i64 {
    i64::try_from(now.micros().saturating_sub(then.micros())).unwrap_or(i64::MAX)
}

fn word(
    hold: &Hold,
    taken_at: Moment,
    ended_at: Option<Moment>,
    taken: &HashMap<Key, (i64, Moment)>,
    now: Moment,
    renew_ms: i64,
) -> LeaseUpdate {
    let (count, first) = taken.get(&key(hold)).copied().unwrap_or((0, taken_at));
    LeaseUpdate {
        name: hold.name.clone(),
        store: hold.store.clone(),
        holder: hold.holder.clone(),
        kind: hold.kind.clone(),
        epoch: hold.epoch,
        since_ago: ago(first, now),
        acquired_ago: ago(taken_at, now),
        ended_ago: ended_at.map(|at| ago(at, now)),
        renew_ms,
        taken: count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_secs(5);

    fn hold(name: &str, epoch: i64) -> Hold {
        Hold {
            name: LockName::new(name).unwrap(),
            store: Arc::from("test"),
            token: Uuid::new_v4(),
            epoch: Epoch::new(epoch),
            kind: None,
            holder: Arc::new(Holder::this()),
            ttl: None,
        }
    }

    #[test]
    fn of_many_holds_only_the_last_is_written_with_their_number() {
        let mut ledger = PendingWrites::default();
        for epoch in 1..=1_000 {
            let hold = hold("a", epoch);
            let token = hold.token;
            ledger.acquired(hold);
            ledger.released(token);
        }
        let batch = ledger.batch(false, BEAT);
        assert_eq!(batch.words.len(), 1);
        assert_eq!((batch.words[0].epoch.get(), batch.words[0].taken), (1_000, 1_000));
        assert!(batch.words[0].ended_ago.is_some());
        assert!(ledger.batch(true, BEAT).words.is_empty(), "it was written");
    }

    #[test]
    fn what_could_not_be_written_comes_again_unless_there_is_news() {
        let mut ledger = PendingWrites::default();
        let first = hold("a", 1);
        let token = first.token;
        ledger.acquired(first);
        ledger.busy(&Arc::from("test"), &LockName::new("b").unwrap());
        let batch = ledger.batch(true, BEAT);
        ledger.released(token);
        ledger.again(batch);
        let batch = ledger.batch(true, BEAT);
        assert_eq!((batch.words.len(), batch.words[0].taken), (1, 1));
        assert!(batch.words[0].ended_ago.is_some(), "the release is the news");
        assert_eq!(batch.contentions[0].busy, 1);
    }

    #[test]
    fn a_hold_that_was_not_renewed_in_time_is_lost_and_is_not_shown_as_alive() {
        let mut ledger = PendingWrites::default();
        ledger.acquired(Hold { ttl: Some(Duration::ZERO), ..hold("a", 1) });
        let batch = ledger.batch(true, BEAT);
        assert!(batch.words.is_empty());
        assert_eq!(batch.endings[0].what, LockEventKind::Lost);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut ledger = PendingWrites::default();
        for number in 0..UNWRITTEN_MAX + 10 {
            ledger.busy(&Arc::from("test"), &LockName::new(&number.to_string()).unwrap());
        }
        for number in 0..LOST_MAX + 10 {
            let hold = hold(&number.to_string(), 1);
            let token = hold.token;
            ledger.acquired(hold);
            ledger.lost(token, "");
        }
        assert_eq!((ledger.busy.len(), ledger.lost.len()), (UNWRITTEN_MAX, LOST_MAX));
        assert_eq!(ledger.lost[0].name.as_str(), "10", "the oldest are forgotten");
    }
}
