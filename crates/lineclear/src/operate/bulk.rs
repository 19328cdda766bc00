//! Bulk operations: an action on all jobs that match a query, one portion at a time. If the node that works on one dies, another
//! continues where it stopped.

mod action;
mod canary;
mod mode;
mod portion;

use std::time::Duration;

use lineclear_model::Micros;
use lineclear_model::query::Query;

use crate::db::statements::Statement;
use crate::db::{Query as DbQuery, Row, values};
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{Count, JobId, Store, StoreError, StoreResult};
use crate::validate;

pub use crate::operate::bulk::action::BulkAction;
pub use crate::operate::bulk::mode::{BulkMode, SPREAD_MAX};

/// Jobs of one portion, which is one transaction.
pub const PORTION: u32 = 200;

/// Longest delay before a bulk operation starts.
pub const STARTS_IN_MAX: Duration = Duration::from_secs(86_400);

/// The id of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BulkOperationId(pub i64);

impl std::fmt::Display for BulkOperationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The status of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkStatus {
    /// It has not started, and can still be cancelled without effect.
    Waiting,
    /// It has started; a node works on it or will continue it.
    Running,
    /// It has treated all its jobs.
    Done,
    /// It was stopped.
    Cancelled,
}

impl BulkStatus {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            BulkStatus::Waiting => "waiting",
            BulkStatus::Running => "running",
            BulkStatus::Done => "done",
            BulkStatus::Cancelled => "cancelled",
        }
    }

    fn from_word(word: &str) -> Option<BulkStatus> {
        let all = [BulkStatus::Waiting, BulkStatus::Running, BulkStatus::Done, BulkStatus::Cancelled];
        all.into_iter().find(|status| status.as_str() == word)
    }
}

/// A bulk operation to create.
#[derive(Clone, Debug)]
pub struct NewBulkOperation {
    /// The action.
    pub action: BulkAction,
    /// The jobs, of those that exist now.
    pub query: Query,
    /// Why.
    pub reason: Option<String>,
    /// Who creates it.
    pub by: String,
    /// The delay before it starts; until then it can be cancelled without effect.
    pub starts_in: Duration,
    /// How its jobs are released.
    pub mode: BulkMode,
}

/// A bulk operation to create, with its jobs counted and the relative times of its query replaced by absolute ones.
#[derive(Clone, Debug)]
pub struct CountedBulkOperation {
    pub(crate) new: NewBulkOperation,
    pub(crate) total: Count,
}

/// A bulk operation and its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkOperation {
    /// Its id.
    pub id: BulkOperationId,
    /// The action.
    pub action: BulkAction,
    /// The query that selects its jobs.
    pub q: String,
    /// Why.
    pub reason: Option<String>,
    /// Who created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Micros,
    /// When it starts; until then it can be cancelled without effect.
    pub starts_at: Micros,
    /// Its status.
    pub status: BulkStatus,
    /// Jobs that matched when it was created.
    pub total: u64,
    /// Whether `total` is exact: counting stops at a bound.
    pub total_is_exact: bool,
    /// Jobs that were treated.
    pub done: u64,
    /// Jobs to which the action did not apply any more.
    pub skipped: u64,
    /// When it ended.
    pub finished_at: Option<Micros>,
    /// How its jobs are released.
    pub mode: BulkMode,
    /// Its canary job, if one was released.
    pub canary: Option<JobId>,
    /// Whether the other jobs wait for the canary.
    pub waits_for_canary: bool,
    /// Why it stopped before its end.
    pub stopped_because: Option<String>,
    /// Jobs below this id are still to be treated.
    pub(crate) position: i64,
}

fn bulk_operation_of(row: &Row) -> StoreResult<BulkOperation> {
    let (word, over_ms): (String, Option<i64>) = (row.get("mode")?, row.get("over_ms")?);
    let unknown =
        || StoreError::Corrupt { what: format!("a bulk operation has the mode {word:?} over {over_ms:?}") };
    let status = row.word("status", BulkStatus::from_word)?;
    let canary_check_at: Option<Micros> = row.get("look_at")?;
    Ok(BulkOperation {
        id: BulkOperationId(row.get("id")?),
        action: row.word("action", BulkAction::from_word)?,
        q: row.get("q")?,
        reason: row.get("reason")?,
        created_by: row.get("created_by")?,
        created_at: row.get("created_at")?,
        starts_at: row.get("starts_at")?,
        status,
        total: row.get("total")?,
        total_is_exact: row.get("total_is_exact")?,
        done: row.get("done")?,
        skipped: row.get("skipped")?,
        finished_at: row.get("finished_at")?,
        mode: BulkMode::of(&word, over_ms).ok_or_else(unknown)?,
        canary: row.get::<Option<i64>>("canary_job_id")?.map(JobId),
        waits_for_canary: status == BulkStatus::Running && canary_check_at.is_some(),
        stopped_because: row.get("stopped_because")?,
        position: row.get("position")?,
    })
}

