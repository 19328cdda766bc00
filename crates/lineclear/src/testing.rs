//! A node for the tests of your program: in memory, with a clock that you set, and without background loops.
//!
//! It takes the same [`Builder`] as the real node, and treats each job as the real node does; only you decide when. See
//! `docs/testing.md` for a guide.

mod expect;

use std::sync::Arc;
use std::time::Instant;

use lineclear_model::{Name, Outcome};
use serde::Serialize;

use crate::builder::{routes, submitter_routes};
pub use crate::db::clock::Clock;
use crate::journey::claim::renewer::{lease, trusted_until};
use crate::journey::execute::{deadline, execute};
use crate::journey::settle::settler::settle_one;
use crate::node::{Builder, Client, Shared, StartError};
use crate::store::{Claim, Dispatch, Enqueued, JobId, PlanRules, Planned, Store, StoreOptions, StoreResult};

/// The time at which tests start by default.
const BEGIN: &str = "2026-01-01T00:00:00Z";
/// Rows that one pass moves.
const PASS_MAX: u32 = 500;
/// Jobs that one drain runs before it panics.
const DRAIN_MAX: usize = 10_000;

/// A node in memory that works only when its methods are called.
pub struct TestNode {
    shared: Arc<Shared>,
    clock: Clock,
}

/// A job that was run, and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: Name,
    /// The outcome of its handler; [`TestNode::assert_dead`] and others check the state of the job.
    pub outcome: Outcome,
}

impl std::fmt::Debug for TestNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestNode").field("now", &self.clock.now()).finish_non_exhaustive()
    }
}

impl TestNode {
    /// Starts it with the kinds, states, manifests and options of `builder`, on a new store in memory, at the beginning of
    /// 2026.
    pub async fn start(builder: Builder) -> Result<TestNode, StartError> {
        TestNode::start_at(BEGIN, builder).await
    }

    /// Like [`TestNode::start`], at another time: `2026-03-29T00:30:00Z`, or `2026-03-29T01:30:00[Europe/Berlin]`.
    ///
    /// # Panics
    ///
    /// If `moment` is not a valid time.
    pub async fn start_at(moment: &str, mut builder: Builder) -> Result<TestNode, StartError> {
        let clock = Clock::new(crate::db::clock::parse(moment));
        let (kinds, routing) = builder.checked_kinds()?;
        let store = Store::open(StoreOptions::in_memory(clock.clone())).await?;
        Ok(TestNode { shared: builder.share(kinds, routing, store).await?, clock })
    }

    /// The clock for everything: due times, schedules, retries, leases.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The store, for everything that has no shorthand here.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The client for the program under test.
    pub fn client(&self) -> Client {
        Client { shared: self.shared.clone() }
    }

    /// Enqueues a job of `kind`, due now; see [`Client::enqueue`].
    pub async fn enqueue(&self, kind: &str, input: &(impl Serialize + ?Sized)) -> StoreResult<Enqueued> {
        self.client().enqueue(kind, input).await
    }

    /// Turns due ticks into jobs, as the planner does. [`TestNode::drain`] and [`TestNode::run_one`] call it.
    pub async fn plan(&self) {
        let rules = PlanRules::default();
        loop {
            let planned = sure(self.store().plan(rules).await);
            let Planned::Led { due, unplannable, .. } = planned else { return };
            assert!(unplannable.is_empty(), "manifests cannot be planned: {unplannable:?}");
            if due < u64::from(rules.manifests_max) {
                return;
            }
        }
    }

    /// Runs the first due job, if there is one: from claim to settlement, as a node does.
    pub async fn run_one(&self) -> Option<Ran> {
        self.plan().await;
        while sure(self.store().promote(PASS_MAX).await) >= u64::from(PASS_MAX) {}
        sure(self.store().reclaim(PASS_MAX, self.shared.options.crash_budget).await);
        let shared = &self.shared;
        let submitters = submitter_routes(&shared.options, &shared.routing);
        for route in routes(&shared.options, &shared.kinds).into_iter().chain(submitters) {
            let asked_at = Instant::now();
            let claims =
                sure(self.store().dispatch_into_lease(Dispatch::new(route, 1), lease(&self.shared)).await);
            if let Some(claim) = claims.into_iter().next() {
                return Some(self.run(claim, asked_at).await);
            }
        }
        None
    }

    async fn run(&self, claim: Claim, asked_at: Instant) -> Ran {
        let (job, kind) = (claim.job, claim.kind.clone());
        let shared = &self.shared;
        let deadline = deadline(shared, &claim);
        let to = shared.routing.submitter(&claim.route).map(|to| to.name.clone());
        let reference = claim.reference();
        let cancel = shared.running.add(reference, trusted_until(shared, asked_at), deadline, to);
        let Some(settlement) = execute(shared.clone(), claim, cancel).await else {
            shared.running.remove(reference);
            return Ran { job, kind, outcome: Outcome::Released };
        };
        let outcome = settlement.outcome.clone();
        settle_one(shared, settlement).await;
        Ran { job, kind, outcome }
    }

    /// Runs all due jobs, one after the other, and the jobs that they enqueue, until none is due. The clock stands still
    /// meanwhile: a retry in five minutes does not run.
    ///
    /// # Panics
    ///
    /// After 10,000 jobs: one of them probably enqueues itself.
    pub async fn drain(&self) -> Vec<Ran> {
        self.drain_at_most(DRAIN_MAX).await
    }

    /// Like [`TestNode::drain`], with another limit.
    ///
    /// # Panics
    ///
    /// If more jobs are due.
    pub async fn drain_at_most(&self, most: usize) -> Vec<Ran> {
        let mut ran = Vec::new();
        while let Some(one) = self.run_one().await {
            assert!(
                ran.len() < most,
                "{most} jobs ran and there are still more; the last was {:?}",
                ran.last()
            );
            ran.push(one);
        }
        ran
    }
}

/// A store in memory fails only if the test is wrong.
fn sure<T>(answer: StoreResult<T>) -> T {
    answer.unwrap_or_else(|error| panic!("the store in memory failed: {error}"))
}
