//! plan: manifest → work_queue.

pub(crate) mod backfill;
pub(crate) mod firing;
pub(crate) mod leadership;
pub(crate) mod planner;
pub(crate) mod trigger;

use std::collections::HashSet;
use std::time::Instant;

use lineclear_model::job::Origin;
use lineclear_model::{Micros, Name, SkipReason, Spec, decide};

use crate::db::statements::Statement;
use crate::db::{Column, Query, Row, Session, Value, Verb, values};
use crate::journey::low_water::LowWater;
use crate::journey::plan::firing::{Firing, JobTemplate, SkippedRange};
use crate::store::{Store, StoreResult};

/// Ticks of one manifest that one pass may queue; the rest comes in the next pass.
const TICKS_PER_MANIFEST_MAX: usize = 100;

/// Groups that get a share in one pass.
const SHARE_GROUPS_MAX: i64 = 100;

/// How long a manifest that cannot be planned is left alone.
const UNPLANNABLE_PAUSE_MICROS: i64 = 3_600_000_000;

/// How to plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanRules {
    /// Manifests per pass.
    pub manifests_max: u32,
    /// Manifests of each group beyond these, when more are due than a pass takes: no group waits for the backlog of another.
    pub group_share: u32,
    /// Take the leader lock first. Off only in tests which show that the lock only saves work.
    pub lead: bool,
}

impl Default for PlanRules {
    fn default() -> PlanRules {
        PlanRules { manifests_max: 1_000, group_share: 20, lead: true }
    }
}

/// What a planning pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// Another node is planning.
    Followed,
    /// This node planned.
    Led {
        /// Manifests that were due.
        due: u64,
        /// Jobs queued.
        queued: u64,
        /// Ledger rows that record why a tick, or a range of ticks, did not fire.
        skipped: u64,
        /// Manifests that could not be planned, with the reason; tried again in an hour.
        unplannable: Vec<(Name, String)>,
    },
}

/// Verb: one planning pass.
pub(crate) struct Plan {
    pub(crate) rules: PlanRules,
    pub(crate) advisory_key: i64,
}

impl Verb for Plan {
    type Answer = Planned;

    async fn run(&self, session: &mut Session) -> StoreResult<Planned> {
        if self.rules.lead {
            let rows = session.rows(Statement::PlanLead, vec![Value::Int(Some(self.advisory_key))]).await?;
            let leads = rows.first().map_or(Ok(false), |row| row.get("leads"))?;
            if !leads {
                return Ok(Planned::Followed);
            }
        }
        let due = self.due(session).await?;
        let mut pass = Pass::default();
        for row in &due {
            pass.add(row)?;
        }
        let Pass { firings, ranges, moves, unplannable } = pass;
        let fired = firing::fire(session, firings, ranges).await?;
        if !moves.is_empty() {
            let columns = vec![
                Column::Ints(moves.iter().map(|m| Some(m.0)).collect()),
                Column::Times(moves.iter().map(|m| Some(m.1)).collect()),
                Column::Times(moves.iter().map(|m| m.2).collect()),
            ];
            session.rows(Statement::PlanAdvance, columns).await?;
        }
        if !due.is_empty() {
            crate::crash::point("plan.before_commit");
        }
        let due = u64::try_from(due.len()).expect("a count fits");
        Ok(Planned::Led { due, queued: fired.queued, skipped: fired.skipped, unplannable })
    }
}

impl Plan {
    /// The oldest due manifests; and if more are due than a pass takes, a share for every group.
    async fn due(&self, session: &mut Session) -> StoreResult<Vec<Row>> {
        let most = i64::from(self.rules.manifests_max);
        let mut due = session.rows(Statement::PlanDue, vec![Value::Int(Some(most))]).await?;
        let share = i64::from(self.rules.group_share);
        if share == 0 || i64::try_from(due.len()).expect("a count fits") < most {
            return Ok(due);
        }
        let mut seen = due.iter().map(|row| row.get::<i64>("id")).collect::<StoreResult<HashSet<i64>>>()?;
        let share = vec![Value::Int(Some(share)), Value::Int(Some(SHARE_GROUPS_MAX))];
        for row in session.rows(Statement::PlanShare, share).await? {
            if seen.insert(row.get("id")?) {
                due.push(row);
            }
        }
        Ok(due)
    }
}

