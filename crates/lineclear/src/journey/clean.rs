//! clean: what is long over goes. Any number of nodes may clean at once, and cleaning again changes nothing.

pub(crate) mod cleaner;

use std::time::Duration;

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::journey::enqueue::insert::millis;
use crate::manifests::pause;
use crate::store::{BATCH, Store, StoreResult};

/// How long what is over is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Jobs that completed.
    pub completed: Duration,
    /// Jobs that ended otherwise.
    pub failed: Duration,
    /// Dead letters that were resolved.
    pub dead_letters: Duration,
    /// Rows of the tick ledger: how far back a backfill still knows what ran.
    pub ticks: Duration,
    /// Nodes that were not seen.
    pub nodes: Duration,
    /// Events of locks, changes of the planning node among them.
    pub lock_events: Duration,
    /// Who changed what.
    pub audit: Duration,
    /// Figures by the minute.
    pub stats: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            completed: DAY * 7,
            failed: DAY * 30,
            dead_letters: DAY * 30,
            ticks: DAY * 30,
            nodes: DAY,
            lock_events: DAY * 7,
            audit: DAY * 400,
            stats: DAY * 90,
        }
    }
}

/// How much a pass removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Rows of history.
    pub executions: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Rows of the tick ledger.
    pub ticks: u64,
    /// Unique keys and limit keys.
    pub keys: u64,
    /// Nodes.
    pub nodes: u64,
    /// Events of locks, and planners that went away.
    pub locks: u64,
    /// Idempotency keys.
    pub idempotency_keys: u64,
    /// Rows of the audit.
    pub audit: u64,
    /// Browsers whose time was over.
    pub sessions: u64,
    /// Minutes of figures.
    pub stats: u64,
}

impl Cleaned {
    /// Nothing was old enough.
    pub fn is_nothing(&self) -> bool {
        *self == Cleaned::default()
    }
}

/// Verb: one batch of one kind of thing. Each is a statement of its own: no lock is held across them.
pub(crate) struct CleanBatch {
    pub(crate) statement: Statement,
    pub(crate) params: Vec<Value>,
}

impl Verb for CleanBatch {
    type Answer = u64;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<u64> {
        let rows = session.rows(self.statement, self.params.clone()).await?;
        rows.first().map_or(Ok(0), |row| row.get("cleaned"))
    }
}

/// The batches of a pass, in the order of [`Cleaned`]'s fields; figures are in two tables.
pub(crate) fn batches(keep: &Retention, most: u32) -> [CleanBatch; 11] {
    let most = Value::Int(Some(i64::from(most)));
    let ms = |duration| Value::Int(Some(millis(duration)));
    let batch = |statement, params| CleanBatch { statement, params };
    [
        batch(Statement::CleanHistory, vec![ms(keep.completed), ms(keep.failed), most.clone()]),
        batch(Statement::CleanDeadLetter, vec![ms(keep.dead_letters), most.clone()]),
        batch(Statement::CleanTick, vec![ms(keep.ticks), most.clone()]),
        batch(Statement::CleanKey, vec![most.clone()]),
        batch(Statement::CleanNode, vec![ms(keep.nodes), most.clone()]),
        batch(Statement::CleanLock, vec![ms(keep.lock_events), most.clone()]),
        batch(Statement::CleanIdempotency, vec![most.clone()]),
        batch(Statement::CleanAudit, vec![ms(keep.audit), most.clone()]),
        batch(Statement::CleanSession, vec![most.clone()]),
        batch(Statement::CleanStat, vec![ms(keep.stats), most.clone()]),
        batch(Statement::CleanStatTotal, vec![ms(keep.stats), most]),
    ]
}

impl Store {
    /// One pass of cleaning, at most `most` of each kind of thing; returns how much went.
    pub async fn clean(&self, keep: &Retention, most: u32) -> StoreResult<Cleaned> {
        self.wake_forgotten().await?;
        self.run(pause::UnparkForgotten(most.min(BATCH))).await?;
        let mut counts = [0; 11];
        for (count, batch) in counts.iter_mut().zip(batches(keep, most.min(BATCH))) {
            *count = self.run(batch).await?;
        }
        let [
            executions,
            dead_letters,
            ticks,
            keys,
            nodes,
            locks,
            idempotency_keys,
            audit,
            sessions,
            stats,
            totals,
        ] = counts;
        Ok(Cleaned {
            executions,
            dead_letters,
            ticks,
            keys,
            nodes,
            locks,
            idempotency_keys,
            audit,
            sessions,
            stats: stats + totals,
        })
    }
}
