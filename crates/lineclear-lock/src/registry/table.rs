//! The seam: what a database must provide to have a registry. What is written, when, and what is thought of it is decided once, above.
//!
//! Every verb is one short transaction. Words may come late, and from several processes: [`verdict`] says which of them a row heeds. Clocks
//! of processes are never written; they say how long ago something was, and the database's clock does the rest.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::record::{LeaseRecord, LeaseState, LockEvent, LockEventKind};
use crate::backend::LockFuture;
use crate::error::LockError;
use crate::holder::Holder;
use crate::name::{Epoch, LockName};

/// What a process says of a lock that it holds or has held.
#[derive(Clone, Debug)]
pub struct LeaseUpdate {
    /// The lock.
    pub name: LockName,
    /// Where the lock itself is.
    pub store: Arc<str>,
    /// Who says it.
    pub holder: Arc<Holder>,
    /// What kind of work it guards.
    pub kind: Option<Arc<str>>,
    /// The holder's number.
    pub epoch: Epoch,
    /// How long ago it first took it of those takes that are not written yet, in microseconds, as all these.
    pub since_ago: i64,
    /// How long ago it took it last.
    pub acquired_ago: i64,
    /// How long ago it released it; none: it holds it.
    pub ended_ago: Option<i64>,
    /// How often it says so, in milliseconds.
    pub renew_ms: i64,
    /// How often it took it since it last said so; zero: this only renews.
    pub taken: i64,
}

/// How often a process found a lock busy.
#[derive(Clone, Debug)]
pub struct Contention {
    /// The lock.
    pub name: LockName,
    /// Where the lock itself is.
    pub store: Arc<str>,
    /// How often.
    pub busy: i64,
}

/// A hold that ended otherwise than by its release.
#[derive(Clone, Debug)]
pub struct HoldEnd {
    /// The lock.
    pub name: LockName,
    /// Where the lock itself is.
    pub store: Arc<str>,
    /// Whose hold, as the stores of locks call it.
    pub holder: String,
    /// Its incarnation; none: whoever has this epoch.
    pub incarnation: Option<String>,
    /// Its number.
    pub epoch: Epoch,
    /// What happened.
    pub what: LockEventKind,
    /// Who did it.
    pub by_whom: Option<String>,
    /// Why, for people.
    pub why: Option<String>,
}

/// A row whose holder went away.
#[derive(Clone, Debug)]
pub struct VanishedHold {
    /// The lock.
    pub name: String,
    /// Where the lock itself is.
    pub store: String,
    /// Who held it.
    pub incarnation: String,
    /// The holder as the stores of locks call it.
    pub holder: String,
    /// Its number.
    pub epoch: Epoch,
    /// Only if it has not been heard of for so many microseconds.
    pub quiet: i64,
}

/// Which leases to read.
#[derive(Clone, Debug, Default)]
pub struct LeaseFilter {
    /// Of this lock.
    pub name: Option<String>,
    /// After this name and store.
    pub after: Option<(String, String)>,
    /// Held ones that were not renewed for so many microseconds.
    pub quiet: Option<i64>,
    /// At most so many.
    pub most: u32,
}

/// The tables `lock_lease` and `lock_event` of one database.
pub trait Table: fmt::Debug + Send + Sync + 'static {
    /// Makes tables and view unless they are there, also if many do so at once.
    fn prepare(&self) -> LockFuture<'_, ()>;

    /// Whether they are there.
    fn tables_exist(&self) -> LockFuture<'_, bool>;

    /// Writes what was said, by name and store; a change of holder is an event.
    fn write<'a>(&'a self, words: &'a [LeaseUpdate]) -> LockFuture<'a, ()>;

    /// Adds to the rows that are there.
    fn contend<'a>(&'a self, contentions: &'a [Contention]) -> LockFuture<'a, ()>;

    /// Writes the event; the row, if it is still that hold's, is held no more.
    fn end<'a>(&'a self, ending: &'a HoldEnd) -> LockFuture<'a, ()>;

    /// Reads leases, by name and store; their state is not known yet.
    fn leases<'a>(&'a self, which: &'a LeaseFilter) -> LockFuture<'a, Vec<LeaseRecord>>;

    /// Removes a row, and writes the event, unless its holder has been heard of meanwhile. `false`: it has.
    fn remove<'a>(&'a self, gone: &'a VanishedHold) -> LockFuture<'a, bool>;

    /// Removes rows that were released so many microseconds ago, and events that old: at most so many of each.
    fn tidy(&self, idle_retention: i64, history_retention: i64, most: u32) -> LockFuture<'_, ()>;

    /// Reads events, newest first.
    fn events<'a>(
        &'a self,
        name: Option<&'a str>,
        before: Option<i64>,
        most: u32,
    ) -> LockFuture<'a, Vec<LockEvent>>;
}

