//! dispatch: work_queue → background_job. Jobs whose time has come go to nodes with free slots, within the limits.

pub(crate) mod cursor;
pub(crate) mod dispatcher;
pub(crate) mod hand_back;
mod known_lanes;
pub(crate) mod lanes;
pub(crate) mod limits;
pub(crate) mod poll_work;
pub(crate) mod promote;
pub(crate) mod promoter;
pub(crate) mod remote_lanes;
pub(crate) mod set_aside;

use std::sync::atomic::Ordering;
use std::time::Instant;

use lineclear_model::Name;

use crate::db::Row;
use crate::journey::claim;
use crate::journey::dispatch::cursor::{Cursor, FRONT};
use crate::store::{BATCH, Claim, JobId, Lease, Limits, Store, StoreError, StoreResult};

/// Passes over the lane with limits in one dispatch.
const GATED_PASSES_MAX: u32 = 50;

/// What to dispatch.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// From this route.
    pub route: Name,
    /// At most so many jobs.
    pub most: u32,
    /// Of these, more than there are free slots. They come only from jobs without limits, and if there are any, no job of this dispatch counts as
    /// started: it is not charged with a crash before its first renewal.
    pub ahead: u32,
    /// How exact limits are.
    pub limits: Limits,
}

impl Dispatch {
    /// Up to `most` jobs of a route, under exact limits.
    pub fn new(route: Name, most: u32) -> Dispatch {
        Dispatch { route, most, ahead: 0, limits: Limits::Exact }
    }

    fn request(self, lease: Option<Lease>, cursor: &Cursor) -> lanes::Request {
        let Dispatch { route, most, ahead, limits } = self;
        lanes::Request {
            route,
            most: most.min(BATCH),
            ahead,
            lease,
            limits,
            from: cursor.start(),
            groups: cursor.groups(),
        }
    }
}

impl Store {
    /// Hands jobs over to the nodes that claim them.
    pub async fn dispatch(&self, dispatch: Dispatch) -> StoreResult<Vec<JobId>> {
        self.dispatch_from(&mut Cursor::unknown(), dispatch).await
    }

    /// Like [`Store::dispatch`], resuming from a saved cursor.
    pub(crate) async fn dispatch_from(
        &self,
        cursor: &mut Cursor,
        dispatch: Dispatch,
    ) -> StoreResult<Vec<JobId>> {
        let request = dispatch.request(None, cursor);
        let rows = self.dispatch_rows(request, cursor).await?;
        rows.iter().map(|row| row.get("id").map(JobId)).collect()
    }

    /// Dispatches jobs straight into leases.
    pub async fn dispatch_into_lease(&self, dispatch: Dispatch, lease: Lease) -> StoreResult<Vec<Claim>> {
        self.dispatch_into_lease_from(&mut Cursor::unknown(), dispatch, lease).await
    }

    /// Like [`Store::dispatch_into_lease`], resuming from a saved cursor.
    pub async fn dispatch_into_lease_from(
        &self,
        cursor: &mut Cursor,
        dispatch: Dispatch,
        lease: Lease,
    ) -> StoreResult<Vec<Claim>> {
        let request = dispatch.request(Some(lease), cursor);
        let rows = self.dispatch_rows(request, cursor).await?;
        self.read_claims(&rows, lease.node).await
    }

    /// Whether part of a dispatch was not answered since the last call of this function.
    pub(crate) fn was_unanswered(&self) -> bool {
        self.unanswered.swap(false, Ordering::Relaxed)
    }

    /// Dispatches; a job that a rule refuses is set aside, and the others are dispatched without it.
    async fn dispatch_rows(&self, request: lanes::Request, cursor: &mut Cursor) -> StoreResult<Vec<Row>> {
        let refused = match self.dispatch_lanes(request.clone(), cursor).await {
            Err(error @ StoreError::Refused { .. }) => error,
            answer => return answer,
        };
        *cursor = Cursor::unknown();
        if self.set_aside_undispatchable(&request.route, BATCH).await? == 0 {
            return Err(refused);
        }
        self.dispatch_lanes(lanes::Request { from: FRONT, groups: None, ..request }, cursor).await
    }

