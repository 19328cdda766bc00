//! The store: everything the engine may ask of a database. Verbs, not rows; each is one atomic transition, in the order
//! of the journey. PostgreSQL and SQLite pass the same tests.
//!
//! What may be asked is in `stages`, in the order of a job's journey; what each does to the tables is in `verbs`.
//! Reading for pages and programs is apart, in [`views`]: a page can never change a job.

mod access;
mod asking;
mod bench;
mod audit;
mod choice;
mod classify;
pub(crate) mod clock;
mod db;
mod declare;
mod doctor;
mod door;
mod error;
mod gather;
pub(crate) mod head;
mod ids;
mod migrate;
mod options;
mod own;
mod secret;
mod sql;
mod stages;
mod verbs;
pub mod views;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use lineclear_model::Name;
use tokio::sync::watch;

pub use asking::{Count, STARTS_IN_MAX};
pub use choice::StoreChoice;
use db::{Db, Verb};
pub use declare::{Declaration, Prune, check_group};
pub use door::{BadJob, KEY_BYTES_MAX};
pub use error::{Item, Location, Source, StoreError, StoreResult};
pub use ids::{AuditId, ClaimRef, DeadLetterId, JobId, ManifestId, NodeId, TokenId};
pub use migrate::{Migration, MigrationStatus};
pub use options::StoreOptions;
pub use secret::{Presented, Secret, SessionSecret};
pub use stages::Edited;
pub(crate) use stages::Listening;
pub use stages::{DEAD_LETTERS_PER_CALL, Swept};
pub use verbs::activate::Activated;
pub use verbs::audit::{AuditEnd, AuditFilter, AuditView, NewAudit};
pub use verbs::backfill::{BACKFILL_MAX, BackfillOptions, Backfilled};
pub use verbs::batch::{
    Action, Batch, BatchId, BatchStatus, CountedBatch, Mode, NewBatch, PORTION, SPREAD_MAX,
};
pub use verbs::cancel::Cancelled;
pub use verbs::claim::{Claim, Lease};
pub use verbs::clean::{Cleaned, Retention};
pub use verbs::dead_letter::{DeadLetterFilter, Resolved, Revival};
pub use verbs::declare::{Change, Declared, Plan};
pub use verbs::dispatch::Limits;
pub use verbs::enqueue::{BATCH_MAX, Enqueued, NewJob, Placed, UniqueKey, WhenTaken, main_route};
pub use verbs::events::{About, EVENTS_MAX, EventView, Events};
pub use verbs::group::{GLOBAL_GROUP, Voice};
pub use verbs::log::{LOG_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, LogLine};
pub use verbs::look::{Look, RouteLook};
pub use verbs::manifest::Written;
pub use verbs::node::{Beat, Led, NodeInfo};
pub(crate) use verbs::notify::Hint;
pub use verbs::once::{Created, Creation, Once, OnceKey};
pub use verbs::plan::{NextPlan, PlanRules, Planned};
pub use verbs::progress::{PROGRESS_BYTES_MAX, ProgressView};
pub use verbs::reclaim::{Fate, Reclaimed};
pub(crate) use verbs::renew::Renewing;
pub use verbs::renew::{Renewal, RenewalStatus};
pub use verbs::retry::{Retried, RetryOptions};
pub use verbs::seen::Seen;
pub use verbs::session::KnownSession;
pub use verbs::setting::{Override, Setting, Settings, Tunable};
pub use verbs::settle::{Settled, Settlement};
pub use verbs::stats::{By, COUNT_MAX, STATS_MAX, Stat, StatNow, Stats};
pub use verbs::step::{Noted, StepRecord};
pub use verbs::token::{KnownToken, NewToken, TokenView, WhichToken};
pub use verbs::totals::{RUN_STEPS_MS, Total};
pub use verbs::trigger::TriggerOptions;

/// The most that one statement takes, whatever it is asked for.
const BATCH: u32 = BATCH_MAX as u32;

/// A database with our tables. Cheap to clone; all clones share its connections.
#[derive(Clone)]
pub struct Store {
    db: Db,
    options: Arc<StoreOptions>,
    /// Ids of groups by name; a group's id never changes.
    group_ids: Arc<Mutex<HashMap<Name, i64>>>,
    /// Where jobs that are enqueued one by one meet.
    gather: Arc<gather::Gather>,
    /// Part of a dispatch was not answered: there may be leases that nobody knows of.
    unanswered: Arc<AtomicBool>,
    /// Who looks for a pooler needs two connections at once; several who each have one would wait for each other.
    looks_for_pooler: Arc<tokio::sync::Mutex<()>>,
    /// Standing orders have changed; planners of this process hear of it here.
    orders: Arc<watch::Sender<()>>,
    /// Nodes were told something; those of this process hear of it here.
    nodes_told: Arc<watch::Sender<()>>,
}

impl std::fmt::Debug for Store {
    /// Where it is, without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.options).finish()
    }
}

impl Store {
    /// Connects, and brings the schema up to date unless the options say otherwise.
    pub async fn open(options: StoreOptions) -> StoreResult<Store> {
        let db = Db::open(&options).await?;
        let store = Store {
            db,
            options: Arc::new(options),
            group_ids: Arc::default(),
            gather: gather::Gather::new(),
            unanswered: Arc::default(),
            looks_for_pooler: Arc::default(),
            orders: Arc::default(),
            nodes_told: Arc::default(),
        };
        if store.options.migrates() {
            store.migrate().await?;
        }
        Ok(store)
    }

    /// How it was opened.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    async fn run<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        self.db.run(verb).await
    }

    /// A statement as it is sent to PostgreSQL, for whoever measures what the engine adds to it.
    #[doc(hidden)]
    pub fn statement_text(&self, name: &str) -> Option<&str> {
        let statement = sql::Statement::ALL.iter().find(|statement| statement.name() == name)?;
        match &self.db {
            Db::Postgres(db) => Some(db.text(*statement)),
            Db::Sqlite(_) => None,
        }
    }

    // 0 · the schema

    /// Applies migrations that are still missing. Any number of nodes may do so at once.
    pub async fn migrate(&self) -> StoreResult<MigrationStatus> {
        // A role that may not change the schema can use one that is up to date.
        let status = self.migration_status().await?;
        if status.pending.is_empty() {
            return Ok(status);
        }
        self.run(migrate::Migrate { options: (*self.options).clone(), apply: true }).await
    }

    /// How far the schema is, without changing it.
    pub async fn migration_status(&self) -> StoreResult<MigrationStatus> {
        self.run(migrate::Migrate { options: (*self.options).clone(), apply: false }).await
    }
}
