//! The dispatcher of a node: work_queue → leases of this node, as many jobs as there are free slots.
//!
//! A node with both roles dispatches jobs straight into its leases. A dispatcher without workers dispatches a bounded
//! number of jobs ahead, and workers without a dispatcher claim them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::Name;
use tokio::sync::{mpsc, watch};

use crate::builder;
use crate::journey::claim::reclaim::{ReclaimCursor, reclaim_lost};
use crate::journey::claim::renewer::lease;
use crate::journey::dispatch::cursor::Cursor;
use crate::journey::dispatch::known_lanes::KnownLanes;
use crate::journey::execute::slots::Room;
use crate::journey::execute::start::{start, start_waiting};
use crate::journey::submit::routes::is_pull_route;
use crate::node::Shared;
use crate::node::pacer::Loop;
use crate::options::Role;
use crate::store::{
    Claim, Dispatch, Lease, PendingWork, PollCursor, RouteWork, Settlement, StoreError, StoreResult,
};

/// Expired leases that one pass reclaims, and dispatched jobs that it takes back.
const PASS_MAX: u32 = 500;
/// A node that is too busy to poll looks for vanished workers this often.
const RECLAIM: Duration = Duration::from_millis(1500);
/// Routes that it remembers something of.
const CURSORS_MAX: usize = 1_000;
/// A dispatcher with a backlog runs again this soon: no notification tells it that its jobs were claimed.
const HANDED_OVER: Duration = Duration::from_millis(200);

pub(crate) struct Dispatcher {
    pub(super) shared: Arc<Shared>,
    pub(super) settle: mpsc::Sender<Settlement>,
    /// Changes when a client of this process queues something.
    queued: watch::Receiver<()>,
    routes: Vec<Name>,
    reclaim_at: Instant,
    promote_at: Instant,
    /// The routes of submitters.
    pub(super) submitters: Vec<Name>,
    /// Which of the kinds that remote workers wait for came first in the last pass.
    pub(super) first_pulled: usize,
    /// Submitters that took no jobs at the last pass.
    pub(super) blocked: BTreeSet<Name>,
    pub(super) known_lanes: KnownLanes,
    /// Submitters and remote workers come before the slots of this node in every other pass.
    lanes_first: bool,
    /// It was woken only because a remote worker asked for jobs.
    for_polls: bool,
    /// The routes that were polled last: marks hold for these.
    polled: Vec<Name>,
    /// What it remembers of each route, and of its polls.
    pub(super) cursors: HashMap<Name, Cursor>,
    polls: PollCursor,
    reclaims: ReclaimCursor,
    /// When to look for dispatched jobs that no worker claims.
    hand_back_at: Instant,
    /// Routes without a worker that claims, until when nothing is handed over there.
    unclaimed: HashMap<Name, Instant>,
    /// An answer was lost: until then the database may hold leases of this node that it does not know of.
    unknown_until: Option<Instant>,
    /// When to ask for them.
    give_back_at: Instant,
}

impl Loop for Dispatcher {
    const NAME: &'static str = "dispatcher";

    /// Dispatches, unless the node drains: then it leases nothing new, and its running jobs go on.
    async fn run_once(&mut self, hurried: bool) -> StoreResult<Duration> {
        let shared = self.shared.clone();
        let pass = shared.drain.begin_dispatch().await;
        if !pass.drains {
            // There may be more slots than before.
            start_waiting(&shared);
            let next = self.dispatch(hurried).await;
            if next.is_err() {
                // The lost answer may have been leases. Noted before the pass ends: until then the node is not drained.
                self.expect_unknown_leases();
            }
            return next;
        }
        shared.slots.give_back(true);
        self.give_back_unknown().await?;
        // The queue has moved on when the node dispatches again.
        self.cursors.clear();
        Ok(shared.tunable().poll)
    }

    async fn woken(&mut self) {
        tokio::select! {
            () = self.shared.nudge.notified() => {}
            () = self.shared.polls.arrived.notified() => self.for_polls = true,
            // The sender lives as long as the store.
            Ok(()) = self.queued.changed() => {}
        }
    }

    fn failed(&mut self, error: &StoreError) {
        self.shared.caution.note_failure(error);
    }
}

impl Dispatcher {
    pub(crate) fn new(shared: &Arc<Shared>, settle: mpsc::Sender<Settlement>) -> Dispatcher {
        let now = Instant::now();
        Dispatcher {
            shared: shared.clone(),
            settle,
            queued: shared.loop_store.work_queued(),
            routes: builder::routes(&shared.options, &shared.kinds).into_iter().collect(),
            submitters: match shared.works() {
                true => builder::submitter_routes(&shared.options, &shared.routing),
                false => Vec::new(),
            },
            first_pulled: 0,
            blocked: BTreeSet::new(),
            known_lanes: KnownLanes::default(),
            lanes_first: false,
            for_polls: false,
            polled: Vec::new(),
            reclaim_at: now,
            promote_at: now,
            cursors: HashMap::new(),
            polls: PollCursor::default(),
            reclaims: ReclaimCursor::default(),
            hand_back_at: now,
            unclaimed: HashMap::new(),
            unknown_until: None,
            give_back_at: now,
        }
    }

