//! Stage 4, dispatch: jobs whose time has come go to who has room for them, within the limits.

use std::sync::atomic::Ordering;
use std::time::Instant;

use lineclear_model::Name;

use crate::store::head::{FRONT, Head};
use crate::store::verbs::{claim, dispatch, look, promote};
use crate::store::{BATCH, Claim, JobId, Lease, Limits, Look, NodeId, Store, StoreResult, db};

/// Passes over the lane with limits in one dispatch.
const GATED_PASSES_MAX: u32 = 50;

impl Store {
    /// Whether there is anything to do on some routes; what was handed over is counted up to `count_to`. Changes nothing.
    pub async fn look_for_work(&self, routes: Vec<Name>, count_to: u32) -> StoreResult<Look> {
        self.db.read(look::LookAt { routes, count_to }).await
    }

    /// Brings up to `most` jobs whose time has come into the line; returns how many.
    pub async fn promote(&self, most: u32) -> StoreResult<u64> {
        self.run(promote::Promote { most: most.min(BATCH) }).await
    }

    /// Hands up to `most` jobs of a route over to whoever claims them.
    pub async fn dispatch(&self, route: Name, most: u32) -> StoreResult<Vec<JobId>> {
        self.dispatch_within(route, most, Limits::Exact).await
    }

    /// The same, with limits as exact as asked for.
    pub async fn dispatch_within(&self, route: Name, most: u32, limits: Limits) -> StoreResult<Vec<JobId>> {
        self.dispatch_from(&mut Head::unknown(), route, most, limits).await
    }

    /// The same, by one who remembers where the line begins.
    pub(crate) async fn dispatch_from(
        &self,
        head: &mut Head,
        route: Name,
        most: u32,
        limits: Limits,
    ) -> StoreResult<Vec<JobId>> {
        let wants = dispatch::Wants { route, most: most.min(BATCH), lease: None, limits, from: head.start() };
        dispatch::ids(&self.take(wants, head).await?)
    }

    /// Takes up to `most` jobs of a route straight into leases.
    pub async fn dispatch_into_lease(&self, route: Name, most: u32, lease: Lease) -> StoreResult<Vec<Claim>> {
        self.dispatch_into_lease_within(route, most, lease, Limits::Exact).await
    }

    /// The same, with limits as exact as asked for.
    pub async fn dispatch_into_lease_within(
        &self,
        route: Name,
        most: u32,
        lease: Lease,
        limits: Limits,
    ) -> StoreResult<Vec<Claim>> {
        self.dispatch_into_lease_from(&mut Head::unknown(), route, most, lease, limits).await
    }

    /// The same, by one who remembers where the line begins.
    pub(crate) async fn dispatch_into_lease_from(
        &self,
        head: &mut Head,
        route: Name,
        most: u32,
        lease: Lease,
        limits: Limits,
    ) -> StoreResult<Vec<Claim>> {
        let wants =
            dispatch::Wants { route, most: most.min(BATCH), lease: Some(lease), limits, from: head.start() };
        let rows = self.take(wants, head).await?;
        self.read_claims(&rows, lease.node).await
    }

    /// The lane without limits in one statement; if there is more behind a gate, a transaction for the rest.
    async fn take(&self, wants: dispatch::Wants, head: &mut Head) -> StoreResult<Vec<db::Row>> {
        if wants.most == 0 {
            return Ok(Vec::new());
        }
        let open = self.take_open(&wants, head).await?;
        let left = wants.most - open.taken();
        let look_again = left > 0 && open.is_worth_another_look();
        let handed = open.handed();
        let mut rows = open.into_rows();
        if let Some(lease) = wants.lease
            && left > 0
            && handed
        {
            // Somebody dispatched without running: who has a free slot claims.
            match self.run(claim::ClaimJobs { route: wants.route.clone(), most: left, lease }).await {
                Ok(claimed) => rows.extend(claimed),
                Err(error) if rows.is_empty() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "dispatched jobs could not be claimed");
                    self.unanswered.store(true, Ordering::Relaxed);
                }
            }
        }
        if look_again {
            self.take_gated(wants, head, &mut rows).await?;
        }
        Ok(rows)
    }

    /// From where the line was last seen to begin; if that is not enough, from its front.
    async fn take_open(&self, wants: &dispatch::Wants, head: &mut Head) -> StoreResult<dispatch::OpenPass> {
        let began = Instant::now();
        let open = self.run(dispatch::DispatchOpen(wants.clone())).await?;
        if let Some(rank) = open.reached().filter(|_| open.taken() == wants.most) {
            head.reached(rank, wants.from, began.elapsed());
            return Ok(open);
        }
        // Behind a gate, the pass that follows looks at the front if there is not enough.
        if wants.from == FRONT || open.is_worth_another_look() {
            return Ok(open);
        }
        *head = Head::unknown();
        let front = dispatch::Wants { most: wants.most - open.taken(), from: FRONT, ..wants.clone() };
        match self.run(dispatch::DispatchOpen(front)).await {
            Ok(front) => Ok(open.and(front)),
            Err(error) if open.taken() == 0 => Err(error),
            // What was taken is taken: dropped here, it would wait for its lease to end.
            Err(error) => {
                tracing::warn!(%error, "the front of the line could not be dispatched");
                self.unanswered.store(true, Ordering::Relaxed);
                Ok(open)
            }
        }
    }

    /// The lane with limits, until there is nothing more for free slots: each pass fills a few groups, and sees so far.
    async fn take_gated(
        &self,
        wants: dispatch::Wants,
        head: &mut Head,
        rows: &mut Vec<db::Row>,
    ) -> StoreResult<()> {
        let (most, from) = (wants.most, wants.from);
        let left = |rows: &[db::Row]| most - u32::try_from(rows.len()).unwrap_or(most).min(most);
        let mut pass = dispatch::DispatchGated::new(dispatch::Wants { most: left(rows), ..wants });
        for _ in 0..GATED_PASSES_MAX {
            if pass.wants.most == 0 {
                break;
            }
            let began = Instant::now();
            match self.run(pass.clone()).await {
                Ok(gated) => {
                    if let Some(rank) = gated.reached {
                        head.reached(rank, from, began.elapsed());
                    }
                    rows.extend(gated.rows);
                    if !gated.more {
                        break;
                    }
                }
                Err(error) if rows.is_empty() => return Err(error),
                // What was taken is taken: dropped here, it would wait for its lease to end.
                Err(error) => {
                    tracing::warn!(%error, "jobs with limits could not be dispatched");
                    self.unanswered.store(true, Ordering::Relaxed);
                    break;
                }
            }
            pass = pass.further(left(rows));
        }
        Ok(())
    }

    /// Claims from their rows. One that cannot be read (somebody else wrote to our tables) is buried, with the reason,
    /// and does not hold up the rest.
    pub(in crate::store) async fn read_claims(
        &self,
        rows: &[db::Row],
        node: NodeId,
    ) -> StoreResult<Vec<Claim>> {
        let (claims, unreadable) = claim::read(rows)?;
        if !unreadable.is_empty() {
            tracing::error!(jobs = ?unreadable, "jobs that cannot be read were buried");
            // What can be read must run, whatever becomes of these: their leases end by themselves.
            if let Err(error) = self.settle(node, unreadable).await {
                tracing::warn!(%error, "jobs that cannot be read could not be buried");
            }
        }
        Ok(claims)
    }
}
