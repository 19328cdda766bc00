//! batch: what a person does to many jobs at once, portion by portion. Who works on it may die: another goes on where it was.

pub(crate) mod canary;
mod mode;

use std::time::Duration;

use lineclear_model::query::Query;
use lineclear_model::{JobState, Micros};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::error::no_answer;
use crate::operate::cancel;
use crate::operate::dead_letters::{Acknowledge, Revival, Revive};
use crate::operate::retry::{Retried, Retry, RetryOptions};
use crate::read::{PAGE_MAX, Page};
use crate::store::{Count, DeadLetterId, JobId, Store, StoreError, StoreResult};
use crate::validate;

pub use crate::operate::bulk::mode::{BulkMode, SPREAD_MAX};

/// Jobs that one portion treats, in one transaction.
pub const PORTION: u32 = 200;

/// For so long a batch is left to whoever works on it.
const LEASE_MS: i64 = 15_000;

/// So long the rest waits for a canary that does not end.
const CANARY_MS: i64 = 86_400_000;

/// A batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BulkOperationId(pub i64);

impl std::fmt::Display for BulkOperationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What is done to each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkAction {
    /// Those that wait are over; those that run are told to stop.
    Cancel,
    /// They run again, each in the way that its state allows.
    Retry,
    /// Dead letters wait again.
    Revive,
    /// Dead letters rest.
    Acknowledge,
}

impl BulkAction {
    /// All of them.
    pub const ALL: &[BulkAction] =
        &[BulkAction::Cancel, BulkAction::Retry, BulkAction::Revive, BulkAction::Acknowledge];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            BulkAction::Cancel => "cancel",
            BulkAction::Retry => "retry",
            BulkAction::Revive => "revive",
            BulkAction::Acknowledge => "acknowledge",
        }
    }

    /// The action of a word, if there is one.
    pub fn from_word(word: &str) -> Option<BulkAction> {
        BulkAction::ALL.iter().copied().find(|action| action.as_str() == word)
    }

    /// The states in which it can be done to a job.
    pub const fn states(self) -> &'static [JobState] {
        use JobState::{
            Cancelled, Completed, Dead, Held, Parked, Queued, Ready, Retrying, Running, Scheduled,
        };
        match self {
            BulkAction::Cancel => &[Scheduled, Queued, Held, Parked, Ready, Running, Retrying],
            BulkAction::Retry => &[Retrying, Completed, Cancelled, Dead],
            BulkAction::Revive | BulkAction::Acknowledge => &[Dead],
        }
    }

    /// The jobs of a query to which it can be done. A dead letter that rests is not resolved once more; a retry runs it again as a new job.
    pub fn of(self, mut query: Query) -> Query {
        let states = self.states().iter().copied().filter(|state| query.wants(*state));
        query.states = Some(states.collect());
        query.only_awaiting = matches!(self, BulkAction::Revive | BulkAction::Acknowledge);
        query
    }
}

/// How far a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkStatus {
    /// It has not begun, and can be taken back.
    Waiting,
    /// Somebody works on it, or will go on with it.
    Running,
    /// It is through.
    Done,
    /// Somebody stopped it.
    Cancelled,
}

