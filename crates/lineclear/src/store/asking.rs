//! What operators ask of the store, and what they do to one job or to many at once.

use std::time::Duration;

use lineclear_model::Name;
use lineclear_model::explain::Explanation;
use lineclear_model::query::Query;

use super::db::Value;
use super::sql::Statement;
use super::verbs::batch::{self, Batch, BatchId, CountedBatch, NewBatch, PORTION};
use super::verbs::retry::{Retried, Retry, RetryOptions};
use super::verbs::{explain, no_answer};
use super::views::{PAGE_MAX, Page};
use super::{JobId, Store, StoreError, StoreResult, door};

/// Jobs that are counted for a batch at most.
const COUNT_MAX: u64 = 10_000;
/// Pages that counting looks through at most.
const COUNT_PAGES_MAX: u32 = 20;
/// Longest time for which a batch can be taken back.
pub const STARTS_IN_MAX: Duration = Duration::from_secs(86_400);

/// How many jobs a query finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// So many.
    pub count: u64,
    /// And no more; otherwise at least so many: counting stops at a bound.
    pub is_exact: bool,
}

impl Store {
    /// Why a job does not run, gate by gate, or how it ended. `None`: there is no such job (any more).
    pub async fn explain_job(&self, job: JobId) -> StoreResult<Option<Explanation>> {
        self.db.read(explain::ExplainJob(job)).await
    }

    /// Why a manifest makes no job now, gate by gate, and whether the next one would run. `None`: there is no such manifest.
    pub async fn explain_manifest(&self, key: Name) -> StoreResult<Option<Explanation>> {
        self.db.read(explain::ExplainManifest(key)).await
    }

    /// Tries a job again: one that waits for its next try is due now, a dead letter is revived, and one that is over is run again as
    /// a new job with the same input, or with the one that the options have.
    pub async fn retry(&self, job: JobId, options: RetryOptions) -> StoreResult<Retried> {
        door::check_retry(&options)?;
        let mut answer = self.retry_now(job, &options).await?;
        if answer.may_be_moving() {
            answer = self.retry_now(job, &options).await?;
        }
        self.orders_changed().await;
        Ok(answer)
    }

    async fn retry_now(&self, job: JobId, options: &RetryOptions) -> StoreResult<Retried> {
        let answers = self.run(Retry { jobs: vec![job], options: options.clone() }).await?;
        answers.first().map(|(_, answer)| *answer).ok_or_else(|| no_answer("retry"))
    }

    /// How many jobs a query finds, up to a bound.
    pub async fn count(&self, query: &Query) -> StoreResult<Count> {
        let query = self.fixed(query.clone()).await?;
        let (mut count, mut before) = (0, None);
        for _ in 0..COUNT_PAGES_MAX {
            let found = self.search(&query, before, PAGE_MAX).await?;
            count += found.items.len() as u64;
            before = found.next;
            if before.is_none() || count >= COUNT_MAX {
                break;
            }
        }
        Ok(Count { count, is_exact: before.is_none() })
    }

    /// Makes a batch: something is done to all jobs that a query finds, of those that exist now, beginning in a while. Until then
    /// it can be taken back.
    pub async fn add_batch(&self, new: NewBatch) -> StoreResult<Batch> {
        let counted = self.count_batch(new).await?;
        self.begin_batch(counted).await
    }

    /// The first half of [`Store::add_batch`], which only looks, so that a store for readers may do it.
    pub async fn count_batch(&self, new: NewBatch) -> StoreResult<CountedBatch> {
        [Some(new.by.as_str()), new.reason.as_deref()]
            .into_iter()
            .flatten()
            .try_for_each(door::check_text)?;
        if new.starts_in > STARTS_IN_MAX {
            return Err(StoreError::refused("starts_in", "a batch starts within a day"));
        }
        new.mode.check(new.action)?;
        let query = self.fixed(new.query.clone()).await?;
        // In its one form it may be longer than it was written.
        Query::parse(&query.to_string()).map_err(|bad| StoreError::refused("q", bad.to_string()))?;
        let total = self.count(&new.action.of(query.clone())).await?;
        Ok(CountedBatch { new: NewBatch { query, ..new }, total })
    }