    /// One pass, and how long until the next one. Unless it is hurried, it polls first, which is all that an idle node
    /// costs.
    async fn dispatch(&mut self, hurried: bool) -> StoreResult<Duration> {
        let shared = self.shared.clone();
        self.give_back_unknown().await?;
        // Another route begins each time: one with a backlog must not take all slots from the rest.
        if !self.routes.is_empty() {
            self.routes.rotate_left(1);
        }
        let hands_over = !shared.works();
        let tunable = shared.tunable();
        let now = Instant::now();
        let (mut promote, mut reclaim) = (now >= self.promote_at, now >= self.reclaim_at);
        let mut routes: Vec<(Name, u32)> = self.routes.iter().map(|route| (route.clone(), 0)).collect();
        let mut all = routes.clone();
        self.known_lanes.note_announced(shared.loop_store.announced_work());
        // Room of submitters and of remote workers that wait.
        let mut lanes = self.remote_lanes();
        let mut all_lanes = lanes.clone();
        if std::mem::take(&mut self.for_polls) && hurried {
            routes.clear();
        }
        if !hurried || hands_over {
            let asked: Vec<Name> =
                self.routes.iter().cloned().chain(lanes.iter().map(|lane| lane.route.clone())).collect();
            if asked.is_empty() {
                return Ok(tunable.poll);
            }
            if hurried || self.polled.iter().collect::<HashSet<_>>() != asked.iter().collect() {
                // What it was woken for may lie before the marks, and so may the jobs of another route.
                self.polls.forget();
            }
            self.polled.clone_from(&asked);
            let work =
                shared.loop_store.poll_work_from(&mut self.polls, asked, tunable.dispatch_ahead).await?;
            shared.caution.note_answer(now.elapsed());
            (promote, reclaim) = (work.due, work.lease_over);
            if reclaim {
                // There is one, wherever it lies.
                self.reclaims.forget();
            }
            let is_local = |r: &&RouteWork| self.routes.contains(&r.route);
            all = work.routes.iter().filter(is_local).map(|r| (r.route.clone(), r.handed)).collect();
            let waits = |r: &&RouteWork| r.waits || (!hands_over && r.handed > 0);
            routes = work
                .routes
                .iter()
                .filter(is_local)
                .filter(waits)
                .map(|r| (r.route.clone(), r.handed))
                .collect();
            self.keep_waiting(&mut lanes, &work);
            self.hand_back(&work).await?;
        } else {
            self.ask_about(&mut lanes).await?;
        }
        if promote {
            self.promote_at = now + tunable.poll;
            shared.promotion.wake();
        }
        if reclaim {
            self.reclaim_at = now + RECLAIM;
            if reclaim_lost(&shared, &mut self.reclaims, PASS_MAX).await? > 0 {
                routes = all.clone();
                lanes = all_lanes.clone();
                self.known_lanes.forget_empty();
                // They rank first, and their groups have room.
                self.cursors.clear();
            }
        }
        self.look_at_freed_groups();
        if shared.promotion.take_promoted() {
            routes = all;
            lanes = std::mem::take(&mut all_lanes);
            self.known_lanes.forget_empty();
            // Promoted jobs may rank first.
            self.cursors.values_mut().for_each(Cursor::restart);
        }
        if hands_over {
            self.serve_lanes(lanes).await?;
            let more = self.hand_over(routes).await?;
            return Ok(if more { HANDED_OVER.min(tunable.poll) } else { tunable.poll });
        }
        // Neither waits for a backlog of the other each time, nor gets every place of a limit that both want.
        self.lanes_first = !self.lanes_first;
        if self.lanes_first {
            self.serve_lanes(std::mem::take(&mut lanes)).await?;
        }
        let has_slots = self.fill_slots(routes).await?;
        self.serve_lanes(lanes).await?;
        // It was woken, perhaps for a group that it did not look at.
        let groups =
            self.cursors.values().filter_map(Cursor::groups_due_in).min().filter(|_| hurried && has_slots);
        Ok(groups.map_or(tunable.poll, |due_in| due_in.min(tunable.poll)))
    }

    /// As after a look at very many groups, of which none has room; not repeated while a test runs.
    #[cfg(test)]
    pub(crate) fn knows_no_group_with_room(&mut self, route: Name) {
        let mut cursor = Cursor::unknown();
        cursor.keep_groups();
        self.cursors.insert(route, cursor);
    }

    /// Groups of which a job was settled here may have room again.
    fn look_at_freed_groups(&mut self) {
        let freed = self.shared.loop_store.freed_groups.drain();
        if !freed.is_empty() {
            self.cursors.values_mut().for_each(|cursor| cursor.may_have_room(&freed));
        }
    }