impl BulkStatus {
    /// The word.
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

/// A batch to be.
#[derive(Clone, Debug)]
pub struct NewBulkOperation {
    /// What to do.
    pub action: BulkAction,
    /// To which jobs, of those that exist now.
    pub query: Query,
    /// Why.
    pub reason: Option<String>,
    /// Who wants it.
    pub by: String,
    /// How long it can be taken back.
    pub starts_in: std::time::Duration,
    /// How its jobs follow each other.
    pub mode: BulkMode,
}

/// A batch to be whose jobs are counted, and whose query means the same whenever it is asked.
#[derive(Clone, Debug)]
pub struct CountedBulkOperation {
    pub(crate) new: NewBulkOperation,
    pub(crate) total: Count,
}

/// Verb: a batch begins.
pub(crate) struct Add(pub(crate) CountedBulkOperation);

impl Verb for Add {
    type Answer = BulkOperation;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<BulkOperation> {
        let CountedBulkOperation { new, total } = &self.0;
        let params = vec![
            Value::Text(Some(new.action.as_str().to_owned())),
            Value::Text(Some(new.query.to_string())),
            Value::Text(new.reason.clone()),
            Value::Text(Some(new.by.clone())),
            Value::Int(Some(i64::try_from(new.starts_in.as_millis()).unwrap_or(i64::MAX))),
            Value::Int(Some(i64::try_from(total.count).unwrap_or(i64::MAX))),
            Value::Bool(total.is_exact),
            Value::Text(Some(new.mode.as_str().to_owned())),
            Value::Int(new.mode.over().map(|over| i64::try_from(over.as_millis()).unwrap_or(i64::MAX))),
        ];
        let rows = session.rows(Statement::BulkAdd, params).await?;
        bulk_operation_of(rows.first().ok_or_else(|| no_answer("bulk_add"))?)
    }
}

/// A batch, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkOperation {
    /// Its id.
    pub id: BulkOperationId,
    /// What is done.
    pub action: BulkAction,
    /// To which jobs, in the search language.
    pub q: String,
    /// Why.
    pub reason: Option<String>,
    /// Who wanted it.
    pub created_by: String,
    /// When.
    pub created_at: Micros,
    /// Until then it can be taken back.
    pub starts_at: Micros,
    /// How far it is.
    pub status: BulkStatus,
    /// Jobs that it meant when it was made.
    pub total: u64,
    /// Whether that is all: counting stops at a bound.
    pub total_is_exact: bool,
    /// Jobs that were treated.
    pub done: u64,
    /// Jobs that could not be treated any more when their turn came.
    pub skipped: u64,
    /// When it ended.
    pub finished_at: Option<Micros>,
    /// How its jobs follow each other.
    pub mode: BulkMode,
    /// The job that went first, if it has a canary.
    pub canary: Option<JobId>,
    /// Whether the rest waits for that one.
    pub waits_for_canary: bool,
    /// Why it stopped by itself.
    pub stopped_because: Option<String>,
    /// Jobs below this id are still to be looked at.
    pub(crate) position: i64,
}

fn bulk_operation_of(row: &Row) -> StoreResult<BulkOperation> {
    let (word, over_ms): (String, Option<i64>) = (row.get("mode")?, row.get("over_ms")?);
    let unknown = || StoreError::Corrupt { what: format!("a batch has the mode {word:?} over {over_ms:?}") };
    let status = row.word("status", BulkStatus::from_word)?;
    let look_at: Option<Micros> = row.get("look_at")?;
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
        waits_for_canary: status == BulkStatus::Running && look_at.is_some(),
        stopped_because: row.get("stopped_because")?,
        position: row.get("position")?,
    })
}

/// Verb: a statement about batches, on its own.
pub(crate) struct Ask {
    pub(crate) statement: Statement,
    pub(crate) params: Vec<Value>,
}

impl Verb for Ask {
    type Answer = Vec<BulkOperation>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<BulkOperation>> {
        session.rows(self.statement, self.params.clone()).await?.iter().map(bulk_operation_of).collect()
    }
}

/// Verb: is there a batch whose time has come?
pub(crate) struct Waits;

impl Verb for Waits {
    type Answer = bool;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<bool> {
        let rows = session.rows(Statement::BulkPending, Vec::<Value>::new()).await?;
        rows.first().ok_or_else(|| no_answer("bulk_pending"))?.get("waits")
    }
}

pub(crate) fn take(holder: &str) -> Ask {
    let params = vec![Value::Text(Some(holder.to_owned())), Value::Int(Some(LEASE_MS))];
    Ask { statement: Statement::BulkLease, params }
}

/// Verb: one portion of a batch. What is done, and how far the batch is, is one transaction, so that each job is treated once.
pub(crate) struct Portion {
    pub(crate) batch: BulkOperation,
    pub(crate) holder: String,
    pub(crate) jobs: Vec<JobId>,
    /// Where the next portion begins; `None`: this is the last.
    pub(crate) next: Option<i64>,
}

/// A portion that is done.
pub(crate) struct Worked {
    pub(crate) batch: BulkOperation,
    pub(crate) freed_keys: Vec<String>,
}

/// The batch, locked, if it is still ours and where we left it.
async fn hold(session: &mut Session, batch: &BulkOperation, holder: &str) -> StoreResult<Vec<Row>> {
    let params = vec![
        Value::Int(Some(batch.id.0)),
        Value::Text(Some(holder.to_owned())),
        Value::Int(Some(batch.position)),
        Value::Int(Some(CANARY_MS)),
    ];
    session.rows(Statement::BulkLock, params).await
}

/// What was done to jobs.
#[derive(Default)]
struct Treated {
    done: u64,
    /// Limit keys that are free now.
    freed_keys: Vec<String>,
    /// Jobs that were let go, from new to old.
    gone: Vec<JobId>,
}

impl Treated {
    fn let_go(mut gone: Vec<JobId>) -> Treated {
        gone.sort_unstable_by(|one, other| other.cmp(one));
        Treated { done: gone.len() as u64, freed_keys: Vec::new(), gone }
    }
}

