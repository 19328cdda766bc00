//! clean: removes what is older than its retention. Any number of nodes may clean at once, and cleaning again changes nothing.

pub(crate) mod cleaner;
pub(crate) mod pages;

use std::time::Duration;

use crate::db::statements::Statement;
use crate::db::{Query, Value, values};
use crate::journey::clean::pages::Pages;
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

/// Batches that remove rows. Each is a separate transaction, so that no lock is held across them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Batch {
    History,
    DeadLetters,
    Ticks,
    Keys,
    Nodes,
    Locks,
    IdempotencyKeys,
    Audit,
    Sessions,
    Stats,
    StatTotals,
}

impl Batch {
    pub(crate) const ALL: [Batch; 11] = [
        Batch::History,
        Batch::DeadLetters,
        Batch::Ticks,
        Batch::Keys,
        Batch::Nodes,
        Batch::Locks,
        Batch::IdempotencyKeys,
        Batch::Audit,
        Batch::Sessions,
        Batch::Stats,
        Batch::StatTotals,
    ];

    fn statement(self, keep: &Retention, most: u32) -> (Statement, Vec<Value>) {
        let age = |duration| values![millis(duration), most];
        match self {
            Batch::History => {
                (Statement::CleanHistory, values![millis(keep.completed), millis(keep.failed), most])
            }
            Batch::DeadLetters => (Statement::CleanDeadLetter, age(keep.dead_letters)),
            Batch::Ticks => (Statement::CleanTick, age(keep.ticks)),
            Batch::Keys => (Statement::CleanKey, values![most]),
            Batch::Nodes => (Statement::CleanNode, age(keep.nodes)),
            Batch::Locks => (Statement::CleanLock, age(keep.lock_events)),
            Batch::IdempotencyKeys => (Statement::CleanIdempotency, values![most]),
            Batch::Audit => (Statement::CleanAudit, age(keep.audit)),
            Batch::Sessions => (Statement::CleanSession, values![most]),
            Batch::Stats => (Statement::CleanStat, age(keep.stats)),
            Batch::StatTotals => (Statement::CleanStatTotal, age(keep.stats)),
        }
    }

    fn count(self, cleaned: &mut Cleaned) -> &mut u64 {
        match self {
            Batch::History => &mut cleaned.executions,
            Batch::DeadLetters => &mut cleaned.dead_letters,
            Batch::Ticks => &mut cleaned.ticks,
            Batch::Keys => &mut cleaned.keys,
            Batch::Nodes => &mut cleaned.nodes,
            Batch::Locks => &mut cleaned.locks,
            Batch::IdempotencyKeys => &mut cleaned.idempotency_keys,
            Batch::Audit => &mut cleaned.audit,
            Batch::Sessions => &mut cleaned.sessions,
            Batch::Stats | Batch::StatTotals => &mut cleaned.stats,
        }
    }
}

impl Store {
    /// Removes at most `most` rows of each kind; returns how many it removed. Wakes and unparks jobs that were forgotten. What is
    /// looked for by the page (keys that no job uses, parked jobs of manifests that run) is looked for on the first page.
    pub async fn clean(&self, keep: &Retention, most: u32) -> StoreResult<Cleaned> {
        let mut cleaned = Cleaned::default();
        let mut pages = Pages::default();
        self.wake_forgotten().await?;
        self.turn_page(&mut pages.parked).await?;
        for batch in Batch::ALL {
            self.clean_batch(batch, keep, most, &mut cleaned).await?;
        }
        for page in [&mut pages.unique_keys, &mut pages.limit_keys] {
            cleaned.keys += self.turn_page(page).await?;
        }
        Ok(cleaned)
    }

    /// Removes at most `most` rows and counts them; returns whether there may be more.
    pub(crate) async fn clean_batch(
        &self,
        batch: Batch,
        keep: &Retention,
        most: u32,
        cleaned: &mut Cleaned,
    ) -> StoreResult<bool> {
        let most = most.min(BATCH);
        let (statement, params) = batch.statement(keep, most);
        let query = Query::one(statement, params, move |row| {
            let cleaned: u64 = row.get("cleaned")?;
            // A unique key whose job lives is seen, and not removed.
            let seen = if statement == Statement::CleanKey { row.get("seen")? } else { cleaned };
            Ok((cleaned, seen))
        });
        let (removed, seen) = self.run(query).await?;
        *batch.count(cleaned) += removed;
        Ok(seen >= u64::from(most))
    }
}