    /// The lane without limits in one statement; if there is more behind a gate, a transaction for the rest.
    async fn dispatch_lanes(
        &self,
        mut request: lanes::Request,
        cursor: &mut Cursor,
    ) -> StoreResult<Vec<Row>> {
        if request.most == 0 {
            return Ok(Vec::new());
        }
        let open = self.dispatch_open(&request, cursor).await?;
        let (waiting, with_room) = open.groups();
        if let Some(waiting) = waiting {
            cursor.read_groups(waiting, with_room.to_vec());
        }
        cursor.may_have_room(open.refiled());
        request.groups = Some([with_room, open.refiled()].concat());
        // What is leased ahead of a free slot is neither limited nor handed over before.
        let left = request.most.saturating_sub(request.ahead).saturating_sub(open.count());
        let try_gated = left > 0 && open.may_have_more();
        let handed = open.handed();
        let mut rows = open.into_rows();
        if let Some(lease) = request.lease
            && left > 0
            && handed
        {
            // Jobs were dispatched without a lease: a node with a free slot claims them.
            match self.run(claim::claim_query(&request.route, left, lease)).await {
                Ok(claimed) => rows.extend(claimed),
                Err(error) if rows.is_empty() => return Err(error),
                Err(error) => self.keep_what_is_dispatched(&error, "dispatched jobs could not be claimed"),
            }
        }
        if try_gated {
            self.dispatch_gated(request, cursor, &mut rows).await?;
        }
        Ok(rows)
    }

    /// From the cursor; if that is not enough, from the front of the queue.
    async fn dispatch_open(
        &self,
        request: &lanes::Request,
        cursor: &mut Cursor,
    ) -> StoreResult<lanes::OpenPass> {
        let began = Instant::now();
        let open = self.run(lanes::DispatchOpen(request.clone())).await?;
        if let Some(rank) = open.reached().filter(|_| open.count() == request.most) {
            cursor.reached(rank, request.from, began.elapsed());
            return Ok(open);
        }
        // If there is more behind a gate, the pass over that lane begins at the front.
        if request.from == FRONT || open.may_have_more() {
            return Ok(open);
        }
        cursor.restart();
        let groups = Some(open.groups().1.to_vec());
        let front =
            lanes::Request { most: request.most - open.count(), from: FRONT, groups, ..request.clone() };
        match self.run(lanes::DispatchOpen(front)).await {
            Ok(front) => Ok(open.and(front)),
            Err(error) if open.count() == 0 => Err(error),
            Err(error) => {
                self.keep_what_is_dispatched(&error, "the front of the queue could not be dispatched");
                Ok(open)
            }
        }
    }

    /// The lane with limits, pass by pass until the free slots are filled: each pass fills a few groups.
    async fn dispatch_gated(
        &self,
        request: lanes::Request,
        cursor: &mut Cursor,
        rows: &mut Vec<Row>,
    ) -> StoreResult<()> {
        let (most, from) = (request.most.saturating_sub(request.ahead), request.from);
        let left = |rows: &[Row]| most - u32::try_from(rows.len()).unwrap_or(most).min(most);
        let mut pass = lanes::DispatchGated::new(lanes::Request { most: left(rows), ahead: 0, ..request });
        for _ in 0..GATED_PASSES_MAX {
            if pass.request.most == 0 {
                break;
            }
            let began = Instant::now();
            match self.run(pass.clone()).await {
                Ok(gated) => {
                    if let Some(rank) = gated.reached {
                        cursor.reached(rank, from, began.elapsed());
                    }
                    cursor.may_have_room(&gated.refiled);
                    rows.extend(gated.rows);
                    if !gated.more {
                        break;
                    }
                }
                Err(error) if rows.is_empty() => return Err(error),
                Err(error) => {
                    self.keep_what_is_dispatched(&error, "jobs with limits could not be dispatched");
                    break;
                }
            }
            pass = pass.further(left(rows));
        }
        Ok(())
    }

    /// A later part of a dispatch failed. The jobs that the earlier parts leased must run: dropped, they would wait for their
    /// lease to end. The failed part may have been applied, so the node asks for leases that it does not know of.
    fn keep_what_is_dispatched(&self, error: &StoreError, what: &'static str) {
        self.warn_folded(what, error);
        self.unanswered.store(true, Ordering::Relaxed);
    }
}
