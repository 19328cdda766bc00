//! plan: ticks → jobs. Looks first: an idle planner takes no lead for nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::Instrument;

use crate::node::loops::{AFTER_ERROR, wait};
use crate::node::{Shared, metrics};
use crate::store::{NextPlan, PlanRules, Planned, Reclaimed, StoreResult};

/// After a pass that found something due and could do nothing about it: another node is at it.
const AFTER_NOTHING: Duration = Duration::from_millis(100);

/// Plans until the node stops.
pub(crate) async fn plan(shared: Arc<Shared>) {
    let mut pause = Duration::ZERO;
    let mut orders = shared.store.orders();
    while wait_or_wake(&shared, pause, &mut orders).await {
        pause = match shared.statuses.note(
            "planner",
            plan_pass(&shared).instrument(tracing::debug_span!("plan", node.id = %shared.id)).await,
        ) {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "planning failed");
                shared.keep_quiet();
                AFTER_ERROR
            }
        };
    }
}

/// Waits until then, or until standing orders change; false if the node stops.
async fn wait_or_wake(shared: &Shared, time: Duration, orders: &mut watch::Receiver<()>) -> bool {
    tokio::select! {
        going_on = wait(shared, time) => going_on,
        // The sender lives as long as the store.
        Ok(()) = orders.changed() => true,
    }
}

/// One pass; returns how long there is nothing to plan.
async fn plan_pass(shared: &Shared) -> StoreResult<Duration> {
    let firing = shared.drain.to_plan().await;
    if firing.drains {
        return Ok(shared.options.plan_interval.min(shared.tunable().poll));
    }
    let next = shared.store.next_plan().await?;
    let reaps = next.lease_over && shared.may_reclaim();
    if !is_due(&next) && !reaps {
        return Ok(until_due(&next).min(shared.options.plan_interval));
    }
    let crash_budget = reaps.then_some(shared.options.crash_budget);
    let options = &shared.options;
    let rules = PlanRules {
        manifests_max: shared.tunable().plan_batch,
        group_share: options.plan_group_share,
        lead: crate::crash::planner_leads(),
        crash_budget,
    };
    let ours = if reaps { shared.running.job_ids() } else { Vec::new() };
    tracing::debug!(node.id = %shared.id, "planning cycle started");
    match shared.store.plan_except(rules, ours).await? {
        Planned::Followed => {
            metrics::plan_followed();
            tracing::debug!(node.id = %shared.id, "planning cycle skipped: another node plans");
            Ok(AFTER_NOTHING)
        }
        Planned::Led { due, queued, skipped, reaped, unplannable } => {
            metrics::plan_led(queued, skipped);
            for (key, why) in unplannable {
                tracing::error!(manifest = %key, why, "a manifest cannot be planned");
            }
            warn_of_lost(&reaped);
            if queued > 0 || !reaped.is_empty() {
                shared.has_queued();
            }
            tracing::debug!(node.id = %shared.id, due, queued, skipped, reaped = reaped.len(), "planning cycle completed");
            let nothing = due == 0 && reaped.is_empty();
            if !nothing {
                shared.leadership.won();
            }
            Ok(if nothing { AFTER_NOTHING } else { Duration::ZERO })
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

/// Says whose workers vanished.
pub(crate) fn warn_of_lost(reclaimed: &[Reclaimed]) {
    metrics::lost(reclaimed.len());
    for lost in reclaimed {
        let (job, no) = (lost.claim.job, lost.claim.no);
        tracing::warn!(job.id = %job, claim.no = no, node.id = %lost.node, fate = ?lost.fate, "a worker vanished");
    }
}
