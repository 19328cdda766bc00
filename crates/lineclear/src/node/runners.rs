//! The loops of a node. Each does one pass, and then waits for its next moment, a nudge, or the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::Name;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::execute::execute;
use super::lease::{Renewal, lease, trusted_until};
use super::options::Role;
use super::{Shared, builder, wake};
use crate::store::{
    Claim, ClaimRef, PlanRules, Planned, Settled, Settlement, Store, StoreError, StoreResult,
};

/// Settlements that one statement takes.
const SETTLE_MAX: usize = 500;
/// Jobs that one pass promotes, and expired leases that one pass gives up.
const PASS_MAX: u32 = 500;
/// How long to wait after a pass that failed.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// Settling outlives the stop, for so long: what finished must be recorded.
const SETTLE_AFTER_STOP: Duration = Duration::from_secs(30);
/// Vanished workers are looked for so often.
const RECLAIM: Duration = Duration::from_millis(1500);
/// How long to wait when something is due that others plan, or hold.
const AFTER_NOTHING: Duration = Duration::from_millis(250);

/// The running loops.
pub(crate) struct Runners {
    loops: Vec<JoinHandle<()>>,
    settler: Option<JoinHandle<()>>,
    _renewal: Option<Renewal>,
}

impl Runners {
    pub(crate) fn start(shared: &Arc<Shared>, renewal_store: Store) -> std::io::Result<Runners> {
        let works = shared.options.has(Role::Workers) && !shared.kinds.is_empty();
        let renewal = works.then(|| Renewal::start(shared.clone(), renewal_store)).transpose()?;
        let mut runners = Runners { loops: Vec::new(), settler: None, _renewal: renewal };
        runners.loops.push(tokio::spawn(beat(shared.clone())));
        runners.loops.push(tokio::spawn(wake::announce(shared.clone())));
        if shared.options.has(Role::Planner) {
            runners.loops.push(tokio::spawn(plan(shared.clone())));
        }
        if shared.options.has(Role::Cleaner) {
            runners.loops.push(tokio::spawn(clean(shared.clone())));
        }
        if works {
            let (settle, settlements) = mpsc::channel(SETTLE_MAX);
            runners.settler = Some(tokio::spawn(settler(shared.clone(), settlements)));
            runners.loops.push(tokio::spawn(take(shared.clone(), settle)));
            runners.loops.push(tokio::spawn(wake::listen(shared.clone())));
        }
        Ok(runners)
    }

    /// Waits until the loops have ended: from then on no new job comes.
    pub(crate) async fn end_loops(&mut self) {
        for ended in self.loops.drain(..) {
            drop(ended.await);
        }
    }

    /// Waits for the last settlement; leases are renewed until then.
    pub(crate) async fn end_settling(mut self) {
        if let Some(settler) = self.settler.take() {
            drop(settler.await);
        }
    }
}

/// Waits; false if the node stops.
async fn wait(shared: &Shared, time: Duration) -> bool {
    tokio::select! {
        () = shared.stopping.cancelled() => false,
        () = tokio::time::sleep(time) => true,
    }
}

/// Says that the node is alive.
async fn beat(shared: Arc<Shared>) {
    while wait(&shared, shared.options.heartbeat).await {
        if let Err(error) = shared.store.beat(shared.info.clone()).await {
            tracing::warn!(%error, node.id = %shared.id, "heartbeat failed");
        }
    }
}

/// plan: ticks that have come become jobs.
async fn plan(shared: Arc<Shared>) {
    let mut pause = Duration::ZERO;
    while wait(&shared, pause).await {
        pause = match plan_pass(&shared).await {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "planning failed");
                AFTER_ERROR
            }
        };
    }
}

/// One pass; returns how long there is nothing to plan.
async fn plan_pass(shared: &Shared) -> StoreResult<Duration> {
    let rules = PlanRules::default();
    let mut at_least = AFTER_NOTHING;
    match shared.store.plan(rules).await? {
        Planned::Followed => tracing::debug!(node.id = %shared.id, "planning skipped: another node plans"),
        Planned::Led { due, queued, skipped, unplannable } => {
            for (key, why) in unplannable {
                tracing::error!(manifest = %key, why, "a manifest cannot be planned");
            }
            if queued > 0 {
                shared.has_queued();
            }
            tracing::debug!(node.id = %shared.id, due, queued, skipped, "planned");
            if due >= u64::from(rules.manifests_max) {
                return Ok(Duration::ZERO);
            }
            if due > 0 {
                // A little past the moment, so that the database's clock has surely reached it.
                at_least = Duration::from_millis(1);
            }
        }
    }
    let next = shared.store.next_plan().await?;
    let micros = next.next_due_at.map_or(i64::MAX, |due| due.get() - next.now.get());
    let until_due = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    if until_due > Duration::ZERO {
        at_least = Duration::from_millis(1);
    }
    Ok((until_due + at_least).min(shared.options.plan_interval))
}

/// clean: what is long over goes.
async fn clean(shared: Arc<Shared>) {
    while wait(&shared, shared.options.clean_interval).await {
        loop {
            match shared.store.clean(&shared.options.retention, 1_000).await {
                Ok(cleaned) if cleaned.is_nothing() => break,
                Ok(cleaned) => tracing::debug!(node.id = %shared.id, ?cleaned, "cleaned"),
                Err(error) => {
                    tracing::warn!(%error, node.id = %shared.id, "cleaning failed");
                    break;
                }
            }
            if shared.stopping.is_cancelled() {
                return;
            }
        }
    }
}

