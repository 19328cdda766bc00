//! dispatch: work_queue → background_job, straight into a lease if a node dispatches for itself.
//!
//! Two lanes: one statement moves jobs without limits, and locks only their rows; a transaction moves jobs of gated groups
//! and with limit keys: it locks, counts, and then takes, so that limits are exact.

use lineclear_model::Name;

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::journey::claim::Lease;
use crate::journey::dispatch::cursor::{FRONT, GROUPS_MAX};
use crate::journey::enqueue::insert::millis;
use crate::store::{StoreError, StoreResult};

/// Gated groups that one pass fills: with all of them locked, other dispatchers would find nothing to do.
const GROUPS_PER_PASS: usize = 2;

/// Jobs of a group that one pass reads at most.
const SCAN_MAX: u32 = 1_000;

/// The result of a pass over the lane without limits.
#[derive(Default)]
pub(crate) struct OpenPass {
    rows: Vec<Row>,
    /// There is a global limit, and nothing was taken.
    closed: bool,
    /// Jobs in the gated lane seem to have room.
    gated_waits: bool,
    /// Jobs of the route are dispatched and not claimed yet.
    handed: bool,
    /// Groups of rows that were in the wrong lane and were moved: scan again.
    refiled: Vec<i64>,
    /// Gated groups whose jobs wait, if all were read.
    waiting: Option<u32>,
    /// Gated groups that have room, first in rank first.
    with_room: Vec<i64>,
    /// The rank of the last job that was taken.
    reached: Option<i64>,
}

/// How exact the limits of groups, and the global one, are. Limits of keys are always exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limits {
    /// Never exceeded: dispatchers that meet at a limit wait for each other, or skip it.
    #[default]
    Exact,
    /// Counted without locks: dispatchers never wait, and may together exceed a limit by the jobs that they take at one
    /// moment. On SQLite, which has one writer, they are exact, too.
    Soft,
}

/// What to dispatch, and where to.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) route: Name,
    pub(crate) most: u32,
    /// Of these, more than there are free slots; they come only from the lane without limits.
    pub(crate) ahead: u32,
    /// `None`: dispatch without a lease; any worker may claim the jobs.
    pub(crate) lease: Option<Lease>,
    pub(crate) limits: Limits,
    /// The rank to begin at, in the lane without limits.
    pub(crate) from: i64,
    /// The gated groups to look at; `None`: all of them.
    pub(crate) groups: Option<Vec<i64>>,
}

impl Request {
    /// Parameters that both lanes share.
    fn params(&self, most: i64) -> Vec<Value> {
        vec![
            Value::Text(Some(self.route.to_string())),
            Value::Int(Some(most)),
            Value::Int(self.lease.map(|lease| lease.node.0)),
            Value::Int(self.lease.map(|lease| millis(lease.length))),
        ]
    }

    async fn open_pass(
        &self,
        session: &mut Session,
        most: i64,
        holds_gate: bool,
        bounded: bool,
    ) -> StoreResult<OpenPass> {
        let mut params = self.params(most);
        let at_most = i64::try_from(GROUPS_MAX).expect("a few");
        params.extend([Value::Bool(holds_gate), Value::Bool(bounded), Value::Int(Some(self.from))]);
        params.extend([
            Value::Bool(self.groups.is_none()),
            Value::Ints(self.groups.clone().unwrap_or_default()),
        ]);
        params.extend([Value::Int(Some(at_most)), Value::Bool(self.ahead > 0)]);
        let mut rows = session.rows(Statement::DispatchOpen, params).await?;
        let Some(first) = rows.first() else { return Ok(OpenPass::default()) };
        let (closed, refiled, handed) = (first.get("closed")?, first.get("refiled")?, first.get("handed")?);
        let waiting = self.groups.is_none().then(|| first.get("waiting")).transpose()?;
        let with_room = first.get("with_room")?;
        let gated_waits = first.get::<Option<i64>>("gated_rank")?.is_some();
        if first.get::<Option<i64>>("id")?.is_none() {
            rows.clear();
        }
        let reached = rows.last().map(|row| row.get("rank")).transpose()?;
        Ok(OpenPass { rows, closed, gated_waits, handed, refiled, waiting, with_room, reached })
    }
}

/// Verb: one statement over the lane without limits, in rank order with the other lane.
pub(crate) struct DispatchOpen(pub(crate) Request);

impl Verb for DispatchOpen {
    type Answer = OpenPass;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<OpenPass> {
        self.0.open_pass(session, i64::from(self.0.most), false, true).await
    }
}

impl OpenPass {
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.rows.len()).expect("a batch fits")
    }

    /// There may be more behind the gates, or behind rows that were just moved.
    pub(crate) fn may_have_more(&self) -> bool {
        self.closed || self.gated_waits || !self.refiled.is_empty()
    }

    pub(crate) fn reached(&self) -> Option<i64> {
        self.reached
    }

    /// Adds the result of a later part of the same pass.
    pub(crate) fn and(mut self, then: OpenPass) -> OpenPass {
        self.rows.extend(then.rows);
        self.refiled.extend(then.refiled);
        let waiting = self.waiting.or(then.waiting);
        OpenPass { rows: self.rows, refiled: self.refiled, waiting, ..then }
    }

    /// Gated groups whose jobs wait, if all were read, and those that have room.
    pub(crate) fn groups(&self) -> (Option<u32>, &[i64]) {
        (self.waiting, &self.with_room)
    }

    /// Groups whose jobs were moved into the lane with limits.
    pub(crate) fn refiled(&self) -> &[i64] {
        &self.refiled
    }

    pub(crate) fn handed(&self) -> bool {
        self.handed
    }

    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

