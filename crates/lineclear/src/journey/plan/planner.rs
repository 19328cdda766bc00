//! The planner of a node: ticks → jobs. It first reads when the next manifest is due: an idle planner takes no lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::journey::claim::reclaim::{ReclaimCursor, reclaim_lost};
use crate::node::pacer::Loop;
use crate::node::{Shared, metrics};
use crate::options::Role;
use crate::store::{NextPlan, PlanCursor, PlanRules, Planned, StoreError, StoreResult};

/// After a pass that found something due and planned nothing: another node plans it.
const AFTER_NOTHING: Duration = Duration::from_millis(100);
/// Expired leases that one pass reclaims.
const RECLAIM_MAX: u32 = 500;

pub(crate) struct Planner {
    shared: Arc<Shared>,
    /// Changes when manifests do.
    manifests: watch::Receiver<()>,
    /// The node has no dispatcher and no workers, which would reclaim the jobs of vanished workers.
    reclaims: bool,
    cursor: PlanCursor,
}

impl Planner {
    pub(crate) fn new(shared: &Arc<Shared>) -> Planner {
        let reclaims = !shared.works() && !shared.options.has(Role::Dispatcher);
        Planner {
            shared: shared.clone(),
            manifests: shared.loop_store.manifests_changed(),
            reclaims,
            cursor: PlanCursor::default(),
        }
    }
}

impl Loop for Planner {
    const NAME: &'static str = "planner";

    async fn run_once(&mut self, _hurried: bool) -> StoreResult<Duration> {
        let shared = &self.shared;
        let pass = shared.drain.begin_plan().await;
        if pass.drains {
            return Ok(shared.options.plan_interval.min(shared.tunable().poll));
        }
        let asked_at = Instant::now();
        let next = shared.loop_store.next_plan_from(&mut self.cursor).await?;
        shared.caution.note_answer(asked_at.elapsed());
        if self.reclaims && next.lease_over {
            let mut cursor = ReclaimCursor::default();
            if reclaim_lost(shared, &mut cursor, RECLAIM_MAX).await? > 0 {
                shared.has_queued();
            }
        }
        if !is_due(&next) {
            return Ok(until_due(&next).min(shared.options.plan_interval));
        }
        plan(shared).await
    }

    async fn woken(&mut self) {
        // The sender lives as long as the store.
        if self.manifests.changed().await.is_err() {
            std::future::pending::<()>().await
        }
        self.cursor.forget();
    }

    fn failed(&mut self, error: &StoreError) {
        // An application may lock a table that only planning needs.
        self.shared.caution.note_other_failure(error);
    }
}

/// One planning cycle; returns how long there is nothing to plan.
async fn plan(shared: &Shared) -> StoreResult<Duration> {
    let rules = PlanRules {
        manifests_max: shared.tunable().plan_batch,
        group_share: shared.options.plan_group_share,
        lead: crate::crash::planner_leads(),
    };
    tracing::debug!(node.id = %shared.id, "planning cycle started");
    match shared.loop_store.plan(rules).await? {
        Planned::Followed => {
            metrics::plan_followed();
            tracing::debug!(node.id = %shared.id, "planning cycle skipped: another node plans");
            Ok(AFTER_NOTHING)
        }
        Planned::Led { due, queued, skipped, unplannable } => {
            metrics::plan_led(queued, skipped);
            for (key, why) in unplannable {
                tracing::error!(manifest = %key, why, "a manifest cannot be planned");
            }
            if queued > 0 {
                shared.has_queued();
            }
            tracing::debug!(node.id = %shared.id, due, queued, skipped, "planning cycle completed");
            if due == 0 {
                return Ok(AFTER_NOTHING);
            }
            shared.leadership.won();
            Ok(Duration::ZERO)
        }
    }
}

fn is_due(next: &NextPlan) -> bool {
    next.next_due_at.is_some_and(|due| due <= next.now)
}

/// A little past the moment, so that the database's clock has surely reached it.
fn until_due(next: &NextPlan) -> Duration {
    let micros = next.next_due_at.map_or(i64::MAX, |due| due.get() - next.now.get());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0)).saturating_add(Duration::from_millis(1))
}
