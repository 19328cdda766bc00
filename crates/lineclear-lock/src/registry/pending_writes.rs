//! The locks that this process holds, and what of them is not written yet. Only the last state of each lock is kept: a process that
//! acquires and releases a lock a thousand times a second writes a few times.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::record::LockEventKind;
use super::updates::{Contention, HoldEnd, LeaseUpdate};
use crate::clock::Moment;
use crate::holder::Holder;
use crate::name::{Epoch, LockName};

/// Locks whose updates may be pending while the registry cannot be written; beyond it, updates of other locks are dropped and counted.
const PENDING_MAX: usize = 10_000;
/// Losses that may be pending; beyond it, the oldest are dropped and counted.
const LOST_MAX: usize = 1_000;

/// A lock that this process holds.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The lock.
    pub name: LockName,
    /// Where the lock itself is, as the registry calls the store.
    pub store: Arc<str>,
    /// Fresh for every acquisition.
    pub token: Uuid,
    /// The holder's number; zero if the store has none.
    pub epoch: Epoch,
    /// What kind of work it guards; none: the classifier decides.
    pub kind: Option<Arc<str>>,
    /// The process that holds it.
    pub holder: Arc<Holder>,
    /// How long it lasts without renewal; none: until its end is reported.
    pub ttl: Option<Duration>,
}

type Key = (LockName, Arc<str>);

#[derive(Debug)]
struct HeldLock {
    hold: Hold,
    acquired_at: Moment,
    until: Option<Moment>,
    is_written: bool,
}

#[derive(Debug)]
struct ReleasedLock {
    hold: Hold,
    acquired_at: Moment,
    at: Moment,
}

#[derive(Debug, Default)]
pub(super) struct PendingWrites {
    held: HashMap<Uuid, HeldLock>,
    /// Released, and not written yet.
    released: HashMap<Key, ReleasedLock>,
    /// How often each lock was acquired since that was written, and when first.
    acquisitions: HashMap<Key, (i64, Moment)>,
    busy: HashMap<Key, i64>,
    lost: VecDeque<HoldEnd>,
}

/// What is being written; it is put back if that fails.
#[derive(Debug, Default)]
pub(super) struct Batch {
    held: Vec<Uuid>,
    released: HashMap<Key, ReleasedLock>,
    acquisitions: HashMap<Key, (i64, Moment)>,
    pub(super) updates: Vec<LeaseUpdate>,
    pub(super) contentions: Vec<Contention>,
    pub(super) ends: Vec<HoldEnd>,
}

fn key(hold: &Hold) -> Key {
    (hold.name.clone(), hold.store.clone())
}

fn count_dropped(count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    metrics::counter!("lineclear_lock_registry_forgotten_total").increment(count);
}

/// Whether there is room for this lock; otherwise it is counted as dropped.
fn fits<T>(map: &HashMap<Key, T>, key: &Key) -> bool {
    let fits = map.len() < PENDING_MAX || map.contains_key(key);
    if !fits {
        count_dropped(1);
    }
    fits
}

impl PendingWrites {
    pub(super) fn acquired(&mut self, hold: Hold) {
        let (key, now) = (key(&hold), Moment::now());
        if fits(&self.acquisitions, &key) {
            self.acquisitions.entry(key).or_insert((0, now)).0 += 1;
        }
        let until = hold.ttl.map(|ttl| now.plus(ttl));
        self.held.insert(hold.token, HeldLock { hold, acquired_at: now, until, is_written: false });
    }

    pub(super) fn renewed(&mut self, token: Uuid) {
        if let Some(entry) = self.held.get_mut(&token) {
            entry.until = entry.hold.ttl.map(|ttl| Moment::now().plus(ttl));
        }
    }

    /// `false`: the lock was not held.
    pub(super) fn released(&mut self, token: Uuid) -> bool {
        let Some(HeldLock { hold, acquired_at, .. }) = self.held.remove(&token) else { return false };
        let key = key(&hold);
        if fits(&self.released, &key) {
            self.released.insert(key, ReleasedLock { hold, acquired_at, at: Moment::now() });
        }
        true
    }

