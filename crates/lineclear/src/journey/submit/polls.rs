//! Workers that pull: polls that wait on this node, and the jobs that its dispatcher gives them.
//!
//! A poll that waits costs no statement: the dispatcher looks for all of them at once, and gives a batch of jobs to as many
//! polls as there are.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lineclear_model::Name;
use tokio::sync::{Notify, oneshot};

use crate::store::{Claim, NodeId};

/// Polls that wait on one node at most.
pub const POLLS_MAX: usize = 20_000;
/// How long a kind without waiting jobs is not looked at again because of a new poll. Queued jobs are announced.
pub(crate) const EMPTY_FOR: Duration = Duration::from_secs(1);
/// A poll for so many jobs of a backlog is served by itself.
const MANY_SLOTS: u32 = 20;

/// A poll that waits for jobs.
#[derive(Debug)]
pub(crate) struct Poll {
    id: u64,
    pub(crate) worker: NodeId,
    kinds: Arc<[Name]>,
    pub(crate) slots: u32,
    /// Its worker was told to drain: it gets nothing.
    drains: bool,
    reply: oneshot::Sender<Vec<Claim>>,
}

impl Poll {
    /// Gives it jobs; returns them if its caller has gone.
    pub(crate) fn give(self, claims: Vec<Claim>) -> Result<(), Vec<Claim>> {
        self.reply.send(claims)
    }

    fn wants(&self, kind: &Name) -> bool {
        !self.drains && self.kinds.contains(kind) && !self.reply.is_closed()
    }
}

#[derive(Default)]
struct State {
    polls: VecDeque<Poll>,
    last_id: u64,
    /// Kinds that had no job waiting a moment ago.
    empty_at: HashMap<Name, Instant>,
    /// Kinds of which the last dispatch got as many jobs as were wanted.
    backlogs: HashSet<Name>,
    /// Workers that were told to drain.
    draining: HashSet<NodeId>,
}

/// The polls that wait on a node.
#[derive(Default)]
pub(crate) struct Polls {
    state: Mutex<State>,
    /// A poll came for a kind that may have jobs waiting.
    pub(crate) arrived: Notify,
}