    /// Leases jobs for free slots and starts them; false if no slot is left.
    async fn fill_slots(&mut self, routes: Vec<(Name, u32)>) -> StoreResult<bool> {
        let shared = self.shared.clone();
        for (route, _) in routes {
            let room = shared.slots.room(&shared);
            if room.most == 0 || shared.isolation.is_wanted() {
                return Ok(false);
            }
            let asked_at = Instant::now();
            let claims = self.lease_jobs(route, room, lease(&shared)).await?;
            tracing::debug!(node.id = %shared.id, jobs = claims.len(), asked = room.most, "dispatched");
            shared.slots.arrived(room.most, claims.len(), shared.tunable().slots);
            start(&shared, claims, asked_at, room.ahead > 0, &self.settle);
        }
        if shared.loop_store.was_unanswered() {
            self.expect_unknown_leases();
        }
        Ok(true)
    }

    pub(super) async fn lease_jobs(
        &mut self,
        route: Name,
        Room { most, ahead }: Room,
        lease: Lease,
    ) -> StoreResult<Vec<Claim>> {
        let store = &self.shared.loop_store;
        // A server dispatches for the workers that poll it.
        if !self.shared.options.has(Role::Dispatcher) && !is_pull_route(&route) {
            return store.claim(route, most - ahead, lease).await;
        }
        if self.cursors.len() >= CURSORS_MAX {
            self.cursors.clear();
        }
        let cursor = self.cursors.entry(route.clone()).or_insert_with(Cursor::unknown);
        let dispatch = Dispatch { ahead, limits: self.shared.options.limits, ..Dispatch::new(route, most) };
        store.dispatch_into_lease_from(cursor, dispatch, lease).await
    }

    /// Dispatches a bounded number of jobs ahead, for workers to claim; returns whether there may be more.
    async fn hand_over(&mut self, routes: Vec<(Name, u32)>) -> StoreResult<bool> {
        let shared = &self.shared;
        let mut more = false;
        for (route, handed) in routes {
            if self.unclaimed.contains_key(&route) {
                continue;
            }
            let room = shared.tunable().dispatch_ahead.saturating_sub(handed);
            let cursor = self.cursors.entry(route.clone()).or_insert_with(Cursor::unknown);
            let dispatch = Dispatch { limits: shared.options.limits, ..Dispatch::new(route, room) };
            let dispatched = shared.loop_store.dispatch_from(cursor, dispatch).await?;
            if !dispatched.is_empty() {
                shared.loop_store.announce_work();
            }
            more |= room == 0 || !dispatched.is_empty();
        }
        Ok(more)
    }

    /// Takes back what no worker claimed within a lease, and hands nothing over on those routes for another lease.
    async fn hand_back(&mut self, work: &PendingWork) -> StoreResult<()> {
        let (now, lease) = (Instant::now(), self.shared.options.lease);
        self.unclaimed.retain(|_, until| *until > now);
        if now < self.hand_back_at || work.routes.iter().all(|route| route.handed == 0) {
            return Ok(());
        }
        self.hand_back_at = now + lease / 3;
        for RouteWork { route, .. } in work.routes.iter().filter(|route| route.handed > 0) {
            if self.shared.loop_store.hand_back(route, PASS_MAX, lease).await? > 0 {
                tracing::warn!(node.id = %self.shared.id, %route, "no worker claims the jobs of this route; they went back into the queue");
                self.unclaimed.insert(route.clone(), now + lease);
            }
        }
        Ok(())
    }

    fn expect_unknown_leases(&mut self) {
        self.unknown_until = Some(Instant::now() + self.shared.options.lease_length());
        self.give_back_at = Instant::now();
        self.shared.drain.may_hold_unknown_leases(true);
    }

    /// Releases, uncharged, jobs that this node leases according to the database but does not know of. Apart from inline callers,
    /// only this loop leases jobs, and it does not do so now: a leased job that does not run is unknown.
    async fn give_back_unknown(&mut self) -> StoreResult<()> {
        let Some(until) = self.unknown_until else { return Ok(()) };
        // With a long lease this takes long: not with every pass.
        if Instant::now() < self.give_back_at {
            return Ok(());
        }
        let shared = &self.shared;
        self.give_back_at = Instant::now() + shared.tunable().poll;
        let back = shared.loop_store.give_back_unknown(shared.id, &shared.running.claims()).await?;
        if back > 0 {
            self.known_lanes.forget_empty();
            tracing::warn!(node.id = %shared.id, jobs = back, "gave back jobs whose dispatch was not answered");
        }
        // The statement may still run in the database: leases may appear until one that it made has surely ended.
        if Instant::now() >= until {
            self.unknown_until = None;
            shared.drain.may_hold_unknown_leases(false);
        }
        Ok(())
    }
}