/// dispatch and claim: takes as many jobs as there are free slots, and runs them.
async fn take(shared: Arc<Shared>, settle: mpsc::Sender<Settlement>) {
    let mut taker = Taker::new(&shared, settle);
    while !shared.stopping.is_cancelled() {
        let pause = match taker.pass().await {
            Ok(true) => Duration::ZERO,
            Ok(false) => shared.options.poll,
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "taking work failed");
                taker.keep_quiet();
                AFTER_ERROR
            }
        };
        tokio::select! {
            () = shared.stopping.cancelled() => {}
            () = shared.nudge.notified(), if pause > Duration::ZERO => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

struct Taker {
    shared: Arc<Shared>,
    settle: mpsc::Sender<Settlement>,
    routes: Vec<Name>,
    reclaim_at: Instant,
    promote_at: Instant,
}

impl Taker {
    fn new(shared: &Arc<Shared>, settle: mpsc::Sender<Settlement>) -> Taker {
        let routes = builder::routes(&shared.kinds).into_iter().collect();
        let now = Instant::now();
        let mut taker = Taker { shared: shared.clone(), settle, routes, reclaim_at: now, promote_at: now };
        // We may have been started in the middle of an outage.
        taker.keep_quiet();
        taker
    }

    /// After an outage everybody's leases look expired. Who comes back first must not call the others dead.
    fn keep_quiet(&mut self) {
        self.reclaim_at = Instant::now() + self.shared.options.lease / 3;
    }

    /// One pass; true if there may be more to take at once.
    async fn pass(&mut self) -> StoreResult<bool> {
        let shared = self.shared.clone();
        self.tend(&shared).await?;
        // Another route begins each time: one with a backlog must not take all slots from the rest.
        self.routes.rotate_left(1);
        for route in &self.routes {
            let free = shared
                .options
                .slots
                .saturating_sub(u32::try_from(shared.running.count()).unwrap_or(u32::MAX));
            if free == 0 {
                return Ok(false);
            }
            let asked_at = Instant::now();
            for claim in shared.store.dispatch_into_lease(route.clone(), free, lease(&shared)).await? {
                let cancel = shared.running.add(claim.reference(), trusted_until(&shared, asked_at));
                tokio::spawn(run(shared.clone(), claim, cancel, self.settle.clone()));
            }
        }
        Ok(false)
    }

    /// Brings due jobs into the line, and those of vanished workers back, each in its own time.
    async fn tend(&mut self, shared: &Shared) -> StoreResult<()> {
        let now = Instant::now();
        if now >= self.reclaim_at {
            self.reclaim_at = now + RECLAIM;
            let ours = shared.running.job_ids();
            for lost in shared.store.reclaim_except(PASS_MAX, shared.options.crash_budget, ours).await? {
                let (job, no) = (lost.claim.job, lost.claim.no);
                tracing::warn!(job.id = %job, claim.no = no, node.id = %lost.node, fate = ?lost.fate, "a worker vanished");
            }
        }
        if now >= self.promote_at {
            let promoted = shared.store.promote(PASS_MAX).await?;
            let more = promoted >= u64::from(PASS_MAX);
            self.promote_at = if more { now } else { now + shared.options.poll };
        }
        Ok(())
    }
}

/// Runs a claim and hands its outcome over; whatever happens, it does not stay among the running ones.
async fn run(shared: Arc<Shared>, claim: Claim, cancel: CancellationToken, settle: mpsc::Sender<Settlement>) {
    let guard = Unsettled { shared: &shared, claim: claim.reference(), handed_over: false };
    let settlement = execute(shared.clone(), claim, cancel).await;
    let mut guard = guard;
    guard.handed_over = settle.send(settlement).await.is_ok();
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

/// settle: whatever has finished, together.
async fn settler(shared: Arc<Shared>, mut settlements: mpsc::Receiver<Settlement>) {
    let mut batch = Vec::with_capacity(SETTLE_MAX);
    while settlements.recv_many(&mut batch, SETTLE_MAX).await > 0 {
        settle_batch(&shared, std::mem::take(&mut batch)).await;
        // Slots became free.
        shared.nudge.notify_one();
    }
}

/// Tries until it is written: a database that is away for a while must not cost finished work. Leases are renewed
/// meanwhile, and a result that comes too late changes nothing. Only a node that stops gives up after a while.
async fn settle_batch(shared: &Shared, batch: Vec<Settlement>) {
    let mut give_up_at = None;
    loop {
        let error = match shared.store.settle(shared.id, batch.clone()).await {
            Ok(answers) => {
                let stale = answers.iter().filter(|answer| **answer == Settled::Stale).count();
                if stale > 0 {
                    tracing::warn!(node.id = %shared.id, stale, "results came too late: others have these jobs now");
                }
                break;
            }
            Err(error) => error,
        };
        tracing::warn!(%error, node.id = %shared.id, jobs = batch.len(), "settling failed");
        if batch.len() > 1 && !matches!(error, StoreError::Unavailable { .. } | StoreError::Contended { .. })
        {
            // One of them is to blame; the others must not wait for it.
            for one in batch {
                Box::pin(settle_batch(shared, vec![one])).await;
            }
            return;
        }
        if matches!(error, StoreError::Corrupt { .. }) {
            tracing::error!(%error, job.id = %batch[0].claim.job, "an outcome cannot be recorded; the job will run again");
            break;
        }
        if shared.stopping.is_cancelled() {
            let at = *give_up_at.get_or_insert_with(|| Instant::now() + SETTLE_AFTER_STOP);
            if Instant::now() >= at {
                let jobs: Vec<i64> = batch.iter().map(|settlement| settlement.claim.job.0).collect();
                tracing::error!(%error, ?jobs, "outcomes are lost with this node; these jobs will run again");
                break;
            }
        }
        tokio::time::sleep(AFTER_ERROR).await;
    }
    for settlement in &batch {
        shared.running.remove(settlement.claim);
    }
}
