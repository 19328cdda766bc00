//! The part of the dispatcher for jobs that leave the node: the routes of submitters, and the kinds that remote workers wait for.
//! Each has room of its own, so that a slow one takes no slot from others.

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use lineclear_model::Name;

use crate::journey::claim::renewer::lease;
use crate::journey::dispatch::dispatcher::Dispatcher;
use crate::journey::execute::slots::Room;
use crate::journey::execute::start::start;
use crate::journey::submit::polls::Poll;
use crate::journey::submit::pull::release;
use crate::journey::submit::routes::pull_route;
use crate::journey::submit::transfer::Transfer;
use crate::store::{Claim, Lease, PendingWork, PollCursor, RouteWork, StoreResult};
use crate::submitters::routing::Registered;

/// Polls that one pass serves one by one.
const DIRECT_MAX: u32 = 16;

fn waits(route: &RouteWork) -> bool {
    route.waits || route.handed > 0
}

/// A route whose jobs leave the node, and the jobs it has room for now.
#[derive(Clone, Debug)]
pub(super) struct RemoteLane {
    pub(super) route: Name,
    room: u32,
    /// The kind, if remote workers pull it.
    pulled: Option<Name>,
}

impl Dispatcher {
    /// The lanes that have room.
    pub(super) fn remote_lanes(&mut self) -> Vec<RemoteLane> {
        let shared = &self.shared;
        let is_blocked = |to: &&Registered| to.capacity() == 0;
        let blocked: BTreeSet<Name> =
            shared.routing.submitters.values().filter(is_blocked).map(|to| to.name.clone()).collect();
        if blocked != self.blocked {
            self.blocked = blocked;
            shared.report_soon.notify_one();
        }
        let room_of = |name: &Name| {
            let capacity = shared.routing.submitter(name).map_or(0, Registered::capacity);
            capacity.saturating_sub(shared.running.count_of(name))
        };
        // Another one begins each time.
        if !self.submitters.is_empty() {
            self.submitters.rotate_left(1);
        }
        let submitters = self.submitters.iter().map(|name| (name.clone(), room_of(name), None));
        let mut wanted: Vec<(Name, u32)> = shared.polls.wanted().into_iter().collect();
        if !wanted.is_empty() {
            self.first_pulled = (self.first_pulled + 1) % wanted.len();
            wanted.rotate_left(self.first_pulled);
        }
        let pulled =
            wanted.into_iter().filter_map(|(kind, room)| Some((pull_route(&kind)?, room, Some(kind))));
        let lanes = submitters.chain(pulled).map(|(route, room, pulled)| RemoteLane { route, room, pulled });
        lanes.filter(|lane| lane.room > 0).collect()
    }

    /// Keeps the lanes in which jobs wait, with one statement for those of which that is not known.
    pub(super) async fn ask_about(&mut self, lanes: &mut Vec<RemoteLane>) -> StoreResult<()> {
        lanes.retain(|lane| !self.known_lanes.is_empty(&lane.route));
        let is_unknown = |lane: &&RemoteLane| !self.known_lanes.has_backlog(&lane.route);
        let asked: Vec<Name> = lanes.iter().filter(is_unknown).map(|lane| lane.route.clone()).collect();
        if asked.is_empty() {
            return Ok(());
        }
        // From the front: a later poll without a mark would find what this one does not.
        let work = self.shared.loop_store.poll_work_from(&mut PollCursor::default(), asked, 1).await?;
        for route in work.routes.iter().filter(|route| !waits(route)) {
            self.known_lanes.note_empty(&route.route);
        }
        self.keep_waiting(lanes, &work);
        Ok(())
    }

    /// Keeps the lanes in which jobs wait, and those that were not asked about.
    pub(super) fn keep_waiting(&self, lanes: &mut Vec<RemoteLane>, work: &PendingWork) {
        let empty: HashSet<&Name> =
            work.routes.iter().filter(|route| !waits(route)).map(|route| &route.route).collect();
        let is_empty = |lane: &RemoteLane| empty.contains(&lane.route);
        let none = lanes.iter().filter(|lane| is_empty(lane)).filter_map(|lane| lane.pulled.clone());
        self.shared.polls.none_waiting(none);
        lanes.retain(|lane| !is_empty(lane));
    }

