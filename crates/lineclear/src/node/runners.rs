//! The loops of a node. Each does one pass, and then waits for its next moment, a nudge, or the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::execute::execute;
use super::lease::{Renewal, lease, trusted_until};
use super::options::Role;
use super::{Shared, builder, wake};
use crate::store::{PlanRules, Planned, Settled, Settlement, Store, StoreError, StoreResult};

/// Settlements that one statement takes.
const SETTLE_MAX: usize = 500;
/// Jobs that one pass promotes, and expired leases that one pass gives up.
const PASS_MAX: u32 = 500;
/// How long to wait after a pass that failed.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// Settling outlives the stop: what finished must be recorded.
const SETTLE_TRIES_MAX: u32 = 30;

/// The running loops.
pub(crate) struct Runners {
    loops: Vec<JoinHandle<()>>,
    settler: Option<JoinHandle<()>>,
    _renewal: Option<Renewal>,
}

impl Runners {
    pub(crate) fn start(shared: &Arc<Shared>, renewal_store: Store) -> std::io::Result<Runners> {
        let mut runners = Runners { loops: Vec::new(), settler: None, _renewal: None };
        runners.loops.push(tokio::spawn(beat(shared.clone())));
        runners.loops.push(tokio::spawn(wake::announce(shared.clone())));
        if shared.options.has(Role::Planner) {
            runners.loops.push(tokio::spawn(plan(shared.clone())));
        }
        if shared.options.has(Role::Cleaner) {
            runners.loops.push(tokio::spawn(clean(shared.clone())));
        }
        if shared.options.has(Role::Workers) {
            runners._renewal = Some(Renewal::start(shared.clone(), renewal_store)?);
            let (settle, settlements) = mpsc::channel(SETTLE_MAX);
            runners.settler = Some(tokio::spawn(settler(shared.clone(), settlements)));
            runners.loops.push(tokio::spawn(take(shared.clone(), settle)));
            runners.loops.push(tokio::spawn(wake::listen(shared.clone())));
        }
        Ok(runners)
    }

    /// Waits for the loops, and for the last settlement.
    pub(crate) async fn end(self) {
        for ended in self.loops {
            drop(ended.await);
        }
        if let Some(settler) = self.settler {
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
        }
    }
    let next = shared.store.next_plan().await?;
    let micros = next.next_due_at.map_or(i64::MAX, |due| due.get() - next.now.get());
    let until_due = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    // A little past the moment, so that the database's clock has surely reached it.
    Ok((until_due + Duration::from_millis(1)).min(shared.options.plan_interval))
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
    let mut quiet_until = Instant::now();
    while !shared.stopping.is_cancelled() {
        let pause = match take_pass(&shared, &settle, quiet_until).await {
            Ok(true) => Duration::ZERO,
            Ok(false) => shared.options.poll,
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "taking work failed");
                if matches!(error, StoreError::Unavailable { .. }) {
                    // After an outage everybody's leases look expired. Who comes back first must not call the others dead.
                    quiet_until = Instant::now() + shared.options.lease / 3;
                }
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

/// One pass; true if there may be more to take at once.
async fn take_pass(
    shared: &Arc<Shared>,
    settle: &mpsc::Sender<Settlement>,
    quiet_until: Instant,
) -> StoreResult<bool> {
    if Instant::now() >= quiet_until {
        for lost in shared.store.reclaim(PASS_MAX, shared.options.crash_budget).await? {
            tracing::warn!(job.id = %lost.claim.job, claim.no = lost.claim.no, node.id = %lost.node, fate = ?lost.fate,
                           "a worker vanished");
        }
    }
    let promoted = shared.store.promote(PASS_MAX).await?;
    let mut more = promoted >= u64::from(PASS_MAX);
    for route in builder::routes(&shared.kinds) {
        let running = u32::try_from(shared.running.count()).unwrap_or(u32::MAX);
        let free = shared.options.slots.saturating_sub(running);
        if free == 0 {
            return Ok(false);
        }
        let asked_at = Instant::now();
        let claims = shared.store.dispatch_into_lease(route, free, lease(shared)).await?;
        more |= claims.len() >= free as usize;
        for claim in claims {
            let cancel = shared.running.add(claim.reference(), trusted_until(shared, asked_at));
            let (shared, settle) = (shared.clone(), settle.clone());
            tokio::spawn(async move {
                let settlement = execute(shared.clone(), claim, cancel).await;
                if settle.send(settlement).await.is_err() {
                    tracing::error!(node.id = %shared.id, "a settlement found nobody to write it");
                }
            });
        }
    }
    Ok(more)
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

/// Tries until it is written: a database that is away for a while must not cost finished work.
async fn settle_batch(shared: &Shared, batch: Vec<Settlement>) {
    for tries in 1..=SETTLE_TRIES_MAX {
        match shared.store.settle(shared.id, batch.clone()).await {
            Ok(answers) => {
                let stale = answers.iter().filter(|answer| **answer == Settled::Stale).count();
                if stale > 0 {
                    tracing::warn!(node.id = %shared.id, stale, "results came too late: others have these jobs now");
                }
                break;
            }
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, tries, jobs = batch.len(), "settling failed");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
    for settlement in &batch {
        shared.running.remove(settlement.claim);
    }
}