impl Polls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a poll; its jobs arrive at the receiver. Ends the worker's poll before it. `None`: too many wait.
    pub(crate) fn add(
        &self,
        worker: NodeId,
        kinds: Arc<[Name]>,
        slots: u32,
    ) -> Option<(u64, oneshot::Receiver<Vec<Claim>>)> {
        let mut state = self.state();
        // A worker has one poll: the one before has lost its client, which a proxy may hide.
        while let Some(at) = state.polls.iter().position(|poll| poll.worker == worker) {
            if let Some(before) = state.polls.remove(at) {
                before.give(Vec::new()).ok();
            }
        }
        if state.polls.len() >= POLLS_MAX {
            state.polls.retain(|poll| !poll.reply.is_closed());
            if state.polls.len() >= POLLS_MAX {
                return None;
            }
        }
        state.last_id += 1;
        let id = state.last_id;
        let is_empty = |kind: &Name| state.empty_at.get(kind).is_some_and(|at| at.elapsed() < EMPTY_FOR);
        if !kinds.iter().all(is_empty) {
            self.arrived.notify_one();
        }
        let (reply, receiver) = oneshot::channel();
        let drains = state.draining.contains(&worker);
        state.polls.push_back(Poll { id, worker, kinds, slots, drains, reply });
        Some((id, receiver))
    }

    /// Removes a poll that waits no longer.
    pub(crate) fn remove(&self, id: u64) {
        self.state().polls.retain(|poll| poll.id != id);
    }

    /// How many polls wait.
    pub(crate) fn count(&self) -> usize {
        self.state().polls.len()
    }

    /// The workers whose polls wait.
    pub(crate) fn workers(&self) -> HashSet<NodeId> {
        self.state().polls.iter().filter(|poll| !poll.reply.is_closed()).map(|poll| poll.worker).collect()
    }

    /// Notes which of these workers drain. A poll that waits ends at once and without jobs, so that an idle worker learns it; later
    /// polls of the worker wait, and get nothing.
    pub(crate) fn set_draining(&self, workers: &[(NodeId, bool)]) {
        let mut state = self.state();
        let State { polls, draining, .. } = &mut *state;
        let mut has_changed = false;
        for (worker, drains) in workers {
            has_changed |= if *drains { draining.insert(*worker) } else { draining.remove(worker) };
        }
        // Most calls say what is known, and need not look at every poll.
        if !has_changed {
            return;
        }
        let mut kept = VecDeque::with_capacity(polls.len());
        for mut poll in polls.drain(..) {
            let drains = draining.contains(&poll.worker);
            if drains && !poll.drains {
                // If its caller has gone, nothing is lost.
                drop(poll.give(Vec::new()));
                continue;
            }
            if poll.drains && !drains {
                self.arrived.notify_one();
            }
            poll.drains = drains;
            kept.push_back(poll);
        }
        *polls = kept;
    }

    /// Whether a worker drains, as far as this node knows.
    pub(crate) fn is_draining(&self, worker: NodeId) -> bool {
        self.state().draining.contains(&worker)
    }

    /// Forgets workers that have gone.
    pub(crate) fn forget(&self, gone: &[NodeId]) {
        self.state().draining.retain(|worker| !gone.contains(worker));
    }

    /// The kinds that are waited for, and the slots that are free for each.
    pub(crate) fn wanted(&self) -> BTreeMap<Name, u32> {
        let mut state = self.state();
        state.polls.retain(|poll| !poll.reply.is_closed());
        let mut wanted = BTreeMap::new();
        for poll in state.polls.iter().filter(|poll| !poll.drains) {
            for kind in poll.kinds.iter() {
                let slots: &mut u32 = wanted.entry(kind.clone()).or_default();
                *slots = slots.saturating_add(poll.slots);
            }
        }
        wanted
    }

    /// The slots that are free for one kind.
    pub(crate) fn room_for(&self, kind: &Name) -> u32 {
        let state = self.state();
        let wanting = state.polls.iter().filter(|poll| poll.wants(kind));
        wanting.fold(0, |sum, poll| sum.saturating_add(poll.slots))
    }

    /// Notes that no job of these kinds waits.
    pub(crate) fn none_waiting(&self, kinds: impl Iterator<Item = Name>) {
        let now = Instant::now();
        let mut state = self.state();
        if state.empty_at.len() > POLLS_MAX {
            state.empty_at.clear();
        }
        for kind in kinds {
            state.backlogs.remove(&kind);
            state.empty_at.insert(kind, now);
        }
    }

    /// Notes that jobs of this kind may wait.
    pub(crate) fn some_waiting(&self, kind: &Name) {
        self.state().empty_at.remove(kind);
    }

    /// Notes that a dispatch of this kind got as many jobs as were wanted.
    pub(crate) fn has_backlog(&self, kind: &Name) {
        let mut state = self.state();
        state.empty_at.remove(kind);
        if state.backlogs.len() < POLLS_MAX {
            state.backlogs.insert(kind.clone());
        }
    }

    /// The only poll that waits for a kind, or, of a kind with a backlog, the first that asks for many jobs.
    pub(crate) fn take_for_direct_lease(&self, kind: &Name) -> Option<Poll> {
        let mut state = self.state();
        let mut wanting = (0..state.polls.len()).filter(|at| state.polls[*at].wants(kind));
        let first = wanting.next()?;
        let is_only = wanting.next().is_none();
        let has_many = |at: &usize| state.polls[*at].wants(kind) && state.polls[*at].slots >= MANY_SLOTS;
        let chosen = match is_only {
            true => Some(first),
            false if state.backlogs.contains(kind) => (first..state.polls.len()).find(has_many),
            false => None,
        };
        state.polls.remove(chosen?)
    }

    /// Puts a poll back that got nothing.
    pub(crate) fn put_back(&self, poll: Poll) {
        self.state().polls.push_front(poll);
    }

    /// Divides jobs of a kind among the polls that wait for it, evenly and first come first served. Returns jobs that no poll has
    /// room for.
    pub(crate) fn divide(&self, kind: &Name, claims: Vec<Claim>) -> (Vec<(Poll, Vec<Claim>)>, Vec<Claim>) {
        let mut state = self.state();
        let mut chosen = Vec::new();
        let mut rest = VecDeque::with_capacity(state.polls.len());
        for poll in state.polls.drain(..) {
            // One job each at least.
            let is_chosen = chosen.len() < claims.len() && poll.wants(kind);
            if is_chosen { chosen.push(poll) } else { rest.push_back(poll) }
        }
        state.polls = rest;
        drop(state);
        let mut claims = claims.into_iter();
        let mut shares: Vec<(Poll, Vec<Claim>)> = chosen.into_iter().map(|poll| (poll, Vec::new())).collect();
        let mut given = true;
        while given && claims.len() > 0 {
            given = false;
            for (poll, share) in &mut shares {
                if share.len() < poll.slots as usize
                    && let Some(claim) = claims.next()
                {
                    share.push(claim);
                    given = true;
                }
            }
        }
        (shares, claims.collect())
    }
}

#[cfg(test)]
mod tests {
    use lineclear_model::{Micros, Payload};

    use super::*;
    use crate::store::JobId;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn claims(count: i64) -> Vec<Claim> {
        let at = Micros::from(jiff::Timestamp::UNIX_EPOCH);
        let claim = |id| Claim {
            job: JobId(id),
            no: 1,
            kind: name("a"),
            route: name("pull.a"),
            input: Payload::parse("{}").unwrap(),
            manifest: None,
            tick_at: None,
            origin: lineclear_model::job::Origin::Adhoc,
            limit_key: None,
            backoff: None,
            retries: None,
            timeout: None,
            failures: 0,
            crashes: 0,
            trace: None,
            due_at: at,
            claimed_at: at,
            lease_ends_at: at,
        };
        (1..=count).map(claim).collect()
    }