/// Verb: the lane with limits (of the groups that the request names), then the rest of the other, under all locks that it takes.
#[derive(Clone)]
pub(crate) struct DispatchGated {
    pub(crate) request: Request,
    /// Jobs of a group to read: more than are wanted, if the first ones were held by their keys.
    pub(crate) scan: u32,
}

impl DispatchGated {
    pub(crate) fn new(request: Request) -> DispatchGated {
        DispatchGated { scan: request.most, request }
    }

    /// Another pass, for `most` jobs, that reads further.
    pub(crate) fn further(&self, most: u32) -> DispatchGated {
        let scan = self.scan.saturating_mul(2).clamp(most, SCAN_MAX.max(most));
        DispatchGated { request: Request { most, ..self.request.clone() }, scan }
    }
}

/// The result of a pass over the lane with limits.
#[derive(Default)]
pub(crate) struct GatedPass {
    pub(crate) rows: Vec<Row>,
    /// There may be more for free slots: in other groups, or behind jobs that their keys held.
    pub(crate) more: bool,
    /// The lane without limits had as many jobs as were wanted, up to this rank.
    pub(crate) reached: Option<i64>,
    /// Groups whose jobs were moved into the lane with limits.
    pub(crate) refiled: Vec<i64>,
}

impl Verb for DispatchGated {
    type Answer = GatedPass;

    async fn run(&self, session: &mut Session) -> StoreResult<GatedPass> {
        let request = &self.request;
        let mut most = i64::from(request.most);
        // Lock order: global gate, group, key, job rows. Counts are read in statements after those that lock.
        let (gate, groups) = match request.limits {
            Limits::Exact => (Statement::DispatchGate, Statement::DispatchGroups),
            Limits::Soft => (Statement::DispatchGateSoft, Statement::DispatchGroupsSoft),
        };
        let gate = session.rows(gate, Vec::<Value>::new()).await.map_err(StoreError::at_the_gate)?;
        if let Some(gate) = gate.first() {
            let active = session.rows(Statement::DispatchActive, Vec::<Value>::new()).await?;
            let active: i64 = active.first().map_or(Ok(0), |row| row.get("active"))?;
            let max: Option<i64> = gate.get("max_active")?;
            let open = gate.get::<bool>("enabled")?;
            most = if open { most.min(max.map_or(most, |max| max - active)) } else { 0 };
        }
        if most <= 0 {
            return Ok(GatedPass::default());
        }
        let route = Value::Text(Some(request.route.to_string()));
        let at_once = i64::try_from(GROUPS_PER_PASS).expect("a few");
        let asked = Value::Ints(request.groups.clone().unwrap_or_default());
        let groups = session.rows(groups, vec![route.clone(), Value::Int(Some(at_once)), asked]).await?;
        let groups: Vec<i64> = groups.iter().map(|row| row.get("id")).collect::<StoreResult<_>>()?;
        let scan = Value::Int(Some(i64::from(self.scan)));
        let params = vec![route, Value::Ints(groups.clone()), scan.clone()];
        let keys = session.rows(Statement::DispatchKeys, params).await?;
        let keys: Vec<String> = keys.iter().map(|row| row.get("key")).collect::<StoreResult<_>>()?;

        let mut params = request.params(most);
        let all_groups = groups.len() < GROUPS_PER_PASS;
        params.extend([Value::Ints(groups), Value::Texts(keys), scan]);
        let mut rows = session.rows(Statement::DispatchGated, params).await?;
        let held: i64 = rows.first().map_or(Ok(0), |row| row.get("held"))?;
        if rows.first().is_some_and(|row| row.get::<Option<i64>>("id").is_ok_and(|id| id.is_none())) {
            rows.clear();
        }
        let more = held > 0 || (!all_groups && !rows.is_empty());
        let left = most - i64::try_from(rows.len()).expect("a batch fits");
        let (mut reached, mut refiled) = (None, Vec::new());
        if left > 0 {
            // Only the lane without limits is of interest now.
            let request = Request { groups: Some(Vec::new()), ..request.clone() };
            let mut open = request.open_pass(session, left, true, false).await?;
            let missing = left - i64::from(open.count());
            reached = open.reached.filter(|_| missing == 0);
            if missing > 0 && request.from != FRONT {
                let front = Request { from: FRONT, ..request.clone() };
                open = open.and(front.open_pass(session, missing, true, false).await?);
            }
            refiled.extend_from_slice(open.refiled());
            rows.extend(open.into_rows());
        }
        if !rows.is_empty() {
            crate::crash::point("dispatch.before_commit");
        }
        Ok(GatedPass { rows, more, reached, refiled })
    }
}
