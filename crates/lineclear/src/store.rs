//! The store: everything that the engine asks of a database. Its methods are transitions, not rows; each is atomic, and
//! stands in the folder of its arrow in `journey/`, or beside it. PostgreSQL and SQLite pass the same tests.
//!
//! Lists and details for pages and programs are in [`read`](crate::read): nothing there changes a job.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use lineclear_model::{Micros, Name};
use tokio::sync::watch;

use crate::db::{Db, Query, Verb, migrate, statements, values};
use crate::journey::enqueue::batcher;
use crate::journey::settle::success::Successes;
use crate::node::database_monitor::DatabaseMonitor;
use crate::node::wakeups::WorkHints;

pub use crate::auth::audit::{AuditEnd, AuditFilter, AuditView, NewAudit};
pub use crate::auth::secret::{Presented, Secret, SessionSecret};
pub use crate::auth::sessions::{KnownSession, NewSession, SessionCursor, SessionId, SessionView};
pub use crate::auth::tokens::{KnownToken, NewToken, TokenView, WhichToken};
pub use crate::db::migrate::{Migration, MigrationEvent, MigrationStatus};
pub use crate::db::options::StoreOptions;
pub use crate::db::store_target::StoreTarget;
pub use crate::error::{Item, Location, Source, StoreError, StoreResult, WriteBlock};
pub use crate::ids::{AuditId, ClaimRef, DeadLetterId, JobId, ManifestId, NodeId, TokenId};
pub use crate::journey::claim::reclaim::{Fate, ReclaimCursor, Reclaimed};
pub(crate) use crate::journey::claim::renew::Renewing;
pub use crate::journey::claim::renew::{Renewal, RenewalStatus};
pub use crate::journey::claim::take_back::Charge;
pub use crate::journey::claim::{Claim, Lease};
pub use crate::journey::clean::{Cleaned, Retention};
pub use crate::journey::dispatch::Dispatch;
pub use crate::journey::dispatch::cursor::Cursor;
pub use crate::journey::dispatch::lanes::Limits;
pub use crate::journey::dispatch::poll_work::{PendingWork, PollCursor, RouteWork};
pub use crate::journey::dispatch::promote::PromoteCursor;
pub use crate::journey::enqueue::idempotency::{Created, Creation, IdempotencyKey, Idempotent};
pub use crate::journey::enqueue::insert::{
    BATCH_MAX, EnqueueResult, Enqueued, NewJob, OnConflict, UniqueKey, main_route,
};
pub use crate::journey::execute::activate::Activated;
pub use crate::journey::execute::append_log::NewLogLine;
pub use crate::journey::execute::logs::{LOG_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, LogLine};
pub use crate::journey::execute::progress::{PROGRESS_BYTES_MAX, ProgressView};
pub use crate::journey::execute::steps::StepRecord;
pub use crate::journey::plan::backfill::{BACKFILL_MAX, BackfillOptions, Backfilled};
pub use crate::journey::plan::trigger::TriggerOptions;
pub use crate::journey::plan::{NextPlan, PlanCursor, PlanRules, Planned};
pub(crate) use crate::journey::settle::freed_groups::FreedGroups;
pub use crate::journey::settle::{FencedWrite, Settlement};
pub use crate::manifests::declaration::{Declaration, Prune, check_group};
pub use crate::manifests::declare::{Change, Declared, Plan};
pub use crate::manifests::expected_version::ExpectedVersion;
pub use crate::manifests::groups::{ChangeSource, GLOBAL_GROUP};
pub use crate::manifests::upsert::{Edited, Written};
pub use crate::node::heartbeat::{Heartbeat, Led, NodeInfo};
pub(crate) use crate::node::notify::Hint;
pub(crate) use crate::node::wakeups::Listening;
pub use crate::operate::bulk::STARTS_IN_MAX;
pub use crate::operate::bulk::{
    BulkAction, BulkMode, BulkOperation, BulkOperationId, BulkStatus, CountedBulkOperation, NewBulkOperation,
    PORTION, SPREAD_MAX,
};
pub use crate::operate::cancel::Cancelled;
pub use crate::operate::dead_letters::{DEAD_LETTERS_PER_CALL, ResolvedCount};
pub use crate::operate::dead_letters::{DeadLetterFilter, Resolved, Revival};
pub use crate::operate::retry::{Retried, RetryOptions};
pub use crate::operate::settings::{Override, Setting, Settings, Tunable};
pub use crate::read::events::{About, EVENTS_MAX, EventView, Events};
pub use crate::read::search::Count;
pub use crate::read::stats::{COUNT_MAX, STATS_MAX, Stat, StatNow, Stats, StatsBy};
pub use crate::read::totals::{RUN_STEPS_MS, Total};
pub use crate::validate::{BadJob, KEY_BYTES_MAX};

/// The most that one statement takes, whatever it is asked for.
pub(crate) const BATCH: u32 = BATCH_MAX as u32;

