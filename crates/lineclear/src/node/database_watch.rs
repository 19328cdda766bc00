//! The watch of a node: it looks whether the database answers, and whether it can be written, every few seconds and after failures.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lineclear_model::doctor::{DatabaseCondition, DatabaseState};
use tokio::time::timeout;

use crate::db::statements::Statement;
use crate::db::{Db, Query, values};
use crate::node::Shared;
use crate::node::database_monitor::{Trouble, now};
use crate::operate::doctor::sqlite_file;
use crate::store::{Store, StoreResult};

/// How often it looks; what it finds is known within five seconds.
const EVERY: Duration = Duration::from_millis(2500);
/// How often it looks while something is wrong.
const EVERY_IN_TROUBLE: Duration = Duration::from_secs(1);
/// The shortest time between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// A database that does not answer within this time is silent; a SQLite file whose writers wait for longer is locked.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// How much later the connection itself gives up.
const GIVES_UP_AFTER: Duration = Duration::from_millis(500);
/// With less free disk space than this, SQLite cannot be sure to write a transaction.
const ROOM_MIN: u64 = 64 * 1024;

/// Watches until the node stops.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let (store, monitor) = (shared.store.for_watch(), &shared.store.monitor);
    monitor.watched_by(Some(shared.id));
    loop {
        let trouble = tokio::select! {
            () = shared.stopping.cancelled() => break,
            trouble = examine(&store) => trouble,
        };
        monitor.probed(trouble);
        let pause = if monitor.condition().is_ok() { EVERY } else { EVERY_IN_TROUBLE };
        let wait = async {
            tokio::time::sleep(PAUSE_MIN).await;
            let _ = timeout(pause - PAUSE_MIN, monitor.probe_soon.notified()).await;
        };
        tokio::select! {
            () = shared.stopping.cancelled() => break,
            () = wait => {}
        }
    }
    monitor.watched_by(None);
}

/// What is wrong with the database, as far as one look tells.
async fn examine(store: &Store) -> Option<Trouble> {
    let trouble = |state, reason: String| Some(Trouble { state, reason });
    let within = ANSWERS_WITHIN;
    match timeout(within, store.probe_database()).await {
        Err(_) if store.options.file().is_some() => writer_trouble(&store.db),
        Err(_) => trouble(DatabaseState::Silent, format!("no answer within {} s", within.as_secs())),
        Ok(Err(error)) => Trouble::of(&error),
        Ok(Ok(probe)) if probe.standby => trouble(DatabaseState::ReadOnly, "it is a standby".to_owned()),
        Ok(Ok(probe)) if probe.read_only => {
            trouble(DatabaseState::ReadOnly, "default_transaction_read_only is on".to_owned())
        }
        Ok(Ok(Probe { locked: Some(locked), .. })) => trouble(DatabaseState::Locked, locked),
        Ok(Ok(_)) => file_trouble(store.options.file()?),
    }
}

/// What holds up the thread that writes a SQLite file, which has not come to the probe. Verbs of this process before it are no trouble.
fn writer_trouble(db: &Db) -> Option<Trouble> {
    let Db::Sqlite(db) = db else { return None };
    let long = |time: Duration| time >= ANSWERS_WITHIN - GIVES_UP_AFTER;
    if let Some(blocked) = db.blocked_for().filter(|blocked| long(*blocked)) {
        let reason =
            format!("another process has held the file's write lock for {} s", blocked.as_secs_f64().round());
        return Some(Trouble { state: DatabaseState::Locked, reason });
    }
    let writing = db.writing_for().filter(|writing| long(*writing))?;
    let reason = format!("a write of this process has taken {} s", writing.as_secs_f64().round());
    Some(Trouble { state: DatabaseState::Silent, reason })
}

/// What is wrong with a SQLite file that an idle node would not notice: it writes nothing but its heartbeat.
fn file_trouble(path: &Path) -> Option<Trouble> {
    if let Some(why) = sqlite_file::read_only(path) {
        return Some(Trouble {
            state: DatabaseState::ReadOnly,
            reason: format!("{}: {why}", path.display()),
        });
    }
    let room = sqlite_file::room(path).filter(|room| *room < ROOM_MIN)?;
    let reason = format!("{room} bytes are left on the disk of {}", path.display());
    Some(Trouble { state: DatabaseState::Full, reason })
}

struct Probe {
    read_only: bool,
    standby: bool,
    locked: Option<String>,
}

impl Store {
    /// The store for the watch of a node, which shares no connection with callers and loops.
    fn for_watch(&self) -> Store {
        Store { db: self.db.for_watch(ANSWERS_WITHIN + GIVES_UP_AFTER), ..self.clone() }
    }

    async fn probe_database(&self) -> StoreResult<Probe> {
        let probe = Query::one(Statement::ProbeDatabase, values![self.options.schema()], |row| {
            let (read_only, standby) = (row.get("read_only")?, row.get("standby")?);
            Ok(Probe { read_only, standby, locked: row.get("locked")? })
        });
        // A file that was opened read-only, by `doctor`, is not written.
        if self.options.is_read_only() { self.db.read(probe).await } else { self.db.run(probe).await }
    }

    /// The condition of the database: as the node of this store knows it, or, without a node, as one look tells.
    pub async fn database_condition(&self) -> DatabaseCondition {
        if self.monitor.is_watched() {
            return self.monitor.condition();
        }
        let since = now();
        let (state, reason) = match examine(&self.for_watch()).await {
            Some(trouble) => (trouble.state, trouble.reason),
            None => (DatabaseState::Ok, String::new()),
        };
        DatabaseCondition { state, since, reason }
    }

    /// The condition of the database as the node of this store knows it; without a node, it is not known to be wrong.
    pub fn known_database_condition(&self) -> DatabaseCondition {
        self.monitor.condition()
    }

    /// This store, with the knowledge that the node of another store of the same database has.
    #[doc(hidden)]
    pub fn informed_by(self, other: &Store) -> Store {
        Store { monitor: other.monitor.clone(), ..self }
    }
}
