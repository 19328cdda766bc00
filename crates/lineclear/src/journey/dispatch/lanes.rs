//! dispatch: work_queue → background_job, straight into a lease if there is a node to take it.
//!
//! Two lanes: jobs without limits go in one statement and without any lock but on their own rows; jobs of gated groups
//! and with limit keys go in a transaction that locks, counts, and then takes, so that limits are exact.

use lineclear_model::Name;

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::journey::claim::Lease;
use crate::journey::dispatch::cursor::FRONT;
use crate::journey::enqueue::insert::millis;
use crate::store::{JobId, StoreResult};

/// Gated groups that one pass fills: with all of them locked, other dispatchers would find nothing to do.
const GROUPS_PER_PASS: usize = 2;

/// Jobs of a group that one pass looks at, at most.
const LOOK_MAX: u32 = 1_000;

/// What a pass over the lane without limits found.
#[derive(Default)]
pub(crate) struct OpenPass {
    rows: Vec<Row>,
    /// The global gate is on, and nothing was taken.
    closed: bool,
    /// Jobs in the gated lane seem to have room.
    gated_waits: bool,
    /// Jobs of the route were dispatched to whoever claims.
    handed: bool,
    /// Rows that lay in the wrong lane and were put right: look again.
    refiled: u64,
    /// The rank of the last that was taken.
    reached: Option<i64>,
}

/// How exact the limits of groups, and the global one, are. Limits of keys are always exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limits {
    /// Never exceeded: dispatchers that meet at a limit wait for, or leave it to, each other.
    #[default]
    Exact,
    /// Counted without locks: dispatchers never wait, and may together exceed a limit by what they take at one moment.
    /// On SQLite, where one writes at a time, they are exact all the same.
    Soft,
}

/// What to dispatch, and where to.
#[derive(Clone)]
pub(crate) struct Wants {
    pub(crate) route: Name,
    pub(crate) most: u32,
    /// `None`: hand over to whoever claims.
    pub(crate) lease: Option<Lease>,
    pub(crate) limits: Limits,
    /// The rank to begin at, in the lane without limits.
    pub(crate) from: i64,
}

impl Wants {
    /// Parameters that both lanes share.
    fn params(&self, most: i64) -> Vec<Value> {
        vec![
            Value::Text(Some(self.route.to_string())),
            Value::Int(Some(most)),
            Value::Int(self.lease.map(|lease| lease.node.0)),
            Value::Int(self.lease.map(|lease| millis(lease.length))),
        ]
    }

    async fn take_open(
        &self,
        session: &mut Session,
        most: i64,
        holds_gate: bool,
        bounded: bool,
    ) -> StoreResult<OpenPass> {
        let mut params = self.params(most);
        params.extend([Value::Bool(holds_gate), Value::Bool(bounded), Value::Int(Some(self.from))]);
        let mut rows = session.rows(Statement::DispatchOpen, params).await?;
        let Some(first) = rows.first() else { return Ok(OpenPass::default()) };
        let (closed, refiled) = (first.get("closed")?, first.get("refiled")?);
        let handed = first.get("handed")?;
        let gated_waits = first.get::<Option<i64>>("gated_rank")?.is_some();
        if first.get::<Option<i64>>("id")?.is_none() {
            rows.clear();
        }
        let reached = rows.last().map(|row| row.get("rank")).transpose()?;
        Ok(OpenPass { rows, closed, gated_waits, handed, refiled, reached })
    }
}

/// Verb: one statement over the lane without limits, in rank order with the other lane.
pub(crate) struct DispatchOpen(pub(crate) Wants);

impl Verb for DispatchOpen {
    type Answer = OpenPass;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<OpenPass> {
        self.0.take_open(session, i64::from(self.0.most), false, true).await
    }
}

impl OpenPass {
    pub(crate) fn taken(&self) -> u32 {
        u32::try_from(self.rows.len()).expect("a batch fits")
    }

    /// There may be more behind the gates, or behind rows that were just put right.
    pub(crate) fn is_worth_another_look(&self) -> bool {
        self.closed || self.gated_waits || self.refiled > 0
    }

    pub(crate) fn reached(&self) -> Option<i64> {
        self.reached
    }