/// A database with our tables. Cheap to clone; all clones share its connections.
#[derive(Clone)]
pub struct Store {
    pub(crate) db: Db,
    pub(crate) options: Arc<StoreOptions>,
    /// Ids of groups by name; a group's id never changes.
    pub(crate) group_ids: Arc<Mutex<HashMap<Name, i64>>>,
    /// Combines jobs that are enqueued one by one into batches.
    pub(crate) batcher: Arc<batcher::Batcher>,
    /// A dispatch was left unanswered: the database may hold leases that the node does not know of.
    pub(crate) unanswered: Arc<AtomicBool>,
    /// Serializes the pooler check, which needs two connections at once: two checks with one each would deadlock.
    pub(crate) pooler_check: Arc<tokio::sync::Mutex<()>>,
    /// Notifies the planners of this process that manifests have changed.
    pub(crate) manifests_changed: Arc<watch::Sender<()>>,
    /// Notifies the nodes of this process that one was told to drain or to resume.
    pub(crate) drains_changed: Arc<watch::Sender<()>>,
    /// Successes of manifests that are still to be written.
    pub(crate) successes: Arc<Successes>,
    /// Gated groups that have a place free since a dispatcher of this process looked last.
    pub(crate) freed_groups: Arc<FreedGroups>,
    /// Tells nodes, here and elsewhere, that jobs were queued.
    pub(crate) work_hints: Arc<WorkHints>,
    /// What is known about the condition of the database.
    pub(crate) monitor: Arc<DatabaseMonitor>,
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
            batcher: batcher::Batcher::new(),
            unanswered: Arc::default(),
            pooler_check: Arc::default(),
            manifests_changed: Arc::default(),
            drains_changed: Arc::default(),
            successes: Arc::default(),
            freed_groups: Arc::default(),
            work_hints: Arc::default(),
            monitor: Arc::default(),
        };
        if store.options.migrates() {
            store.migrate().await?;
        }
        Ok(store)
    }

    /// The store for the loops of a node, which share no connection with callers.
    pub(crate) fn for_loops(&self) -> Store {
        Store { db: self.db.for_loops(), ..self.clone() }
    }

    /// How it was opened.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    pub(crate) async fn run<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        self.db.run(verb).await.inspect_err(|error| self.monitor.write_failed(error))
    }

    /// Logs that something failed: the first time at once, then once a minute with the number of failures that were left out.
    pub(crate) fn warn_folded(&self, what: &'static str, error: &StoreError) {
        if let Some(left_out) = self.monitor.log.note(&what) {
            tracing::warn!(%error, left_out, "{what}");
        }
    }

    /// The text of a statement as sent to PostgreSQL, for benchmarks that measure the engine's overhead.
    #[doc(hidden)]
    pub fn statement_text(&self, name: &str) -> Option<&str> {
        let statement = statements::Statement::ALL.iter().find(|statement| statement.name() == name)?;
        match &self.db {
            Db::Postgres(db) => Some(db.text(*statement)),
            Db::Sqlite(_) => None,
        }
    }

    /// The database's clock, which decides what is due and when a lease ends.
    pub async fn now(&self) -> StoreResult<Micros> {
        self.db.read(Query::one(statements::Statement::Now, values![], |row| row.get("now"))).await
    }

    /// The database's clock, as a statement that may write sees it: on SQLite it waits for other writers of the file.
    pub(crate) async fn probe_writes(&self) -> StoreResult<Micros> {
        self.run(Query::one(statements::Statement::Now, values![], |row| row.get("now"))).await
    }

    // 0 · the schema

    /// Applies migrations that are still missing, and logs them. Any number of nodes may do so at once, also while nodes of the
    /// release before work.
    pub async fn migrate(&self) -> StoreResult<MigrationStatus> {
        let before = self.migration_status().await?;
        let is_new = before.applied == 0;
        let observer = move |event| match event {
            // Nothing was there that an operator knows.
            MigrationEvent::Applied { .. } if is_new => {}
            MigrationEvent::Applied { name } => tracing::info!(migration = name, "migration applied"),
            MigrationEvent::Waiting { name, waited, blockers } => {
                let (migration, waited_ms) =
                    (name.unwrap_or("none: another process migrates"), waited.as_millis());
                tracing::warn!(migration, waited_ms, blockers, "waiting for a lock to migrate the schema");
            }
        };
        let status = migrate::migrate(self, before, Arc::new(observer)).await?;
        if !status.newer.is_empty() {
            let newer = status.newer.join(", ");
            tracing::warn!(newer, "the schema is newer than this program, and compatible");
        }
        Ok(status)
    }

    /// Like [`Store::migrate`], with a function that is told what happens.
    pub async fn migrate_observed(
        &self,
        observer: impl Fn(MigrationEvent) + Send + Sync + 'static,
    ) -> StoreResult<MigrationStatus> {
        let before = self.migration_status().await?;
        migrate::migrate(self, before, Arc::new(observer)).await
    }

    /// How far the schema is, without changing it.
    pub async fn migration_status(&self) -> StoreResult<MigrationStatus> {
        self.run(migrate::ReadStatus(self.options.clone())).await
    }
}