/// What a row says before it is written.
#[derive(Clone, Debug)]
pub struct StoredHold {
    /// Whose it is.
    pub incarnation: String,
    /// The same, as the stores of locks call it.
    pub holder: String,
    /// Its number.
    pub epoch: i64,
    /// When it was renewed, in microseconds since 1970.
    pub renewed_at: i64,
    /// Whether it was released.
    pub released: bool,
}

/// Whether a row heeds a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateDecision {
    /// It came too late.
    Late,
    /// The holder is the same as before.
    Same,
    /// The holder is another, and this was the one before.
    Changed(Option<String>),
}

/// Whether a row heeds a word that comes at `now`: one of a higher epoch; of a hold that began after all that is known (a store may forget its epochs);
/// or of the hold that the row is about, unless that has ended.
pub fn verdict(known: Option<&StoredHold>, word: &LeaseUpdate, now: i64) -> UpdateDecision {
    let Some(known) = known else { return UpdateDecision::Changed(None) };
    let same = known.incarnation == word.holder.incarnation.to_string();
    let (epoch, began) = (word.epoch.get(), now.saturating_sub(word.acquired_ago));
    let goes_on = same && epoch == known.epoch && !known.released;
    if epoch <= known.epoch && began <= known.renewed_at && !goes_on {
        return UpdateDecision::Late;
    }
    if same { UpdateDecision::Same } else { UpdateDecision::Changed(Some(known.holder.clone())) }
}

/// A row, as all databases give it.
#[derive(Clone, Debug)]
pub struct Row {
    /// `lock_name`
    pub name: String,
    /// `store`
    pub store: String,
    /// `node`
    pub node: String,
    /// `machine`
    pub machine: String,
    /// `pid`
    pub pid: i64,
    /// `incarnation`
    pub incarnation: String,
    /// `kind`
    pub kind: Option<String>,
    /// `epoch`
    pub epoch: i64,
    /// `renew_ms`
    pub renew_ms: i64,
    /// `holds`
    pub holds: i64,
    /// `contended`
    pub contended: i64,
    /// Microseconds since 1970, as all these.
    pub since_us: i64,
    /// `acquired_at`
    pub acquired_us: i64,
    /// `renewed_at`
    pub renewed_us: i64,
    /// `released_at`
    pub released_us: Option<i64>,
    /// `contended_at`
    pub contended_us: Option<i64>,
    /// What time it is in the database.
    pub now_us: i64,
}

impl From<Row> for LeaseRecord {
    fn from(row: Row) -> LeaseRecord {
        let positive = |number: i64| u64::try_from(number).unwrap_or(0);
        LeaseRecord {
            state: LeaseState::Held,
            node: row.node,
            machine: row.machine,
            pid: u32::try_from(row.pid).unwrap_or(0),
            incarnation: row.incarnation,
            kind: row.kind,
            epoch: Epoch::new(row.epoch),
            since: time(row.since_us),
            acquired_at: time(row.acquired_us),
            renewed_at: time(row.renewed_us),
            released_at: row.released_us.map(time),
            renewed_ago: Duration::from_micros(positive(row.now_us - row.renewed_us)),
            renew_every: Duration::from_millis(positive(row.renew_ms)),
            holds: positive(row.holds),
            contended: positive(row.contended),
            contended_at: row.contended_us.map(time),
            inspection: None,
            name: row.name,
            store: row.store,
        }
    }
}

/// From microseconds since 1970.
pub fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// The word of an event, as it was read.
pub fn what(word: &str) -> Result<LockEventKind, LockError> {
    LockEventKind::of(word)
        .ok_or_else(|| LockError::failed(format!("lock_event says {word:?}, which means nothing")))
}

/// How the node of a holder is shown.
pub fn node(holder: &Holder) -> String {
    format!("{}/{}", holder.machine, holder.pid)
}