impl Verb for Portion {
    /// `None`: somebody cancelled the batch, or another works on it.
    type Answer = Option<Worked>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Worked>> {
        if hold(session, &self.batch, &self.holder).await?.is_empty() {
            return Ok(None);
        }
        let treated = if self.jobs.is_empty() { Treated::default() } else { self.treat(session).await? };
        self.spread(session, &treated.gone).await?;
        crate::crash::point("batch.before_commit");
        let skipped = (self.jobs.len() as u64).saturating_sub(treated.done);
        let canary = treated.gone.first().filter(|_| self.batch.lacks_canary());
        let params = vec![
            Value::Int(Some(self.batch.id.0)),
            Value::Int(self.next),
            count(treated.done),
            count(skipped),
            Value::Int(Some(LEASE_MS)),
            Value::Int(canary.map(|job| job.0)),
        ];
        let rows = session.rows(Statement::BulkAdvance, params).await?;
        let batch = bulk_operation_of(rows.first().ok_or_else(|| no_answer("bulk_advance"))?)?;
        Ok(Some(Worked { batch, freed_keys: treated.freed_keys }))
    }
}

fn count(n: u64) -> Value {
    Value::Int(Some(i64::try_from(n).unwrap_or(i64::MAX)))
}

impl BulkOperation {
    /// Whether one job goes first, and none has gone yet.
    pub(crate) fn lacks_canary(&self) -> bool {
        self.mode == BulkMode::Canary && self.canary.is_none()
    }
}

impl Portion {
    async fn treat(&self, session: &mut Session) -> StoreResult<Treated> {
        let (by, note) = (self.batch.created_by.clone(), self.batch.reason.clone());
        match self.batch.action {
            BulkAction::Cancel => {
                let (done, freed_keys) = cancel::many(session, &self.jobs).await?;
                Ok(Treated { done, freed_keys, gone: Vec::new() })
            }
            BulkAction::Retry => {
                let options = RetryOptions { by, note, ..RetryOptions::default() };
                let retried = Retry { jobs: self.jobs.clone(), options }.run(session).await?;
                let gone = |(job, became): &(JobId, Retried)| match became {
                    Retried::Due | Retried::Revived(_) => Some(*job),
                    Retried::Again(new) => Some(*new),
                    Retried::InputGone | Retried::NotOver(_) | Retried::Unknown => None,
                };
                Ok(Treated::let_go(retried.iter().filter_map(gone).collect()))
            }
            BulkAction::Revive => {
                let ids = self.letters(session).await?;
                let revival = Revival { by, note, ..Revival::default() };
                let revived = Revive { ids, revival }.run(session).await?;
                Ok(Treated::let_go(revived.iter().map(|one| one.job).collect()))
            }
            BulkAction::Acknowledge => {
                let ids = self.letters(session).await?;
                let done = Acknowledge { ids, by, note }.run(session).await?.len() as u64;
                Ok(Treated { done, ..Treated::default() })
            }
        }
    }

    /// Jobs that were let go at once become due one after the other instead, before anybody sees them.
    async fn spread(&self, session: &mut Session, gone: &[JobId]) -> StoreResult<()> {
        if self.batch.mode.over().is_none() || gone.is_empty() {
            return Ok(());
        }
        let jobs = Value::Ints(gone.iter().map(|job| job.0).collect());
        let first = count(self.batch.done.saturating_add(self.batch.skipped));
        session.rows(Statement::BulkSpread, vec![Value::Int(Some(self.batch.id.0)), jobs, first]).await?;
        Ok(())
    }

    async fn letters(&self, session: &mut Session) -> StoreResult<Vec<DeadLetterId>> {
        let jobs = vec![Value::Ints(self.jobs.iter().map(|job| job.0).collect())];
        let rows = session.rows(Statement::RetryDead, jobs).await?;
        rows.iter().map(|row| row.get("id").map(DeadLetterId)).collect()
    }
}

/// Longest time for which a batch can be taken back.
pub const STARTS_IN_MAX: Duration = Duration::from_secs(86_400);

impl Store {
    /// Makes a batch: something is done to all jobs that a query finds, of those that exist now, beginning in a while. Until then
    /// it can be taken back.
    pub async fn add_bulk_operation(&self, new: NewBulkOperation) -> StoreResult<BulkOperation> {
        let counted = self.count_bulk_operation(new).await?;
        self.begin_bulk_operation(counted).await
    }

