//! plan: manifest → work_queue, whenever a tick has come.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::runners::{AFTER_ERROR, wait};
use crate::store::{PlanRules, Planned, StoreResult};

/// How long to wait when something is due that others plan, or hold.
const AFTER_NOTHING: Duration = Duration::from_millis(250);

/// Turns ticks that have come into jobs, until the node stops.
pub(crate) async fn plan(shared: Arc<Shared>) {
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
