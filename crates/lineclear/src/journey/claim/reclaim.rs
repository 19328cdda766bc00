//! reclaim: the lease of a vanished worker ran out; the job goes back to the queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::journey::isolate::{Attempt, isolate};
use crate::journey::low_water::LowWater;
use crate::journey::submit::overdue::end_overdue;
use crate::node::{Shared, metrics};
use crate::store::{BATCH, ClaimRef, JobId, NodeId, Store, StoreError, StoreResult};

/// A claim whose worker vanished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// The claim that was reclaimed.
    pub claim: ClaimRef,
    /// The node that held it.
    pub node: NodeId,
    /// What happened to the job.
    pub fate: Fate,
    pub(crate) limit_key: Option<String>,
}

/// What happened to a job whose worker vanished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits again, before all fresh work.
    Requeued,
    /// Its workers vanished too often: a dead letter.
    Buried,
    /// A cancel had been requested.
    Cancelled,
}

/// Which expired leases to reclaim.
#[derive(Clone)]
pub(crate) struct Reclaim {
    pub(crate) most: u32,
    pub(crate) crash_budget: u32,
    /// Jobs that the caller runs itself: a node that slept must not reclaim its own jobs.
    pub(crate) except: Vec<JobId>,
    /// Only leases that ended before this moment.
    pub(crate) ended_before: Micros,
    /// And not before this one.
    pub(crate) ended_since: Option<Micros>,
}

/// What a node that reclaims again and again remembers: up to when no lease was over.
#[derive(Clone, Debug, Default)]
pub struct ReclaimCursor {
    marks: LowWater<1>,
}

impl ReclaimCursor {
    /// The next one begins at the front.
    pub(crate) fn forget(&mut self) {
        self.marks.forget();
    }

    /// Begins at this mark for as long as a test takes.
    #[cfg(test)]
    pub(crate) fn keep_mark(&mut self, mark: Micros) {
        self.marks.keep(mark);
    }

    #[cfg(test)]
    pub(crate) fn mark(&self) -> Option<Micros> {
        self.marks.marks()[0]
    }
}

impl Reclaim {
    /// Of all jobs, or only of some.
    pub(crate) fn query(&self, only: &[JobId]) -> Query<Vec<Reclaimed>> {
        let ids = |jobs: &[JobId]| -> Vec<i64> { jobs.iter().map(|job| job.0).collect() };
        let (before, since) = (self.ended_before, self.ended_since);
        let params = values![self.most, self.crash_budget, ids(&self.except), ids(only), before, since];
        Query::each(Statement::Reclaim, params, reclaimed)
    }
}

fn reclaimed(row: &Row) -> StoreResult<Reclaimed> {
    Ok(Reclaimed {
        claim: ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? },
        node: NodeId(row.get("leased_by")?),
        fate: row.word("verdict", |word| match word {
            "requeue" => Some(Fate::Requeued),
            "bury" => Some(Fate::Buried),
            "cancel" => Some(Fate::Cancelled),
            _ => None,
        })?,
        limit_key: row.get("limit_key")?,
    })
}

/// Claims whose lease ran out, or whose job is long past its time.
fn candidates(most: u32, since: Option<Micros>) -> Query<Vec<JobId>> {
    Query::each(Statement::ReclaimCandidates, values![most, since], |row| row.get("id").map(JobId))
}

impl Store {
    /// Reclaims up to `most` jobs whose lease ran out; after `crash_budget` vanished workers a job is buried.
    pub async fn reclaim(&self, most: u32, crash_budget: u32) -> StoreResult<Vec<Reclaimed>> {
        self.reclaim_except(most, crash_budget, Vec::new()).await
    }

    /// Like [`Store::reclaim`], without jobs that the caller runs itself.
    pub async fn reclaim_except(
        &self,
        most: u32,
        crash_budget: u32,
        except: Vec<JobId>,
    ) -> StoreResult<Vec<Reclaimed>> {
        let (ended_before, most) = (self.now().await?, most.min(BATCH));
        self.reclaim_ended(Reclaim { most, crash_budget, except, ended_before, ended_since: None }).await
    }

    /// Like [`Store::reclaim`], for leases that ended so long ago.
    pub(crate) async fn reclaim_ended_ago(
        &self,
        most: u32,
        crash_budget: u32,
        ago: Duration,
    ) -> StoreResult<Vec<Reclaimed>> {
        let ended_before = self.now().await?.offset(-i64::try_from(ago.as_micros()).unwrap_or(i64::MAX));
        let except = Vec::new();
        self.reclaim_ended(Reclaim { most, crash_budget, except, ended_before, ended_since: None }).await
    }

    /// Like [`Store::reclaim`], by a node that reclaims again and again. If that takes long, it reads only leases that ended since an
    /// earlier time, and finds the others within ten seconds.
    pub async fn reclaim_from(
        &self,
        cursor: &mut ReclaimCursor,
        most: u32,
        crash_budget: u32,
    ) -> StoreResult<Vec<Reclaimed>> {
        let (ended_before, most) = (self.now().await?, most.min(BATCH));
        let reclaim = Reclaim { most, crash_budget, except: Vec::new(), ended_before, ended_since: None };
        self.reclaim_since(cursor, reclaim).await
    }