    /// A poll of another worker.
    fn add(polls: &Polls, kinds: &[&str], slots: u32) -> oneshot::Receiver<Vec<Claim>> {
        let worker = i64::try_from(polls.count()).unwrap() + 1;
        add_of(polls, worker, kinds, slots)
    }

    fn add_of(polls: &Polls, worker: i64, kinds: &[&str], slots: u32) -> oneshot::Receiver<Vec<Claim>> {
        let kinds: Vec<Name> = kinds.iter().map(|kind| name(kind)).collect();
        polls.add(NodeId(worker), kinds.into(), slots).expect("there is room").1
    }

    #[test]
    fn jobs_are_divided_evenly_and_within_the_slots_of_each_poll() {
        let polls = Polls::default();
        let receivers = [
            add(&polls, &["a"], 5),
            add(&polls, &["b"], 5),
            add(&polls, &["a", "b"], 1),
            add(&polls, &["a"], 5),
        ];
        assert_eq!(polls.wanted(), [(name("a"), 11), (name("b"), 6)].into());
        let (shares, left) = polls.divide(&name("a"), claims(12));
        let sizes: Vec<usize> = shares.iter().map(|(_, share)| share.len()).collect();
        assert_eq!((sizes, left.len()), (vec![5, 1, 5], 1));
        assert_eq!(polls.count(), 1, "the poll for b still waits");
        drop(receivers);
    }

    #[test]
    fn few_jobs_go_to_as_many_polls_and_the_others_wait() {
        let polls = Polls::default();
        let receivers = [add(&polls, &["a"], 5), add(&polls, &["a"], 5), add(&polls, &["a"], 5)];
        let (shares, left) = polls.divide(&name("a"), claims(2));
        assert_eq!((shares.len(), left.len(), polls.count()), (2, 0, 1));
        drop(receivers);
    }

    #[test]
    fn of_a_backlog_a_poll_for_many_jobs_is_served_by_itself_and_few_jobs_are_divided() {
        let (polls, a) = (Polls::default(), name("a"));
        let receivers = [add(&polls, &["a"], 5), add(&polls, &["a"], 100), add(&polls, &["a"], 100)];
        assert!(polls.take_for_direct_lease(&a).is_none(), "it is not known whether there are so many");
        polls.has_backlog(&a);
        let direct = polls.take_for_direct_lease(&a).expect("one asks for many");
        assert_eq!((direct.worker, direct.slots), (NodeId(2), 100));
        polls.none_waiting([a.clone()].into_iter());
        assert!(polls.take_for_direct_lease(&a).is_none(), "the backlog is over");
        drop(receivers);
    }

    #[test]
    fn a_worker_that_drains_gets_nothing_until_it_is_resumed() {
        let polls = Polls::default();
        let mut waiting = add(&polls, &["a"], 5);
        polls.set_draining(&[(NodeId(1), true)]);
        assert!(polls.take_for_direct_lease(&name("a")).is_none() && polls.wanted().is_empty());
        assert!(polls.is_draining(NodeId(1)) && waiting.try_recv().unwrap().is_empty(), "it is told at once");
        let mut next = add_of(&polls, 1, &["a"], 5);
        assert!(polls.wanted().is_empty(), "nor does its next poll");
        let (shares, left) = polls.divide(&name("a"), claims(2));
        assert_eq!((shares.len(), left.len(), polls.workers().len()), (0, 2, 1), "it is alive");
        polls.set_draining(&[(NodeId(1), true)]);
        assert!(next.try_recv().is_err(), "it waits: its worker was told before");
        polls.set_draining(&[(NodeId(1), false)]);
        assert_eq!(polls.wanted(), [(name("a"), 5)].into());
    }

    #[test]
    fn a_new_poll_of_a_worker_ends_the_one_before() {
        let polls = Polls::default();
        let mut before = add_of(&polls, 1, &["a"], 5);
        let other = add_of(&polls, 2, &["a"], 5);
        let now = add_of(&polls, 1, &["a"], 3);
        assert_eq!(before.try_recv().map(|claims| claims.len()), Ok(0), "it is answered");
        assert_eq!((polls.count(), polls.room_for(&name("a"))), (2, 8));
        drop((other, now));
    }

    #[test]
    fn a_poll_whose_caller_has_gone_gets_nothing() {
        let polls = Polls::default();
        drop(add(&polls, &["a"], 5));
        assert!(polls.take_for_direct_lease(&name("a")).is_none() && polls.wanted().is_empty());
        let kept = add(&polls, &["a"], 5);
        let poll = polls.take_for_direct_lease(&name("a")).expect("one waits");
        drop(kept);
        assert_eq!(poll.give(claims(1)).map_err(|back| back.len()), Err(1));
    }
}