    /// The same pass went on elsewhere.
    pub(crate) fn and(mut self, then: OpenPass) -> OpenPass {
        self.rows.extend(then.rows);
        OpenPass { rows: self.rows, refiled: self.refiled + then.refiled, ..then }
    }

    pub(crate) fn handed(&self) -> bool {
        self.handed
    }

    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

/// Verb: the lane with limits, then what is left of the other, under all locks that it takes.
#[derive(Clone)]
pub(crate) struct DispatchGated {
    pub(crate) wants: Wants,
    /// Jobs of a group to look at: more than are wanted, if those in front were held by their keys.
    pub(crate) look: u32,
}

impl DispatchGated {
    pub(crate) fn new(wants: Wants) -> DispatchGated {
        DispatchGated { look: wants.most, wants }
    }

    /// Another pass, for `most` jobs, that sees further.
    pub(crate) fn further(&self, most: u32) -> DispatchGated {
        let look = self.look.saturating_mul(2).clamp(most, LOOK_MAX.max(most));
        DispatchGated { wants: Wants { most, ..self.wants.clone() }, look }
    }
}

/// What a pass over the lane with limits found.
#[derive(Default)]
pub(crate) struct GatedPass {
    pub(crate) rows: Vec<Row>,
    /// There may be more for free slots: in other groups, or behind jobs that their keys held.
    pub(crate) more: bool,
    /// The lane without limits gave all that was wanted of it, up to this rank.
    pub(crate) reached: Option<i64>,
}

impl Verb for DispatchGated {
    type Answer = GatedPass;

    async fn run(&self, session: &mut Session) -> StoreResult<GatedPass> {
        let wants = &self.wants;
        let mut most = i64::from(wants.most);
        // Lock order: global gate, group, key, job rows. What counts is read in statements after the lock's own.
        let (gate, groups) = match wants.limits {
            Limits::Exact => (Statement::DispatchGate, Statement::DispatchGroups),
            Limits::Soft => (Statement::DispatchGateSoft, Statement::DispatchGroupsSoft),
        };
        let gate = session.rows(gate, Vec::<Value>::new()).await?;
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
        let route = Value::Text(Some(wants.route.to_string()));
        let at_once = i64::try_from(GROUPS_PER_PASS).expect("a few");
        let groups = session.rows(groups, vec![route.clone(), Value::Int(Some(at_once))]).await?;
        let groups: Vec<i64> = groups.iter().map(|row| row.get("id")).collect::<StoreResult<_>>()?;
        let look = Value::Int(Some(i64::from(self.look)));
        let params = vec![route, Value::Ints(groups.clone()), look.clone()];
        let keys = session.rows(Statement::DispatchKeys, params).await?;
        let keys: Vec<String> = keys.iter().map(|row| row.get("key")).collect::<StoreResult<_>>()?;

        let mut params = wants.params(most);
        let all_groups = groups.len() < GROUPS_PER_PASS;
        params.extend([Value::Ints(groups), Value::Texts(keys), look]);
        let mut rows = session.rows(Statement::DispatchGated, params).await?;
        let held: i64 = rows.first().map_or(Ok(0), |row| row.get("held"))?;
        if rows.first().is_some_and(|row| row.get::<Option<i64>>("id").is_ok_and(|id| id.is_none())) {
            rows.clear();
        }
        let more = held > 0 || (!all_groups && !rows.is_empty());
        let left = most - i64::try_from(rows.len()).expect("a batch fits");
        let mut reached = None;
        if left > 0 {
            let mut open = wants.take_open(session, left, true, false).await?;
            let missing = left - i64::from(open.taken());
            reached = open.reached.filter(|_| missing == 0);
            if missing > 0 && wants.from != FRONT {
                let front = Wants { from: FRONT, ..wants.clone() };
                open = open.and(front.take_open(session, missing, true, false).await?);
            }
            rows.extend(open.into_rows());
        }
        if !rows.is_empty() {
            crate::crash::point("dispatch.before_commit");
        }
        Ok(GatedPass { rows, more, reached })
    }
}

/// Rows of a dispatch to whoever claims, as ids.
pub(crate) fn ids(rows: &[Row]) -> StoreResult<Vec<JobId>> {
    rows.iter().map(|row| row.get("id").map(JobId)).collect()
}