/// The table that a URL names.
pub(super) fn of_url(url: &str) -> Result<Arc<dyn Table>, LockError> {
    let none = |what: &str| {
        let why = format!(
            "{what} has no tables; name a database: postgres://…, mysql://…, mssql://… or sqlite:FILE"
        );
        Err(LockError::refused("registry_url", why))
    };
    if url == ":memory:" || url == "sqlite::memory:" {
        return none("a process");
    }
    match url.split_once("://") {
        None | Some(("sqlite", _)) => sqlite(url),
        Some(("postgres" | "postgresql", _)) => postgres(url),
        Some(("mysql" | "mariadb", _)) => mysql(url),
        Some(("mssql" | "sqlserver", _)) => mssql(url),
        Some((scheme, _)) => none(&format!("{scheme}://")),
    }
}

#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "mssql")))]
fn built_without(what: &str) -> Result<Arc<dyn Table>, LockError> {
    Err(LockError::refused("registry_url", format!("this program was built without {what}")))
}

fn sqlite(url: &str) -> Result<Arc<dyn Table>, LockError> {
    #[cfg(feature = "sqlite")]
    {
        let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
        Ok(Arc::new(super::sqlite::SqliteTable::new(path)))
    }
    #[cfg(not(feature = "sqlite"))]
    {
        let _ = url;
        built_without("SQLite (feature sqlite)")
    }
}

fn postgres(url: &str) -> Result<Arc<dyn Table>, LockError> {
    #[cfg(feature = "postgres")]
    {
        Ok(Arc::new(super::postgres::PostgresTable::new(url)?))
    }
    #[cfg(not(feature = "postgres"))]
    {
        let _ = url;
        built_without("PostgreSQL (feature postgres)")
    }
}

fn mysql(url: &str) -> Result<Arc<dyn Table>, LockError> {
    #[cfg(feature = "mysql")]
    {
        Ok(Arc::new(super::mysql::MysqlTable::new(&url.replacen("mariadb://", "mysql://", 1))?))
    }
    #[cfg(not(feature = "mysql"))]
    {
        let _ = url;
        built_without("MySQL (feature mysql)")
    }
}

fn mssql(url: &str) -> Result<Arc<dyn Table>, LockError> {
    #[cfg(feature = "mssql")]
    {
        Ok(Arc::new(super::mssql::MssqlTable::new(url)?))
    }
    #[cfg(not(feature = "mssql"))]
    {
        let _ = url;
        built_without("SQL Server (feature mssql)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(holder: &Arc<Holder>, epoch: i64, acquired_ago: i64) -> LeaseUpdate {
        LeaseUpdate {
            name: LockName::new("a").unwrap(),
            store: Arc::from("postgres"),
            holder: holder.clone(),
            kind: None,
            epoch: Epoch::new(epoch),
            since_ago: acquired_ago,
            acquired_ago,
            ended_ago: None,
            renew_ms: 5_000,
            taken: 1,
        }
    }

    #[test]
    fn a_row_heeds_what_is_newer_and_its_own_hold_until_that_has_ended() {
        let (ours, theirs) = (Arc::new(Holder::this()), Arc::new(Holder::this()));
        let known = StoredHold {
            incarnation: ours.incarnation.to_string(),
            holder: ours.to_string(),
            epoch: 5,
            renewed_at: 1_000,
            released: false,
        };
        let before = UpdateDecision::Changed(Some(ours.to_string()));
        let heeds = |known: &StoredHold, word: &LeaseUpdate| verdict(Some(known), word, 1_100);
        assert_eq!(verdict(None, &word(&ours, 1, 0), 1_100), UpdateDecision::Changed(None));
        assert_eq!(heeds(&known, &word(&theirs, 6, 500)), before);
        assert_eq!(heeds(&known, &word(&theirs, 4, 500)), UpdateDecision::Late);
        assert_eq!(heeds(&known, &word(&theirs, 5, 500)), UpdateDecision::Late);
        assert_eq!(heeds(&known, &word(&ours, 5, 500)), UpdateDecision::Same, "a renewal");
        assert_eq!(heeds(&known, &word(&theirs, 1, 50)), before, "the store has forgotten its epochs");
        let ended = StoredHold { released: true, ..known };
        assert_eq!(heeds(&ended, &word(&ours, 5, 500)), UpdateDecision::Late, "it was taken away from us");
    }
}
