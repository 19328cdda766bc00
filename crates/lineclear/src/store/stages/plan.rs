//! Stage 3, plan: ticks that have come become jobs.

use crate::store::verbs::plan;
use crate::store::{JobId, NextPlan, PlanRules, Planned, Store, StoreResult};

impl Store {
    /// One planning pass: ticks that have come become jobs, or recorded skips.
    pub async fn plan(&self, rules: PlanRules) -> StoreResult<Planned> {
        self.plan_except(rules, Vec::new()).await
    }

    /// The same, but jobs that the caller runs itself are not given up: a node that slept must not call itself dead.
    pub async fn plan_except(&self, rules: PlanRules, ours: Vec<JobId>) -> StoreResult<Planned> {
        let advisory_key = self.options.advisory_key("plan");
        let planned = self.run(plan::Plan { rules, advisory_key, ours }).await?;
        if let Planned::Led { reaped, .. } = &planned {
            self.wake_or_warn(reaped.iter().filter_map(|r| r.limit_key.clone()).collect()).await;
        }
        Ok(planned)
    }

    /// When the next manifest is due.
    pub async fn next_plan(&self) -> StoreResult<NextPlan> {
        self.db.read(plan::PlanNext).await
    }
}