    /// The first half of [`Store::add_bulk_operation`], which only looks, so that a store for readers may do it.
    pub async fn count_bulk_operation(&self, new: NewBulkOperation) -> StoreResult<CountedBulkOperation> {
        [Some(new.by.as_str()), new.reason.as_deref()]
            .into_iter()
            .flatten()
            .try_for_each(validate::check_text)?;
        if new.starts_in > STARTS_IN_MAX {
            return Err(StoreError::refused("starts_in", "a batch starts within a day"));
        }
        new.mode.check(new.action)?;
        let query = self.fixed(new.query.clone()).await?;
        // In its one form it may be longer than it was written.
        Query::parse(&query.to_string()).map_err(|bad| StoreError::refused("q", bad.to_string()))?;
        let total = self.count(&new.action.of(query.clone())).await?;
        Ok(CountedBulkOperation { new: NewBulkOperation { query, ..new }, total })
    }

    /// The second half.
    pub async fn begin_bulk_operation(&self, counted: CountedBulkOperation) -> StoreResult<BulkOperation> {
        self.run(Add(counted)).await
    }

    async fn bulk_operation_of(
        &self,
        statement: Statement,
        params: Vec<Value>,
    ) -> StoreResult<Option<BulkOperation>> {
        Ok(self.run(Ask { statement, params }).await?.into_iter().next())
    }

    /// Stops a batch: what it has done stays done. One that has not begun has done nothing. `None`: it is over, or there is none.
    pub async fn cancel_bulk_operation(&self, id: BulkOperationId) -> StoreResult<Option<BulkOperation>> {
        self.stop_bulk_operation(id, None).await
    }

    async fn stop_bulk_operation(
        &self,
        id: BulkOperationId,
        because: Option<String>,
    ) -> StoreResult<Option<BulkOperation>> {
        self.bulk_operation_of(Statement::BulkCancel, vec![Value::Int(Some(id.0)), Value::Text(because)])
            .await
    }

    /// One batch.
    pub async fn bulk_operation(&self, id: BulkOperationId) -> StoreResult<Option<BulkOperation>> {
        Ok(self.bulk_operation_page(i64::MAX, 1, Some(id.0)).await?.into_iter().next())
    }

    /// Batches, newest first, before `before` if given.
    pub async fn bulk_operations(
        &self,
        before: Option<BulkOperationId>,
        most: u32,
    ) -> StoreResult<Page<BulkOperation, BulkOperationId>> {
        let most = most.clamp(1, PAGE_MAX);
        let items = self.bulk_operation_page(before.map_or(i64::MAX, |before| before.0), most, None).await?;
        let next = (items.len() >= most as usize).then(|| items.last().map(|batch| batch.id)).flatten();
        Ok(Page { items, next })
    }

    async fn bulk_operation_page(
        &self,
        before: i64,
        most: u32,
        only: Option<i64>,
    ) -> StoreResult<Vec<BulkOperation>> {
        let params = vec![Value::Int(Some(before)), Value::Int(Some(i64::from(most))), Value::Int(only)];
        self.db.read(Ask { statement: Statement::ListBulk, params }).await
    }

    /// Does the next portion of the oldest batch whose time has come and that nobody else works on, or looks how its canary is. `None`: there is none. Whoever
    /// calls this again and again, under a name of its own, brings every batch to its end.
    pub async fn work_on_bulk_operation(&self, holder: &str) -> StoreResult<Option<BulkOperation>> {
        if !self.db.read(Waits).await? {
            return Ok(None);
        }
        let Some(batch) = self.run(take(holder)).await?.into_iter().next() else { return Ok(None) };
        if let (true, Some(canary)) = (batch.waits_for_canary, batch.canary) {
            return self.run(canary::Watch { batch, canary, holder: holder.to_owned() }).await;
        }
        let query = match Query::parse(&batch.q) {
            Ok(query) => query,
            Err(bad) => {
                // Not written by us. It must not stand in the way of others.
                self.stop_bulk_operation(batch.id, Some("its query cannot be read".to_owned())).await?;
                return Err(StoreError::Corrupt { what: format!("the query of batch {}: {bad}", batch.id) });
            }
        };
        let most = if batch.lacks_canary() { 1 } else { PORTION };
        let found = self.search(&batch.action.of(query), Some(JobId(batch.position)), most).await?;
        let jobs: Vec<JobId> = found.items.iter().map(|job| job.id).collect();
        // Also the only job is waited for.
        let first = jobs.first().filter(|_| batch.lacks_canary());
        let next = first.copied().or(found.next).map(|next| next.0);
        let portion = Portion { batch, holder: holder.to_owned(), jobs, next };
        let Some(worked) = self.run(portion).await? else { return Ok(None) };
        self.wake_or_warn(worked.freed_keys).await;
        self.orders_changed().await;
        Ok(Some(worked.batch))
    }
}
