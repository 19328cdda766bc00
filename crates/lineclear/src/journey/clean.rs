//! clean: removes what is older than its retention. Any number of nodes may clean at once, and cleaning again changes nothing.

pub(crate) mod cleaner;

use std::time::Duration;

use crate::db::statements::Statement;
use crate::db::{Query, Value, values};
use crate::journey::enqueue::insert::millis;
use crate::store::{BATCH, Store, StoreResult};

/// How long the database keeps history.
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
    /// Nodes without a heartbeat.
    pub nodes: Duration,
    /// Events of locks, changes of the planning node among them.
    pub lock_events: Duration,
    /// The audit log.
    pub audit: Duration,
    /// Statistics by the minute.
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

/// What one cleaning removed.
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
    /// Events of locks, and leases of planners that are gone.
    pub locks: u64,
    /// Idempotency keys.
    pub idempotency_keys: u64,
    /// Entries of the audit log.
    pub audit: u64,
    /// Expired sessions.
    pub sessions: u64,
    /// Rows of statistics.
    pub stats: u64,
}

impl Cleaned {
    /// Nothing was old enough.
    pub fn is_nothing(&self) -> bool {
        *self == Cleaned::default()
    }
}

/// The statements of a cleaning, in the order of [`Cleaned`]'s fields; statistics are in two tables. Each is a separate
/// transaction, so that no lock is held across them.
fn statements(keep: &Retention, most: u32) -> [(Statement, Vec<Value>); 11] {
    let age = |duration| values![millis(duration), most];
    [
        (Statement::CleanHistory, values![millis(keep.completed), millis(keep.failed), most]),
        (Statement::CleanDeadLetter, age(keep.dead_letters)),
        (Statement::CleanTick, age(keep.ticks)),
        (Statement::CleanKey, values![most]),
        (Statement::CleanNode, age(keep.nodes)),
        (Statement::CleanLock, age(keep.lock_events)),
        (Statement::CleanIdempotency, values![most]),
        (Statement::CleanAudit, age(keep.audit)),
        (Statement::CleanSession, values![most]),
        (Statement::CleanStat, age(keep.stats)),
        (Statement::CleanStatTotal, age(keep.stats)),
    ]
}

impl Store {
    /// Removes at most `most` rows of each kind; returns how many it removed.
    pub async fn clean(&self, keep: &Retention, most: u32) -> StoreResult<Cleaned> {
        self.wake_forgotten().await?;
        let most = most.min(BATCH);
        self.unpark_forgotten(most).await?;
        let mut counts = [0; 11];
        for (count, (statement, params)) in counts.iter_mut().zip(statements(keep, most)) {
            let clean = Query::first(statement, params, |row| row.get("cleaned"));
            *count = self.run(clean).await?.unwrap_or_default();
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
