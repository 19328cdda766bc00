//! Stage 5, leases: claimed, renewed, given up for lost.

use std::sync::atomic::Ordering;

use lineclear_model::Name;

use crate::store::verbs::{claim, look, reclaim, renew, switch};
use crate::store::{
    BATCH, BATCH_MAX, Claim, ClaimRef, JobId, Lease, NodeId, Reclaimed, Renewal, Renewing, Store,
    StoreResult, door,
};

impl Store {
    /// Claims up to `most` jobs of a route that were dispatched.
    pub async fn claim(&self, route: Name, most: u32, lease: Lease) -> StoreResult<Vec<Claim>> {
        let rows = self.run(claim::ClaimJobs { route, most: most.min(BATCH), lease }).await?;
        self.read_claims(&rows, lease.node).await
    }

    /// Renews leases, all in one statement.
    pub async fn renew(&self, lease: Lease, claims: Vec<ClaimRef>) -> StoreResult<Vec<Renewal>> {
        let claims = claims.into_iter().map(|claim| Renewing { claim, deadline: None }).collect();
        self.renew_until(lease, claims).await
    }

    /// The same, with the time after its start at which nobody believes a job's worker any more.
    pub(crate) async fn renew_until(&self, lease: Lease, claims: Vec<Renewing>) -> StoreResult<Vec<Renewal>> {
        door::check_batch(claims.len())?;
        self.run(renew::Renew { lease, claims }).await
    }

    /// Whether part of a dispatch was not answered since this was last asked.
    pub(crate) fn was_unanswered(&self) -> bool {
        self.unanswered.swap(false, Ordering::Relaxed)
    }

    /// How many jobs of a route stand first in line for whoever takes them, up to `most`; for those who look closely.
    pub(crate) async fn first_in_line(&self, route: Name, most: u32) -> StoreResult<u64> {
        self.db.read(look::InLine { route, most }).await
    }

    /// A claim whose job's workers vanished before begins now. False: it is lost.
    pub async fn start(&self, claim: ClaimRef) -> StoreResult<bool> {
        Ok(!self.run(claim::Start(vec![claim])).await?.is_empty())
    }

    /// Gives back what `node` holds without knowing it, because the answer to a dispatch was lost; returns how many.
    pub(crate) async fn give_back_unknown(&self, node: NodeId, known: &[ClaimRef]) -> StoreResult<usize> {
        let mut unknown = self.db.read(claim::Leased(node)).await?;
        unknown.retain(|settlement| !known.contains(&settlement.claim));
        unknown.truncate(BATCH_MAX);
        let count = unknown.len();
        self.settle(node, unknown).await?;
        Ok(count)
    }

    /// Jobs that were parked because nobody knew their kind wait again, up to `most`; returns how many.
    pub async fn unpark_kinds(&self, kinds: Vec<Name>, most: u32) -> StoreResult<u64> {
        self.run(switch::UnparkKinds { kinds, most: most.min(BATCH) }).await
    }

    /// Takes back up to `most` jobs whose lease ran out; after `crash_budget` vanished workers a job is buried.
    pub async fn reclaim(&self, most: u32, crash_budget: u32) -> StoreResult<Vec<Reclaimed>> {
        self.reclaim_except(most, crash_budget, Vec::new()).await
    }

    /// The same, but not of jobs that the caller runs itself: a node that slept must not call itself dead.
    pub async fn reclaim_except(
        &self,
        most: u32,
        crash_budget: u32,
        ours: Vec<JobId>,
    ) -> StoreResult<Vec<Reclaimed>> {
        let reclaimed = self.run(reclaim::Reclaim { most: most.min(BATCH), crash_budget, ours }).await?;
        self.wake_or_warn(reclaimed.iter().filter_map(|r| r.limit_key.clone()).collect()).await;
        Ok(reclaimed)
    }
}
