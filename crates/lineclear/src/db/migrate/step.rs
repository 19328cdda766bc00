//! One step: the next migration, or all of them on a new database.
//!
//! A migration locks the table that it changes, and a session that waits for such a lock blocks all later ones. So a
//! migration waits for less time than anything else does, and tries again after a pause in which the others go on. Meanwhile it keeps
//! the lock under which migrations are applied, so that of many nodes only one tries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blockers::{backend_pid, watch};
use super::{
    Migration, MigrationEvent, MigrationStatus, Observer, RECORDS_COMPATIBILITY, exists, index, read_status,
    table,
};
use crate::db::{Postgres, Session, Verb};
use crate::store::{StoreError, StoreOptions, StoreResult};

/// The advisory lock under which lineclear-lock creates its tables, some of which are the engine's, too: two that create the same
/// table at once would fail.
const LOCK_TABLES: i64 = 1_818_520_683;
/// How long one try waits for a lock of a table: loops of nodes wait for a second, and callers for two.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// How long one transaction waits for another process that migrates.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest pause between two tries; PostgreSQL ends transactions that idle for ten seconds.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Applies the next migration, or all on a new database.
pub(super) struct Step {
    pub(super) options: Arc<StoreOptions>,
    pub(super) observer: Observer,
    /// Connections beside the one that migrates; `None` on SQLite.
    pub(super) watcher: Option<Postgres>,
}

/// What a step did.
pub(super) enum Stepped {
    Applied(Vec<&'static str>),
    /// Another process migrates; these sessions are in the way.
    Waits(String),
    UpToDate(MigrationStatus),
}

impl Verb for Step {
    type Answer = Stepped;

    fn is_patient(&self) -> bool {
        true
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Stepped> {
        if let Some(blockers) = self.wait_for_turn(session).await? {
            return Ok(Stepped::Waits(blockers));
        }
        if !exists(session, &self.options).await? {
            self.create_table(session).await?;
        }
        // Another process may have migrated meanwhile.
        let status = read_status(session, &self.options).await?;
        let Some(next) = status.pending.first() else { return Ok(Stepped::UpToDate(status)) };
        if status.applied == 0 {
            // No node works on it yet.
            for migration in &status.pending {
                session.batch(&index::in_a_transaction(migration)).await?;
                self.record(session, migration).await?;
            }
            return Ok(Stepped::Applied(status.pending.iter().map(|migration| migration.name).collect()));
        }
        match &self.watcher {
            Some(db) if next.is_concurrent() => {
                index::build(session, db, &self.options, next, &self.observer).await?;
            }
            _ => self.apply(session, next).await?,
        }
        self.record(session, next).await?;
        Ok(Stepped::Applied(vec![next.name]))
    }
}

impl Step {
    /// Waits for other processes that migrate, or that create the tables of locks. Returns who blocks it if that takes too long for
    /// one transaction: the first process may build an index, which waits for all transactions that are older.
    async fn wait_for_turn(&self, session: &mut Session) -> StoreResult<Option<String>> {
        let Some(db) = &self.watcher else { return Ok(None) };
        let locks = [self.options.advisory_key("migrate"), LOCK_TABLES];
        let take = locks.map(|key| format!("select pg_advisory_xact_lock({key})")).join("; ");
        let mut blockers = String::new();
        let pid = begin_try(session, TURN_TIMEOUT).await?;
        match watch(db, pid, &mut blockers, session.batch(&take)).await {
            Err(StoreError::Locked { .. } | StoreError::Contended { .. }) => {
                session.batch("rollback to try").await?;
                Ok(Some(blockers))
            }
            done => done.map(|()| None),
        }
    }

    /// Runs the SQL of a migration in short tries; between two of them it holds none of its locks.
    async fn apply(&self, session: &mut Session, migration: &Migration) -> StoreResult<()> {
        let Some(db) = &self.watcher else { return session.batch(migration.sql()).await };
        let (begun, mut pause, mut tries) = (Instant::now(), LOCK_TIMEOUT, 1);
        let mut blockers = String::new();
        loop {
            let pid = begin_try(session, LOCK_TIMEOUT).await?;
            let error = match watch(db, pid, &mut blockers, session.batch(migration.sql())).await {
                Err(error @ (StoreError::Locked { .. } | StoreError::Contended { .. })) => error,
                done => return done,
            };
            session.batch("rollback to try; release try").await?;
            let waited = begun.elapsed();
            if waited >= self.options.lock_wait() {
                return Err(gave_up(migration.name, waited, tries, &blockers, &error));
            }
            let event =
                MigrationEvent::Waiting { name: Some(migration.name), waited, blockers: blockers.clone() };
            (self.observer)(event);
            tokio::time::sleep(pause).await;
            (pause, tries) = ((pause * 2).min(PAUSE_MAX), tries + 1);
        }
    }

    async fn create_table(&self, session: &mut Session) -> StoreResult<()> {
        let now = if self.options.is_postgres() {
            let schema = self.options.schema_quoted();
            session.batch(&format!("create schema if not exists {schema}")).await?;
            "timestamptz not null default now()"
        } else {
            "text not null default current_timestamp"
        };
        let table = table(&self.options);
        session
            .batch(&format!(
                "create table if not exists {table} \
                 (number integer primary key, name text not null, checksum text not null, applied_at {now})"
            ))
            .await
    }

    async fn record(&self, session: &mut Session, migration: &Migration) -> StoreResult<()> {
        crate::crash::point("migrate.step");
        let Migration { number, name, .. } = migration;
        let (table, checksum) = (table(&self.options), migration.checksum());
        let since =
            super::all(&self.options).into_iter().find(|one| one.name.ends_with(RECORDS_COMPATIBILITY));
        let (column, value) = match since {
            Some(since) if since.number <= *number => {
                (", compatible_from", format!(", {}", migration.compatible_from()))
            }
            _ => ("", String::new()),
        };
        session
            .batch(&format!(
                "insert into {table} (number, name, checksum{column}) values ({number}, '{name}', '{checksum}'{value})"
            ))
            .await
    }
}

/// Begins a part of the transaction that can be taken back alone. Returns the server process of the session.
async fn begin_try(session: &mut Session, lock_timeout: Duration) -> StoreResult<i64> {
    let pid = backend_pid(session).await?;
    session.batch(&format!("set local lock_timeout = {}; savepoint try", lock_timeout.as_millis())).await?;
    Ok(pid)
}

fn gave_up(name: &str, waited: Duration, tries: u32, blockers: &str, last: &StoreError) -> StoreError {
    let who = if blockers.is_empty() { last.to_string() } else { format!("blocked by {blockers}") };
    let source = format!(
        "migration {name} did not get its locks in {} s and {tries} short tries, and nothing was changed: {who}. Wait until that \
         session is done, or end it (select pg_terminate_backend(PID)), and run: lineclear db migrate",
        waited.as_secs()
    );
    StoreError::Locked { source: source.into() }
}