    async fn reclaim_since(
        &self,
        cursor: &mut ReclaimCursor,
        reclaim: Reclaim,
    ) -> StoreResult<Vec<Reclaimed>> {
        let ([ended_since], ended_before, began) =
            (cursor.marks.marks(), reclaim.ended_before, Instant::now());
        let reclaimed = self.reclaim_ended(Reclaim { ended_since, ..reclaim }).await?;
        // SQLite keeps no entries of leases that are over, so that it needs no mark.
        if self.options.is_postgres() {
            let took = began.elapsed();
            let is_left = !reclaimed.is_empty() || self.is_lease_over(ended_since).await?;
            cursor.marks.polled([ended_since], [is_left], ended_before, took);
        }
        Ok(reclaimed)
    }

    /// Whether a lease is over, or a job past its time, also one that cannot be reclaimed yet: its row is locked, or the next heartbeat of
    /// its node is still to come.
    async fn is_lease_over(&self, since: Option<Micros>) -> StoreResult<bool> {
        Ok(!self.db.read(candidates(1, since)).await?.is_empty())
    }

    async fn reclaim_ended(&self, reclaim: Reclaim) -> StoreResult<Vec<Reclaimed>> {
        let reclaimed = match self.run(reclaim.query(&[])).await {
            Err(error) if error.may_be_one_rows_fault() => self.reclaim_isolated(reclaim, error).await?,
            answer => answer?,
        };
        self.wake_or_warn(reclaimed.iter().filter_map(|r| r.limit_key.clone()).collect()).await;
        Ok(reclaimed)
    }

    /// After a refusal: reclaims every claim except those that a rule refuses, which are left alone for an hour.
    async fn reclaim_isolated(&self, reclaim: Reclaim, cause: StoreError) -> StoreResult<Vec<Reclaimed>> {
        let mut jobs = self.db.read(candidates(reclaim.most, reclaim.ended_since)).await?;
        jobs.retain(|job| !reclaim.except.contains(job));
        let results = isolate(&Together { store: self, reclaim }, &jobs).await;
        let (mut reclaimed, mut isolated) = (Vec::new(), 0);
        for (job, result) in jobs.into_iter().zip(results) {
            match result {
                Ok(answer) => reclaimed.extend(answer),
                Err(error) if error.may_be_one_rows_fault() => {
                    tracing::error!(%error, job.id = %job, "a vanished worker's job cannot be taken back; it is tried again in an hour");
                    let why = error.to_string();
                    self.run(Query::execute(Statement::ReclaimSetAside, values![job.0, why])).await?;
                    isolated += 1;
                }
                // Tried again with the next pass.
                Err(StoreError::Locked { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // No candidate was refused: the error is not about a row.
        if isolated == 0 && reclaimed.is_empty() { Err(cause) } else { Ok(reclaimed) }
    }
}

struct Together<'a> {
    store: &'a Store,
    reclaim: Reclaim,
}

impl Attempt for Together<'_> {
    type Item = JobId;
    /// `None`: it has been renewed or settled meanwhile.
    type Answer = Option<Reclaimed>;

    async fn attempt(&self, jobs: &[JobId]) -> StoreResult<Vec<Option<Reclaimed>>> {
        let reclaimed = self.store.run(self.reclaim.query(jobs)).await?;
        let mut by_job: HashMap<JobId, Reclaimed> =
            reclaimed.into_iter().map(|reclaimed| (reclaimed.claim.job, reclaimed)).collect();
        Ok(jobs.iter().map(|job| by_job.remove(job)).collect())
    }
}

/// Reclaims jobs of vanished workers, unless this node has just recovered from an outage itself; returns how many.
pub(crate) async fn reclaim_lost(
    shared: &Arc<Shared>,
    cursor: &mut ReclaimCursor,
    most: u32,
) -> StoreResult<usize> {
    if shared.caution.may_reclaim_after().is_none() {
        return Ok(0);
    }
    // A database that stalled lets leases of live nodes run out. Asked for its clock first, it is not asked to reclaim if it answers
    // late; and if it stalls after that, it takes back nothing that ran out meanwhile.
    let asked_at = Instant::now();
    let ended_before = shared.loop_store.probe_writes().await?;
    shared.caution.note_answer(asked_at.elapsed());
    shared.note_clock(asked_at, ended_before);
    let Some(ago) = shared.caution.may_reclaim_after() else { return Ok(0) };
    let ended_before = ended_before.offset(-i64::try_from(ago.as_micros()).unwrap_or(i64::MAX));
    let (crash_budget, except) = (shared.options.crash_budget, shared.running.job_ids());
    let most = most.min(BATCH);
    // Before its lease is taken for that of a worker that vanished.
    let [ended_since] = cursor.marks.marks();
    let overdue = end_overdue(shared, ended_before, ended_since, most).await?;
    let reclaim = Reclaim { most, crash_budget, except, ended_before, ended_since: None };
    let lost = shared.loop_store.reclaim_since(cursor, reclaim).await?;
    metrics::lost(lost.len());
    for lost in &lost {
        let (job, no) = (lost.claim.job, lost.claim.no);
        tracing::warn!(job.id = %job, claim.no = no, node.id = %lost.node, fate = ?lost.fate, "a worker vanished");
    }
    Ok(lost.len() + overdue)
}
