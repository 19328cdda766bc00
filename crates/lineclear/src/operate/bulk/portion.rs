//! Works on bulk operations, one portion at a time.

use lineclear_model::query::Query;

use crate::db::statements::Statement;
use crate::db::{Query as DbQuery, Row, Session, Verb, values};
use crate::error::no_answer;
use crate::operate::bulk::canary::CheckCanary;
use crate::operate::bulk::{BulkAction, BulkOperation, PORTION, bulk_operation_of};
use crate::operate::cancel;
use crate::operate::dead_letters::{Acknowledge, Revival, Revive};
use crate::operate::retry::{Retried, Retry, RetryOptions};
use crate::store::{DeadLetterId, JobId, Store, StoreError, StoreResult};

/// How long a bulk operation is leased to the node that works on it.
const LEASE_MS: i64 = 15_000;

/// How long the other jobs wait for the end of the canary.
const CANARY_MS: i64 = 86_400_000;

/// Treats one portion of a bulk operation. The action and the new position are one transaction, so that each job is treated once.
struct Portion {
    operation: BulkOperation,
    holder: String,
    jobs: Vec<JobId>,
    /// Where the next portion begins; `None`: this is the last.
    next: Option<i64>,
}

/// The result of a portion.
struct Worked {
    operation: BulkOperation,
    freed_keys: Vec<String>,
}

/// Locks a bulk operation. No row: another node holds it, it was cancelled, or its position has changed.
pub(super) async fn lock(
    session: &mut Session,
    operation: &BulkOperation,
    holder: &str,
) -> StoreResult<Vec<Row>> {
    let params = values![operation.id.0, holder, operation.position, CANARY_MS];
    session.rows(Statement::BulkLock, params).await
}

/// What was done to the jobs of a portion.
#[derive(Default)]
struct Treated {
    done: u64,
    /// Limit keys that may have free capacity now.
    freed_keys: Vec<String>,
    /// Jobs that will run again, newest first.
    released: Vec<JobId>,
}

impl Treated {
    fn of_released(mut released: Vec<JobId>) -> Treated {
        released.sort_unstable_by(|one, other| other.cmp(one));
        Treated { done: released.len() as u64, freed_keys: Vec::new(), released }
    }
}

impl Verb for Portion {
    /// `None`: the operation was cancelled, or another node works on it.
    type Answer = Option<Worked>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Worked>> {
        if lock(session, &self.operation, &self.holder).await?.is_empty() {
            return Ok(None);
        }
        let treated = if self.jobs.is_empty() { Treated::default() } else { self.treat(session).await? };
        self.spread(session, &treated.released).await?;
        crate::crash::point("bulk_operation.before_commit");
        let skipped = (self.jobs.len() as u64).saturating_sub(treated.done);
        let canary = treated.released.first().filter(|_| self.operation.lacks_canary());
        let params = values![
            self.operation.id.0,
            self.next,
            treated.done,
            skipped,
            LEASE_MS,
            canary.map(|job| job.0),
        ];
        let rows = session.rows(Statement::BulkAdvance, params).await?;
        let operation = bulk_operation_of(rows.first().ok_or_else(|| no_answer("bulk_advance"))?)?;
        Ok(Some(Worked { operation, freed_keys: treated.freed_keys }))
    }
}

impl Portion {
    async fn treat(&self, session: &mut Session) -> StoreResult<Treated> {
        let (by, note) = (self.operation.created_by.clone(), self.operation.reason.clone());
        match self.operation.action {
            BulkAction::Cancel => {
                let (done, freed_keys) = cancel::cancel_many(session, &self.jobs).await?;
                Ok(Treated { done, freed_keys, ..Treated::default() })
            }
            BulkAction::Retry => {
                let options = RetryOptions { by, note, ..RetryOptions::default() };
                let retried = Retry { jobs: self.jobs.clone(), options }.run(session).await?;
                let released = |(job, result): &(JobId, Retried)| match result {
                    Retried::Due | Retried::Revived(_) => Some(*job),
                    Retried::Again(new) => Some(*new),
                    Retried::InputGone | Retried::NotOver(_) | Retried::Unknown => None,
                };
                Ok(Treated::of_released(retried.iter().filter_map(released).collect()))
            }
            BulkAction::Revive => {
                let ids = self.dead_letters(session).await?;
                let revival = Revival { by, note, ..Revival::default() };
                let revived = Revive { ids, revival }.run(session).await?;
                Ok(Treated::of_released(revived.iter().map(|one| one.job).collect()))
            }
            BulkAction::Acknowledge => {
                let ids = self.dead_letters(session).await?;
                let done = Acknowledge { ids, by, note }.run(session).await?.len() as u64;
                Ok(Treated { done, ..Treated::default() })
            }
        }
    }

    /// Spreads the due times of released jobs over the period of the operation, before the commit shows them.
    async fn spread(&self, session: &mut Session, released: &[JobId]) -> StoreResult<()> {
        if self.operation.mode.over().is_none() || released.is_empty() {
            return Ok(());
        }
        let jobs: Vec<i64> = released.iter().map(|job| job.0).collect();
        let first = self.operation.done.saturating_add(self.operation.skipped);
        session.rows(Statement::BulkSpread, values![self.operation.id.0, jobs, first]).await?;
        Ok(())
    }

    async fn dead_letters(&self, session: &mut Session) -> StoreResult<Vec<DeadLetterId>> {
        let jobs: Vec<i64> = self.jobs.iter().map(|job| job.0).collect();
        let rows = session.rows(Statement::RetryDead, values![jobs]).await?;
        rows.iter().map(|row| row.get("id").map(DeadLetterId)).collect()
    }
}

impl Store {
    /// Treats the next portion of the oldest bulk operation that is due and that no other node works on, or checks its canary.
    /// `None`: there is none. Calling this repeatedly, under a name of the caller's own, completes every bulk operation.
    pub async fn work_on_bulk_operation(&self, holder: &str) -> StoreResult<Option<BulkOperation>> {
        if !self.db.read(DbQuery::one(Statement::BulkPending, values![], |row| row.get("waits"))).await? {
            return Ok(None);
        }
        let lease = DbQuery::first(Statement::BulkLease, values![holder, LEASE_MS], bulk_operation_of);
        let Some(operation) = self.run(lease).await? else { return Ok(None) };
        if let (true, Some(canary)) = (operation.waits_for_canary, operation.canary) {
            return self.run(CheckCanary { operation, canary, holder: holder.to_owned() }).await;
        }
        let query = match Query::parse(&operation.q) {
            Ok(query) => query,
            Err(bad) => {
                // The engine did not write this query. It must not block other operations.
                let because = Some("its query cannot be read".to_owned());
                self.stop_bulk_operation(operation.id, because).await?;
                let what = format!("the query of bulk operation {}: {bad}", operation.id);
                return Err(StoreError::Corrupt { what });
            }
        };
        let most = if operation.lacks_canary() { 1 } else { PORTION };
        let found = self.search(&operation.action.of(query), Some(JobId(operation.position)), most).await?;
        let jobs: Vec<JobId> = found.items.iter().map(|job| job.id).collect();
        // A canary that is the only job is waited for, too.
        let first = jobs.first().filter(|_| operation.lacks_canary());
        let next = first.copied().or(found.next).map(|next| next.0);
        let portion = Portion { operation, holder: holder.to_owned(), jobs, next };
        let Some(worked) = self.run(portion).await? else { return Ok(None) };
        self.wake_or_warn(worked.freed_keys).await;
        self.notify_manifests_changed().await;
        Ok(Some(worked.operation))
    }
}
