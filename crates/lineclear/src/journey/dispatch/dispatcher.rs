//! dispatch and claim: work_queue → leased by this node, as many jobs as there are free slots.
//!
//! A node with both roles takes jobs straight into its leases. A dispatcher without workers hands them over, a bounded
//! number ahead, and workers without a dispatcher claim what was handed over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::{Name, Outcome, Verdict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::builder;
use crate::journey::claim::isolation::Leave;
use crate::journey::claim::renewer::{lease, trusted_until};
use crate::journey::dispatch::cursor::Cursor;
use crate::journey::execute::{deadline, execute};
use crate::journey::plan::planner::warn_of_lost;
use crate::node::Shared;
use crate::node::loops::AFTER_ERROR;
use crate::options::Role;
use crate::store::{Claim, ClaimRef, Settlement, StoreResult};

/// Jobs that one pass promotes, and expired leases that one pass gives up.
const PASS_MAX: u32 = 500;
/// Vanished workers are looked for so often by a node that is too busy to look around.
const RECLAIM: Duration = Duration::from_millis(1500);
/// A dispatcher with a backlog looks again so soon: nobody tells it that what it handed over was claimed.
const HANDED_OVER: Duration = Duration::from_millis(200);

/// Takes jobs and runs them, until the node stops.
pub(crate) async fn take(shared: Arc<Shared>, settle: mpsc::Sender<Settlement>) {
    let mut dispatcher = Dispatcher::new(&shared, settle);
    let mut nudged = false;
    while !shared.stopping.is_cancelled() {
        let pause = match shared.statuses.note(
            "dispatcher",
            dispatcher.turn(nudged).instrument(tracing::debug_span!("take", node.id = %shared.id)).await,
        ) {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "taking work failed");
                shared.keep_quiet();
                AFTER_ERROR
            }
        };
        nudged = tokio::select! {
            () = shared.stopping.cancelled() => false,
            () = shared.nudge.notified(), if pause > Duration::ZERO => true,
            () = tokio::time::sleep(pause) => pause == Duration::ZERO,
        }
    }
}

struct Dispatcher {
    shared: Arc<Shared>,
    settle: mpsc::Sender<Settlement>,
    routes: Vec<Name>,
    reclaim_at: Instant,
    promote_at: Instant,
    /// Where the line of each route begins.
    heads: HashMap<Name, Cursor>,
    /// An answer was lost: until then there may be leases of ours that we do not know of.
    forgot_until: Option<Instant>,
    /// They are looked for then.
    give_back_at: Instant,
}

impl Dispatcher {
    fn new(shared: &Arc<Shared>, settle: mpsc::Sender<Settlement>) -> Dispatcher {
        let routes = builder::routes(&shared.options, &shared.kinds).into_iter().collect();
        let now = Instant::now();
        let shared = shared.clone();
        Dispatcher {
            shared,
            settle,
            routes,
            reclaim_at: now,
            promote_at: now,
            heads: HashMap::new(),
            forgot_until: None,
            give_back_at: now,
        }
    }

    /// One pass, unless the node drains: then it takes nothing, and what it holds goes on.
    async fn turn(&mut self, nudged: bool) -> StoreResult<Duration> {
        let shared = self.shared.clone();
        let turn = shared.drain.to_take().await;
        if !turn.drains {
            let passed = self.pass(nudged).await;
            if passed.is_err() {
                // Whatever the answer was, it may have been leases. Noted while it is our turn: nobody says before that it is quiet.
                self.forgot();
            }
            return passed;
        }
        self.give_back_forgotten(&shared).await?;
        // The line has moved on when it takes work again.
        self.heads.clear();
        Ok(shared.tunable().poll)
    }