/// The rows that a pass writes.
#[derive(Default)]
struct Pass {
    firings: Vec<Firing>,
    ranges: Vec<SkippedRange>,
    /// Manifest, decided up to, next due.
    moves: Vec<(i64, Micros, Option<Micros>)>,
    unplannable: Vec<(Name, String)>,
}

impl Pass {
    fn add(&mut self, row: &Row) -> StoreResult<()> {
        let template = JobTemplate::of(row)?;
        let (now, planned_through): (Micros, Micros) = (row.get("now")?, row.get("planned_through")?);
        let key: Name = row.word("key", |key| Name::new(key).ok())?;
        let spec: String = row.get("spec")?;
        let rules = match Spec::from_json(&spec) {
            Ok(spec) => spec.rules(),
            // One manifest that cannot be read must not stop the others.
            Err(error) => {
                self.unplannable.push((key, error.to_string()));
                let (from, until) = (now, now);
                self.ranges.push(SkippedRange {
                    manifest_id: template.id,
                    from,
                    until,
                    reason: SkipReason::Unplannable,
                });
                self.moves.push((template.id, planned_through, Some(now.offset(UNPLANNABLE_PAUSE_MICROS))));
                return Ok(());
            }
        };
        let decision = decide(&rules, &key, planned_through, now, TICKS_PER_MANIFEST_MAX);
        self.moves.push((template.id, decision.planned_through, decision.next_due_at));
        let switched_off = !row.get::<bool>("group_enabled")?;
        for skip in decision.skips {
            let (from, until) = (skip.from_tick_at, skip.until_tick_at);
            self.ranges.push(SkippedRange { manifest_id: template.id, from, until, reason: skip.reason });
        }
        for tick in decision.fire {
            self.firings.push(Firing {
                template: template.clone(),
                origin: Origin::Tick,
                tick_at: tick.tick_at,
                due_at: tick.due_at,
                skip: switched_off.then_some(SkipReason::GroupDisabled),
            });
        }
        Ok(())
    }
}

/// What a planner that asks again and again remembers: up to when no manifest was due and no lease was over.
#[derive(Clone, Debug, Default)]
pub struct PlanCursor(LowWater<2>);

impl PlanCursor {
    /// Manifests have changed: one that was paused may be due since long ago.
    pub(crate) fn forget(&mut self) {
        self.0.forget();
    }
}

/// When the planner has work next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextPlan {
    /// The next moment a manifest is due; `None` if none ever is.
    pub next_due_at: Option<Micros>,
    /// A lease ran out, or a job is long past its time.
    pub lease_over: bool,
    /// The database's clock.
    pub now: Micros,
}

impl Store {
    /// Runs one planning pass: due ticks become jobs, or recorded skips.
    pub async fn plan(&self, rules: PlanRules) -> StoreResult<Planned> {
        let advisory_key = self.options.advisory_key("plan");
        self.run(Plan { rules, advisory_key }).await
    }

    /// When the next manifest is due.
    pub async fn next_plan(&self) -> StoreResult<NextPlan> {
        self.next_plan_from(&mut PlanCursor::default()).await
    }

    /// Like [`Store::next_plan`], by a planner that asks again and again. If that takes long, it reads only what has come since it
    /// asked before, and finds what was committed late within ten seconds.
    pub async fn next_plan_from(&self, cursor: &mut PlanCursor) -> StoreResult<NextPlan> {
        let from = cursor.0.marks();
        let [manifests, leases] = from;
        let began = Instant::now();
        let next = Query::one(Statement::PlanNext, values![manifests, leases], |row| {
            let (next_due_at, lease_over) = (row.get("next_due_at")?, row.get("lease_over")?);
            Ok(NextPlan { next_due_at, lease_over, now: row.get("now")? })
        });
        let next = self.db.read(next).await?;
        let is_due = next.next_due_at.is_some_and(|due| due <= next.now);
        cursor.0.polled(from, [is_due, next.lease_over], next.now, began.elapsed());
        Ok(next)
    }
}
