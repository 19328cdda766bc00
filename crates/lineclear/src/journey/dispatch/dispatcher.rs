//! The dispatcher of a node: work_queue → leases of this node, as many jobs as there are free slots.
//!
//! A node with both roles dispatches jobs straight into its leases. A dispatcher without workers dispatches a bounded
//! number of jobs ahead, and workers without a dispatcher claim them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::Name;
use tokio::sync::{mpsc, watch};

use crate::builder;
use crate::journey::claim::reclaim::reclaim_lost;
use crate::journey::claim::renewer::lease;
use crate::journey::dispatch::cursor::Cursor;
use crate::journey::execute::start::start;
use crate::node::Shared;
use crate::node::pacer::Loop;
use crate::options::Role;
use crate::store::{
    Claim, Dispatch, PendingWork, PollCursor, RouteWork, Settlement, StoreError, StoreResult,
};

/// Expired leases that one pass reclaims, and dispatched jobs that it takes back.
const PASS_MAX: u32 = 500;
/// A node that is too busy to poll looks for vanished workers this often.
const RECLAIM: Duration = Duration::from_millis(1500);
/// A dispatcher with a backlog runs again this soon: no notification tells it that its jobs were claimed.
const HANDED_OVER: Duration = Duration::from_millis(200);

pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    settle: mpsc::Sender<Settlement>,
    /// Changes when a client of this process queues something.
    queued: watch::Receiver<()>,
    routes: Vec<Name>,
    reclaim_at: Instant,
    promote_at: Instant,
    /// What it remembers of each route, and of its polls.
    cursors: HashMap<Name, Cursor>,
    polls: PollCursor,
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
            let next = self.dispatch(hurried).await;
            if next.is_err() {
                // The lost answer may have been leases. Noted before the pass ends: until then the node is not drained.
                self.expect_unknown_leases();
            }
            return next;
        }
        self.give_back_unknown().await?;
        // The queue has moved on when the node dispatches again.
        self.cursors.clear();
        Ok(shared.tunable().poll)
    }

    async fn woken(&mut self) {
        tokio::select! {
            () = self.shared.nudge.notified() => {}
            // The sender lives as long as the store.
            Ok(()) = self.queued.changed() => {}
        }
    }

    fn failed(&mut self, _error: &StoreError) {
        self.shared.caution.keep_quiet();
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
            reclaim_at: now,
            promote_at: now,
            cursors: HashMap::new(),
            polls: PollCursor::default(),
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
        self.routes.rotate_left(1);
        let hands_over = !shared.works();
        let tunable = shared.tunable();
        let now = Instant::now();
        let (mut promote, mut reclaim) = (now >= self.promote_at, now >= self.reclaim_at);
        let mut routes: Vec<(Name, u32)> = self.routes.iter().map(|route| (route.clone(), 0)).collect();
        let mut all = routes.clone();
        if !hurried || hands_over {
            if hurried {
                // What it was woken for may lie before the marks.
                self.polls.forget();
            }
            let asked = self.routes.clone();
            let work =
                shared.loop_store.poll_work_from(&mut self.polls, asked, tunable.dispatch_ahead).await?;
            shared.caution.note_answer(now.elapsed());
            (promote, reclaim) = (work.due, work.lease_over);
            all = work.routes.iter().map(|r| (r.route.clone(), r.handed)).collect();
            self.hand_back(&work).await?;
            let waits = work.routes.iter().filter(|r| r.waits || (!hands_over && r.handed > 0));
            routes = waits.map(|r| (r.route.clone(), r.handed)).collect();
        }
        if promote {
            self.promote_at = now + tunable.poll;
            shared.promotion.wake();
        }
        if reclaim {
            self.reclaim_at = now + RECLAIM;
            if reclaim_lost(&shared, PASS_MAX).await? > 0 {
                routes = all.clone();
                // They rank first, and their groups have room.
                self.cursors.clear();
            }
        }
        self.look_at_freed_groups();
        if shared.promotion.take_promoted() {
            routes = all;
            // Promoted jobs may rank first.
            self.cursors.values_mut().for_each(Cursor::restart);
        }
        if hands_over {
            let more = self.hand_over(routes).await?;
            return Ok(if more { HANDED_OVER.min(tunable.poll) } else { tunable.poll });
        }
        let has_slots = self.fill_slots(routes).await?;
        // It was woken, perhaps for a group that it did not look at.
        let groups =
            self.cursors.values().filter_map(Cursor::groups_due_in).min().filter(|_| hurried && has_slots);
        Ok(groups.map_or(tunable.poll, |due_in| due_in.min(tunable.poll)))
    }

    /// Groups of which a job was settled here may have room again.
    fn look_at_freed_groups(&mut self) {
        let freed = self.shared.loop_store.freed_groups.take();
        if !freed.is_empty() {
            self.cursors.values_mut().for_each(|cursor| cursor.may_have_room(&freed));
        }
    }

    /// Leases jobs for free slots and starts them; false if no slot is left.
    async fn fill_slots(&mut self, routes: Vec<(Name, u32)>) -> StoreResult<bool> {
        let shared = self.shared.clone();
        for (route, _) in routes {
            let running = u32::try_from(shared.running.count()).unwrap_or(u32::MAX);
            let free = shared.tunable().slots.saturating_sub(running);
            if free == 0 || shared.isolation.is_wanted() {
                return Ok(false);
            }
            let asked_at = Instant::now();
            let claims = self.lease_jobs(route, free).await?;
            tracing::debug!(node.id = %shared.id, jobs = claims.len(), "dispatched");
            start(&shared, claims, asked_at, &self.settle);
        }
        if shared.loop_store.was_unanswered() {
            self.expect_unknown_leases();
        }
        Ok(true)
    }

    async fn lease_jobs(&mut self, route: Name, most: u32) -> StoreResult<Vec<Claim>> {
        let (store, lease) = (&self.shared.loop_store, lease(&self.shared));
        if !self.shared.options.has(Role::Dispatcher) {
            return store.claim(route, most, lease).await;
        }
        let cursor = self.cursors.entry(route.clone()).or_insert_with(Cursor::unknown);
        let dispatch = Dispatch { limits: self.shared.options.limits, ..Dispatch::new(route, most) };
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

    /// Releases, uncharged, jobs that this node leases according to the database but does not know of. Only this loop
    /// leases jobs, and it does not do so now: a leased job that does not run is unknown.
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