    /// One pass, and when the next one shall be. Nobody nudged it: it looks around first, which is all that
    /// an idle node costs.
    async fn pass(&mut self, nudged: bool) -> StoreResult<Duration> {
        let shared = self.shared.clone();
        self.give_back_forgotten(&shared).await?;
        // Another route begins each time: one with a backlog must not take all slots from the rest.
        self.routes.rotate_left(1);
        let hands_over = !shared.works();
        let now_holds = shared.tunable();
        let now = Instant::now();
        let (mut promote, mut reclaim) = (now >= self.promote_at, now >= self.reclaim_at);
        let mut routes: Vec<(Name, u32)> = self.routes.iter().map(|route| (route.clone(), 0)).collect();
        let mut all = routes.clone();
        if !nudged || hands_over {
            let look = shared.store.poll_work(self.routes.clone(), now_holds.dispatch_ahead).await?;
            (promote, reclaim) = (look.due, look.lease_over);
            all = look.routes.iter().map(|r| (r.route.clone(), r.handed)).collect();
            let waits = look.routes.iter().filter(|r| r.waits || (!hands_over && r.handed > 0));
            routes = waits.map(|r| (r.route.clone(), r.handed)).collect();
        }
        let (found, more) = self.tend(&shared, promote, reclaim).await?;
        if found {
            routes = all;
            // They may be first in line now.
            self.heads.clear();
        }
        let more = if hands_over {
            if self.hand_over(&shared, routes).await? {
                return Ok(HANDED_OVER.min(now_holds.poll));
            }
            more
        } else {
            self.take(&shared, routes).await? && more
        };
        Ok(if more { Duration::ZERO } else { now_holds.poll })
    }

    /// Takes jobs for free slots; false if there are none left.
    async fn take(&mut self, shared: &Arc<Shared>, routes: Vec<(Name, u32)>) -> StoreResult<bool> {
        for (route, _) in routes {
            let running = u32::try_from(shared.running.count()).unwrap_or(u32::MAX);
            let free = shared.tunable().slots.saturating_sub(running);
            if free == 0 || shared.alone.is_wanted() {
                return Ok(false);
            }
            let waited = in_line(shared, &route, free).await?;
            let (asked_at, lease) = (Instant::now(), lease(shared));
            let claims = if shared.options.has(Role::Dispatcher) {
                let limits = shared.options.limits;
                let head = self.heads.entry(route.clone()).or_insert_with(Cursor::unknown);
                shared.store.dispatch_into_lease_from(head, route, free, lease, limits).await?
            } else {
                shared.store.claim(route, free, lease).await?
            };
            if let Some(waited) = waited {
                let skipped = waited.saturating_sub(claims.len() as u64);
                tracing::debug!(node.id = %shared.id, jobs = claims.len(), skipped, "taken; skipped are those that others took");
            }
            self.begin(shared, claims, asked_at);
        }
        if shared.store.was_unanswered() {
            self.forgot();
        }
        Ok(true)
    }

    fn forgot(&mut self) {
        self.forgot_until = Some(Instant::now() + self.shared.options.lease_length());
        self.give_back_at = Instant::now();
        self.shared.drain.may_yet_take(true);
    }

    /// Starts what was taken; those that run alone after the others.
    fn begin(&self, shared: &Arc<Shared>, claims: Vec<Claim>, asked_at: Instant) {
        let (alone, together): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| is_last_chance(shared, claim));
        let spawn = |claim: Claim, leave: Company| {
            let deadline = deadline(shared, &claim);
            let cancel = shared.running.add(claim.reference(), trusted_until(shared, asked_at), deadline);
            tokio::spawn(run(shared.clone(), claim, leave, cancel, self.settle.clone()));
        };
        for claim in together {
            spawn(claim, Company::Others(shared.alone.together()));
        }
        for claim in alone {
            // Asked here, not in its task: from now on nothing more is taken.
            let company = if shared.alone.ask() { Company::Nobody } else { Company::NotNow };
            spawn(claim, company);
        }
    }

    /// Hands jobs over to whoever claims, a bounded number ahead; says whether there may be more.
    async fn hand_over(&mut self, shared: &Shared, routes: Vec<(Name, u32)>) -> StoreResult<bool> {
        let mut more = false;
        for (route, handed) in routes {
            let room = shared.tunable().dispatch_ahead.saturating_sub(handed);
            let head = self.heads.entry(route.clone()).or_insert_with(Cursor::unknown);
            let dispatched = shared.store.dispatch_from(head, route, room, shared.options.limits).await?;
            if !dispatched.is_empty() {
                shared.queued.notify_one();
            }
            more |= room == 0 || !dispatched.is_empty();
        }
        Ok(more)
    }

    /// Brings due jobs into the line, and those of vanished workers back. Says whether it did, and whether there may be
    /// more.
    async fn tend(&mut self, shared: &Shared, promote: bool, reclaim: bool) -> StoreResult<(bool, bool)> {
        let now = Instant::now();
        let (mut found, mut more) = (false, false);
        if reclaim && shared.may_reclaim() {
            self.reclaim_at = now + RECLAIM;
            let ours = shared.running.job_ids();
            let lost = shared.store.reclaim_except(PASS_MAX, shared.options.crash_budget, ours).await?;
            warn_of_lost(&lost);
            found |= !lost.is_empty();
        }
        if promote {
            let promoted = shared.store.promote(PASS_MAX).await?;
            more = promoted >= u64::from(PASS_MAX);
            self.promote_at = if more { now } else { now + shared.tunable().poll };
            found |= promoted > 0;
        }
        Ok((found, more))
    }

    /// Leases that the database says are ours, and of which we never heard, go back uncharged. Only this loop takes
    /// leases, and it is here: whatever is not among the running is not known to us.
    async fn give_back_forgotten(&mut self, shared: &Shared) -> StoreResult<()> {
        let Some(until) = self.forgot_until else { return Ok(()) };
        // With a long lease this goes on for long: not with every pass.
        if Instant::now() < self.give_back_at {
            return Ok(());
        }
        self.give_back_at = Instant::now() + shared.tunable().poll;
        let back = shared.store.give_back_unknown(shared.id, &shared.running.claims()).await?;
        if back > 0 {
            tracing::warn!(node.id = %shared.id, jobs = back, "gave back jobs whose dispatch was not answered");
        }
        // The statement may still be under way: it is looked for until its lease has surely ended.
        if Instant::now() >= until {
            self.forgot_until = None;
            shared.drain.may_yet_take(false);
        }
        Ok(())
    }
}

