//! Losing a race, on PostgreSQL: two transactions driven through the interleavings that matter.

mod operators;
mod dispatch;
mod fan_in;
mod unique_keys;
mod plan;
mod settle;

use std::time::Duration;

use lineclear_model::job::Origin;
use lineclear_model::schedule::Need;
use lineclear_model::{Failure, Micros, Outcome, Overlap, Verdict};

use crate::journey::dispatch::cursor::FRONT;
use crate::journey::dispatch::lanes::{DispatchGated, DispatchOpen, Request};
use crate::journey::plan::Plan;
use crate::journey::plan::firing;
use crate::journey::plan::firing::{Fired, Firing, JobTemplate};
use crate::journey::settle::Settle;
use crate::manifests::pause::SetEnabled;
use crate::tests::*;

fn complete(claim: &Claim) -> Settlement {
    Settlement::new(claim, Outcome::Completed { output: None }, Verdict::Complete)
}

fn bury(claim: &Claim) -> Settlement {
    let outcome = Outcome::DeadLetter(Failure::new("x", "broken"));
    Settlement::new(claim, outcome, Verdict::Bury { reason: lineclear_model::DeadReason::Permanent })
}

fn settle_verb(claim: &Claim) -> Settle {
    Settle { node: NodeId(1), settlements: vec![complete(claim)] }
}

fn wants(most: u32) -> Request {
    let groups = Some((1..=10).collect());
    Request {
        route: main_route(),
        most,
        ahead: 0,
        lease: Some(lease(1)),
        limits: Limits::Exact,
        from: FRONT,
        groups,
    }
}

async fn due(pg: &Pg) {
    pg.sql(
        "update lineclear.manifest set next_due_at = next_due_at - interval '1 day', \
            planned_through = planned_through - interval '1 day'",
    )
    .await;
}

const UNLED: PlanRules = PlanRules { manifests_max: 1000, group_share: 0, lead: false };

fn plan_verb() -> Plan {
    Plan { rules: UNLED, advisory_key: 0 }
}