    /// Leases jobs for submitters and remote workers, and hands them over.
    pub(super) async fn serve_lanes(&mut self, lanes: Vec<RemoteLane>) -> StoreResult<()> {
        for lane in lanes {
            match lane.pulled {
                Some(kind) => self.serve_polls(kind, lane.route).await?,
                None => {
                    let asked_at = Instant::now();
                    let lease = lease(&self.shared);
                    let claims =
                        self.lease_jobs(lane.route.clone(), Room::for_free(lane.room), lease).await?;
                    self.known_lanes.note_dispatch(&lane.route, claims.len(), lane.room);
                    start(&self.shared.clone(), claims, asked_at, false, &self.settle);
                }
            }
        }
        Ok(())
    }

    /// Gives jobs of a kind to the remote workers that wait for it.
    async fn serve_polls(&mut self, kind: Name, route: Name) -> StoreResult<()> {
        let shared = self.shared.clone();
        // A poll for several kinds may have got jobs of another one since the lanes were listed.
        let room = shared.polls.room_for(&kind);
        if room == 0 {
            return Ok(());
        }
        // A single worker gets its lease at once, and so does one that asks for many of a backlog: passing leases on would write each
        // of them twice. Few jobs are divided among all.
        for _ in 0..DIRECT_MAX {
            let Some(poll) = shared.polls.take_for_direct_lease(&kind) else { break };
            if !self.serve_poll(&kind, route.clone(), poll).await? {
                return Ok(());
            }
        }
        let room = shared.polls.room_for(&kind);
        if room == 0 {
            return Ok(());
        }
        let length = lease(&shared).length;
        let claims = self.lease_jobs(route.clone(), Room::for_free(room), lease(&shared)).await?;
        self.note_lane(&kind, &route, claims.len(), room);
        let (shares, left) = shared.polls.divide(&kind, claims);
        release(&shared, shared.id, left);
        let transfer = |claim: &Claim, holder| Transfer {
            claim: claim.reference(),
            holder,
            lease: length,
            external_id: None,
        };
        let transfers: Vec<Transfer> = shares
            .iter()
            .flat_map(|(poll, share)| share.iter().map(|claim| transfer(claim, poll.worker)))
            .collect();
        let moved = shared.loop_store.transfer_leases(shared.id, &transfers).await?;
        for (poll, mut share) in shares {
            let worker = poll.worker;
            let is_moved = |claim: &mut Claim| moved.contains(&claim.reference());
            let ours: Vec<Claim> = share.extract_if(.., |claim| !is_moved(claim)).collect();
            // Their rows were locked for a moment.
            release(&shared, shared.id, ours);
            if let Err(back) = poll.give(share) {
                release(&shared, worker, back);
            }
        }
        Ok(())
    }

    /// Leases jobs to the worker of a poll; false if that got none. If this fails, the poll ends with an error, and the worker's next one
    /// asks what it got.
    async fn serve_poll(&mut self, kind: &Name, route: Name, poll: Poll) -> StoreResult<bool> {
        let shared = self.shared.clone();
        let (worker, slots) = (poll.worker, poll.slots);
        let lease = Lease { node: worker, length: lease(&shared).length };
        let claims = self.lease_jobs(route.clone(), Room::for_free(slots), lease).await?;
        self.note_lane(kind, &route, claims.len(), slots);
        if claims.is_empty() {
            shared.polls.put_back(poll);
            return Ok(false);
        }
        if let Err(back) = poll.give(claims) {
            release(&shared, worker, back);
        }
        Ok(true)
    }

    /// Remembers whether more jobs of a kind may wait.
    fn note_lane(&mut self, kind: &Name, route: &Name, got: usize, room: u32) {
        self.known_lanes.note_dispatch(route, got, room);
        if got < room as usize {
            self.shared.polls.none_waiting(std::iter::once(kind.clone()));
        } else {
            self.shared.polls.has_backlog(kind);
        }
    }
}