/// How many could be taken if nobody else were there. One more statement, so only for those who log this closely.
async fn in_line(shared: &Shared, route: &Name, free: u32) -> StoreResult<Option<u64>> {
    if !tracing::enabled!(tracing::Level::DEBUG) || !shared.options.has(Role::Dispatcher) {
        return Ok(None);
    }
    shared.store.count_ready(route, free).await.map(Some)
}

/// The next vanished worker would bury it.
fn is_last_chance(shared: &Shared, claim: &Claim) -> bool {
    let options = &shared.options;
    options.crashed_alone && claim.crashes > 0 && claim.crashes + 1 >= options.crash_budget
}

/// Beside whom a job runs.
enum Company {
    Others(Leave),
    Nobody,
    /// It should run alone, and another does.
    NotNow,
}

/// Runs a claim and hands its outcome over; whatever happens, it does not stay among the running ones.
async fn run(
    shared: Arc<Shared>,
    claim: Claim,
    company: Company,
    cancel: CancellationToken,
    settle: mpsc::Sender<Settlement>,
) {
    let mut guard = Unsettled { shared: &shared, claim: claim.reference(), handed_over: false };
    let settlement = match company {
        Company::Others(leave) => run_with_leave(&shared, claim, leave, cancel).await,
        Company::Nobody => run_alone(&shared, claim, cancel).await,
        Company::NotNow => Settlement::new(&claim, Outcome::Released, Verdict::Release),
    };
    guard.handed_over = settle.send(settlement).await.is_ok();
}

async fn run_with_leave(
    shared: &Arc<Shared>,
    claim: Claim,
    _leave: Leave,
    cancel: CancellationToken,
) -> Settlement {
    // It is charged for its worker's end only from here on.
    if claim.crashes > 0 && !matches!(shared.store.start(claim.reference()).await, Ok(true)) {
        return Settlement::new(&claim, Outcome::Released, Verdict::Release);
    }
    execute(shared.clone(), claim, cancel).await
}

/// Waits until the others have ended, for a while; told to stop meanwhile, it goes back.
async fn run_alone(shared: &Arc<Shared>, claim: Claim, cancel: CancellationToken) -> Settlement {
    let _over = AloneIsOver(shared);
    tracing::info!(job.id = %claim.job, crashes = claim.crashes, "a job whose workers vanished waits to run alone");
    let leave = tokio::select! {
        leave = shared.alone.alone(shared.options.lease) => leave,
        () = cancel.cancelled() => return Settlement::new(&claim, Outcome::Released, Verdict::Release),
    };
    run_with_leave(shared, claim, leave, cancel).await
}

/// The node takes work again, however it ended.
struct AloneIsOver<'a>(&'a Shared);

impl Drop for AloneIsOver<'_> {
    fn drop(&mut self) {
        self.0.alone.is_over();
        self.0.nudge.notify_one();
    }
}

/// A claim that nobody will settle must not be renewed: its lease ends, and another node takes the job.
struct Unsettled<'a> {
    shared: &'a Shared,
    claim: ClaimRef,
    handed_over: bool,
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if !self.handed_over {
            tracing::error!(job.id = %self.claim.job, "a claim ended without an outcome");
            self.shared.running.remove(self.claim);
        }
    }
}
