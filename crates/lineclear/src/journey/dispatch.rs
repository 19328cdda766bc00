//! Stage 4, dispatch: jobs whose time has come go to who has room for them, within the limits.

pub(crate) mod cursor;
pub(crate) mod dispatcher;
pub(crate) mod lanes;
pub(crate) mod limits;
pub(crate) mod poll_work;
pub(crate) mod promote;

use std::sync::atomic::Ordering;
use std::time::Instant;

use lineclear_model::Name;

use crate::db;
use crate::journey::claim;
use crate::journey::dispatch::cursor::{Cursor, FRONT};
use crate::store::{BATCH, Claim, JobId, Lease, Limits, Store, StoreResult};

/// Passes over the lane with limits in one dispatch.
const GATED_PASSES_MAX: u32 = 50;

impl Store {
    /// Hands up to `most` jobs of a route over to whoever claims them.
    pub async fn dispatch(&self, route: Name, most: u32) -> StoreResult<Vec<JobId>> {
        self.dispatch_within(route, most, Limits::Exact).await
    }

    /// The same, with limits as exact as asked for.
    pub async fn dispatch_within(&self, route: Name, most: u32, limits: Limits) -> StoreResult<Vec<JobId>> {
        self.dispatch_from(&mut Cursor::unknown(), route, most, limits).await
    }

    /// The same, by one who remembers where the line begins.
    pub(crate) async fn dispatch_from(
        &self,
        head: &mut Cursor,
        route: Name,
        most: u32,
        limits: Limits,
    ) -> StoreResult<Vec<JobId>> {
        let wants = lanes::Wants { route, most: most.min(BATCH), lease: None, limits, from: head.start() };
        lanes::ids(&self.take(wants, head).await?)
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
        self.dispatch_into_lease_from(&mut Cursor::unknown(), route, most, lease, limits).await
    }

    /// The same, by one who remembers where the line begins.
    pub(crate) async fn dispatch_into_lease_from(
        &self,
        head: &mut Cursor,
        route: Name,
        most: u32,
        lease: Lease,
        limits: Limits,
    ) -> StoreResult<Vec<Claim>> {
        let wants =
            lanes::Wants { route, most: most.min(BATCH), lease: Some(lease), limits, from: head.start() };
        let rows = self.take(wants, head).await?;
        self.read_claims(&rows, lease.node).await
    }

    /// The lane without limits in one statement; if there is more behind a gate, a transaction for the rest.
    async fn take(&self, wants: lanes::Wants, head: &mut Cursor) -> StoreResult<Vec<db::Row>> {
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
    async fn take_open(&self, wants: &lanes::Wants, head: &mut Cursor) -> StoreResult<lanes::OpenPass> {
        let began = Instant::now();
        let open = self.run(lanes::DispatchOpen(wants.clone())).await?;
        if let Some(rank) = open.reached().filter(|_| open.taken() == wants.most) {
            head.reached(rank, wants.from, began.elapsed());
            return Ok(open);
        }
        // Behind a gate, the pass that follows looks at the front if there is not enough.
        if wants.from == FRONT || open.is_worth_another_look() {
            return Ok(open);
        }
        *head = Cursor::unknown();
        let front = lanes::Wants { most: wants.most - open.taken(), from: FRONT, ..wants.clone() };
        match self.run(lanes::DispatchOpen(front)).await {
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
        wants: lanes::Wants,
        head: &mut Cursor,
        rows: &mut Vec<db::Row>,
    ) -> StoreResult<()> {
        let (most, from) = (wants.most, wants.from);
        let left = |rows: &[db::Row]| most - u32::try_from(rows.len()).unwrap_or(most).min(most);
        let mut pass = lanes::DispatchGated::new(lanes::Wants { most: left(rows), ..wants });
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

    /// Whether part of a dispatch was not answered since this was last asked.
    pub(crate) fn was_unanswered(&self) -> bool {
        self.unanswered.swap(false, Ordering::Relaxed)
    }
}