impl BulkOperation {
    /// Whether a canary must run first and none was released yet.
    fn lacks_canary(&self) -> bool {
        self.mode == BulkMode::Canary && self.canary.is_none()
    }
}

/// Inserts a bulk operation.
pub(crate) fn insert(counted: CountedBulkOperation) -> DbQuery<BulkOperation> {
    let CountedBulkOperation { new, total } = counted;
    let millis = |length: Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    let params = values![
        new.action.as_str(),
        new.query.to_string(),
        new.reason,
        new.by,
        millis(new.starts_in),
        total.count,
        total.is_exact,
        new.mode.as_str(),
        new.mode.over().map(millis),
    ];
    DbQuery::one(Statement::BulkAdd, params, bulk_operation_of)
}

impl Store {
    /// Creates a bulk operation: an action on all jobs that match a query, of those that exist now. Until it starts, it can be
    /// cancelled without effect.
    pub async fn add_bulk_operation(&self, new: NewBulkOperation) -> StoreResult<BulkOperation> {
        let counted = self.count_bulk_operation(new).await?;
        self.begin_bulk_operation(counted).await
    }

    /// Checks a bulk operation and counts its jobs. Only reads, so that a read-only store can do it.
    pub async fn count_bulk_operation(&self, new: NewBulkOperation) -> StoreResult<CountedBulkOperation> {
        [Some(new.by.as_str()), new.reason.as_deref()]
            .into_iter()
            .flatten()
            .try_for_each(validate::check_text)?;
        if new.starts_in > STARTS_IN_MAX {
            return Err(StoreError::refused("starts_in", "`starts_in` must be at most a day"));
        }
        new.mode.check(new.action)?;
        let query = self.fixed(new.query.clone()).await?;
        // Its canonical form may be longer than the text it was parsed from.
        Query::parse(&query.to_string()).map_err(|bad| StoreError::refused("q", bad.to_string()))?;
        let total = self.count(&new.action.of(query.clone())).await?;
        Ok(CountedBulkOperation { new: NewBulkOperation { query, ..new }, total })
    }

    /// Creates a bulk operation that [`Store::count_bulk_operation`] has counted.
    pub async fn begin_bulk_operation(&self, counted: CountedBulkOperation) -> StoreResult<BulkOperation> {
        self.run(insert(counted)).await
    }

    /// Stops a bulk operation; what it has done stays done. `None`: it has ended, or there is none.
    pub async fn cancel_bulk_operation(&self, id: BulkOperationId) -> StoreResult<Option<BulkOperation>> {
        self.stop_bulk_operation(id, None).await
    }

    async fn stop_bulk_operation(
        &self,
        id: BulkOperationId,
        because: Option<String>,
    ) -> StoreResult<Option<BulkOperation>> {
        self.run(DbQuery::first(Statement::BulkCancel, values![id.0, because], bulk_operation_of)).await
    }

    /// One bulk operation.
    pub async fn bulk_operation(&self, id: BulkOperationId) -> StoreResult<Option<BulkOperation>> {
        Ok(self.list_bulk_operations(i64::MAX, 1, Some(id.0)).await?.into_iter().next())
    }

    /// Bulk operations, newest first, before `before` if given.
    pub async fn bulk_operations(
        &self,
        before: Option<BulkOperationId>,
        most: u32,
    ) -> StoreResult<Page<BulkOperation, BulkOperationId>> {
        let most = most.clamp(1, PAGE_MAX);
        let items = self.list_bulk_operations(before.map_or(i64::MAX, |before| before.0), most, None).await?;
        let next = next_of(&items, most, |operation| operation.id);
        Ok(Page { items, next })
    }

    async fn list_bulk_operations(
        &self,
        before: i64,
        most: u32,
        only: Option<i64>,
    ) -> StoreResult<Vec<BulkOperation>> {
        self.db.read(DbQuery::each(Statement::ListBulk, values![before, most, only], bulk_operation_of)).await
    }
}