    /// The second half.
    pub async fn begin_batch(&self, counted: CountedBatch) -> StoreResult<Batch> {
        self.run(batch::Add(counted)).await
    }

    async fn batch_of(&self, statement: Statement, params: Vec<Value>) -> StoreResult<Option<Batch>> {
        Ok(self.run(batch::Ask { statement, params }).await?.into_iter().next())
    }

    /// Stops a batch: what it has done stays done. One that has not begun has done nothing. `None`: it is over, or there is none.
    pub async fn cancel_batch(&self, id: BatchId) -> StoreResult<Option<Batch>> {
        self.stop_batch(id, None).await
    }

    async fn stop_batch(&self, id: BatchId, because: Option<String>) -> StoreResult<Option<Batch>> {
        self.batch_of(Statement::BatchCancel, vec![Value::Int(Some(id.0)), Value::Text(because)]).await
    }

    /// One batch.
    pub async fn batch(&self, id: BatchId) -> StoreResult<Option<Batch>> {
        Ok(self.batch_page(i64::MAX, 1, Some(id.0)).await?.into_iter().next())
    }

    /// Batches, newest first, before `before` if given.
    pub async fn batches(&self, before: Option<BatchId>, most: u32) -> StoreResult<Page<Batch, BatchId>> {
        let most = most.clamp(1, PAGE_MAX);
        let items = self.batch_page(before.map_or(i64::MAX, |before| before.0), most, None).await?;
        let next = (items.len() >= most as usize).then(|| items.last().map(|batch| batch.id)).flatten();
        Ok(Page { items, next })
    }

    async fn batch_page(&self, before: i64, most: u32, only: Option<i64>) -> StoreResult<Vec<Batch>> {
        let params = vec![Value::Int(Some(before)), Value::Int(Some(i64::from(most))), Value::Int(only)];
        self.db.read(batch::Ask { statement: Statement::ListBatches, params }).await
    }

    /// Does the next portion of the oldest batch whose time has come and that nobody else works on, or looks how its canary is. `None`: there is none. Whoever
    /// calls this again and again, under a name of its own, brings every batch to its end.
    pub async fn work_on_batch(&self, holder: &str) -> StoreResult<Option<Batch>> {
        if !self.db.read(batch::Waits).await? {
            return Ok(None);
        }
        let Some(batch) = self.run(batch::take(holder)).await?.into_iter().next() else { return Ok(None) };
        if let (true, Some(canary)) = (batch.waits_for_canary, batch.canary) {
            return self.run(batch::canary::Watch { batch, canary, holder: holder.to_owned() }).await;
        }
        let query = match Query::parse(&batch.q) {
            Ok(query) => query,
            Err(bad) => {
                // Not written by us. It must not stand in the way of others.
                self.stop_batch(batch.id, Some("its query cannot be read".to_owned())).await?;
                return Err(StoreError::Corrupt { what: format!("the query of batch {}: {bad}", batch.id) });
            }
        };
        let most = if batch.lacks_canary() { 1 } else { PORTION };
        let found = self.search(&batch.action.of(query), Some(JobId(batch.position)), most).await?;
        let jobs: Vec<JobId> = found.items.iter().map(|job| job.id).collect();
        // Also the only job is waited for.
        let first = jobs.first().filter(|_| batch.lacks_canary());
        let next = first.copied().or(found.next).map(|next| next.0);
        let portion = batch::Portion { batch, holder: holder.to_owned(), jobs, next };
        let Some(worked) = self.run(portion).await? else { return Ok(None) };
        self.wake_or_warn(worked.freed_keys).await;
        self.orders_changed().await;
        Ok(Some(worked.batch))
    }
}
