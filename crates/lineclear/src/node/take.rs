//! dispatch and claim: work_queue → leased by this node, as many jobs as there are free slots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::Name;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::execute::execute;
use super::lease::{lease, trusted_until};
use super::runners::AFTER_ERROR;
use super::{Shared, builder};
use crate::store::{Claim, ClaimRef, Settlement, StoreResult};

/// Jobs that one pass promotes, and expired leases that one pass gives up.
const PASS_MAX: u32 = 500;
/// Vanished workers are looked for so often.
const RECLAIM: Duration = Duration::from_millis(1500);

/// Takes jobs and runs them, until the node stops.
pub(crate) async fn take(shared: Arc<Shared>, settle: mpsc::Sender<Settlement>) {
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
        let more = self.tend(&shared).await?;
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
        Ok(more)
    }

    /// Brings due jobs into the line, and those of vanished workers back, each in its own time; true if more are due.
    async fn tend(&mut self, shared: &Shared) -> StoreResult<bool> {
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
            return Ok(more);
        }
        Ok(false)
    }
}

/// Runs a claim and hands its outcome over; whatever happens, it does not stay among the running ones.
async fn run(shared: Arc<Shared>, claim: Claim, cancel: CancellationToken, settle: mpsc::Sender<Settlement>) {
    let mut guard = Unsettled { shared: &shared, claim: claim.reference(), handed_over: false };
    let settlement = execute(shared.clone(), claim, cancel).await;
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