    /// `false`: the lock was not held.
    pub(super) fn lost(&mut self, token: Uuid, why: &str) -> bool {
        let Some(HeldLock { hold, .. }) = self.held.remove(&token) else { return false };
        self.acquisitions.remove(&key(&hold));
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
            count_dropped(over);
        }
        true
    }

    pub(super) fn busy(&mut self, store: &Arc<str>, name: &LockName) {
        let key = (name.clone(), store.clone());
        if fits(&self.busy, &key) {
            *self.busy.entry(key).or_default() += 1;
        }
    }

    /// What is to be written now; with the heartbeat, all locks that are held.
    pub(super) fn batch(&mut self, heartbeat: bool, renew: Duration) -> Batch {
        let now = Moment::now();
        // A holder that did not renew in time has lost the lock, and may not know it yet: its row must not look alive.
        let expired = |entry: &HeldLock| entry.until.is_some_and(|until| until <= now);
        let expired: Vec<Uuid> =
            self.held.iter().filter(|(_, lock)| expired(lock)).map(|(token, _)| *token).collect();
        for token in expired {
            self.lost(token, "not renewed in time");
        }
        let mut batch = Batch { acquisitions: std::mem::take(&mut self.acquisitions), ..Batch::default() };
        let renew_ms = i64::try_from(renew.as_millis()).unwrap_or(i64::MAX);
        for (token, entry) in &mut self.held {
            // The update of a lock that is held again includes its earlier hold.
            self.released.remove(&key(&entry.hold));
            if heartbeat || !entry.is_written {
                entry.is_written = true;
                batch.held.push(*token);
                let update = update(&entry.hold, entry.acquired_at, None, &batch.acquisitions, now, renew_ms);
                batch.updates.push(update);
            }
        }
        batch.released = std::mem::take(&mut self.released);
        for released in batch.released.values() {
            let update = update(
                &released.hold,
                released.acquired_at,
                Some(released.at),
                &batch.acquisitions,
                now,
                renew_ms,
            );
            batch.updates.push(update);
        }
        // Rows are locked in this order by all processes.
        batch.updates.sort_by(|a, b| (&a.name, &a.store).cmp(&(&b.name, &b.store)));
        batch.ends = self.lost.drain(..).collect();
        if heartbeat {
            let counts = self.busy.drain().map(|((name, store), busy)| Contention { name, store, busy });
            batch.contentions = counts.collect();
            batch.contentions.sort_by(|a, b| (&a.name, &a.store).cmp(&(&b.name, &b.store)));
        }
        batch
    }

    /// Puts back what could not be written. What has happened since takes precedence.
    pub(super) fn put_back(&mut self, batch: Batch) {
        for token in batch.held {
            if let Some(entry) = self.held.get_mut(&token) {
                entry.is_written = false;
            }
        }
        for (key, released) in batch.released {
            if fits(&self.released, &key) {
                self.released.entry(key).or_insert(released);
            }
        }
        for (key, (count, first)) in batch.acquisitions {
            if fits(&self.acquisitions, &key) {
                let taken = self.acquisitions.entry(key).or_insert((0, first));
                *taken = (taken.0 + count, first);
            }
        }
        for Contention { name, store, busy } in batch.contentions {
            let key = (name, store);
            if fits(&self.busy, &key) {
                *self.busy.entry(key).or_default() += busy;
            }
        }
        for end in batch.ends.into_iter().rev() {
            if self.lost.len() < LOST_MAX {
                self.lost.push_front(end);
            }
        }
    }
}

fn ago(then: Moment, now: Moment) -> i64 {
    i64::try_from(now.micros().saturating_sub(then.micros())).unwrap_or(i64::MAX)
}

fn update(
    hold: &Hold,
    acquired_at: Moment,
    ended_at: Option<Moment>,
    acquisitions: &HashMap<Key, (i64, Moment)>,
    now: Moment,
    renew_ms: i64,
) -> LeaseUpdate {
    let (count, first) = acquisitions.get(&key(hold)).copied().unwrap_or((0, acquired_at));
    LeaseUpdate {
        name: hold.name.clone(),
        store: hold.store.clone(),
        holder: hold.holder.clone(),
        kind: hold.kind.clone(),
        epoch: hold.epoch,
        since_ago: ago(first, now),
        acquired_ago: ago(acquired_at, now),
        ended_ago: ended_at.map(|at| ago(at, now)),
        renew_ms,
        acquisitions: count,
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
    fn many_holds_are_written_as_one_update_with_their_number() {
        let mut pending = PendingWrites::default();
        for epoch in 1..=1_000 {
            let hold = hold("a", epoch);
            let token = hold.token;
            pending.acquired(hold);
            pending.released(token);
        }
        let batch = pending.batch(false, BEAT);
        assert_eq!(batch.updates.len(), 1);
        assert_eq!((batch.updates[0].epoch.get(), batch.updates[0].acquisitions), (1_000, 1_000));
        assert!(batch.updates[0].ended_ago.is_some());
        assert!(pending.batch(true, BEAT).updates.is_empty(), "it was written");
    }

    #[test]
    fn what_could_not_be_written_is_written_again_unless_it_has_changed() {
        let mut pending = PendingWrites::default();
        let first = hold("a", 1);
        let token = first.token;
        pending.acquired(first);
        pending.busy(&Arc::from("test"), &LockName::new("b").unwrap());
        let batch = pending.batch(true, BEAT);
        pending.released(token);
        pending.put_back(batch);
        let batch = pending.batch(true, BEAT);
        assert_eq!((batch.updates.len(), batch.updates[0].acquisitions), (1, 1));
        assert!(batch.updates[0].ended_ago.is_some(), "the release is the change");
        assert_eq!(batch.contentions[0].busy, 1);
    }

    #[test]
    fn a_hold_that_was_not_renewed_in_time_is_lost() {
        let mut pending = PendingWrites::default();
        pending.acquired(Hold { ttl: Some(Duration::ZERO), ..hold("a", 1) });
        let batch = pending.batch(true, BEAT);
        assert!(batch.updates.is_empty());
        assert_eq!(batch.ends[0].what, LockEventKind::Lost);
    }

    #[test]
    fn pending_writes_are_bounded() {
        let mut pending = PendingWrites::default();
        for number in 0..PENDING_MAX + 10 {
            pending.busy(&Arc::from("test"), &LockName::new(&number.to_string()).unwrap());
        }
        for number in 0..LOST_MAX + 10 {
            let hold = hold(&number.to_string(), 1);
            let token = hold.token;
            pending.acquired(hold);
            pending.lost(token, "");
        }
        assert_eq!((pending.busy.len(), pending.lost.len()), (PENDING_MAX, LOST_MAX));
        assert_eq!(pending.lost[0].name.as_str(), "10", "the oldest are dropped");
    }
}
