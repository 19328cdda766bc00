//! Reading the log.

use std::time::Duration;

use super::event::check_name;
use super::{Event, EventLog, Filter};
use crate::database::{Database, Row, twin, values};
use crate::error::OutboxError;

/// Events that one call returns.
const PAGE_MAX: u32 = 1_000;
/// Open transactions that are named.
const HOLDERS_MAX: u32 = 20;

/// Events after one position and up to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) after: i64,
    pub(crate) upto: i64,
    pub(crate) limit: u32,
}

/// An open transaction that has appended events: subscriptions wait for its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its session; none: it is prepared.
    pub pid: Option<i64>,
    /// What the session calls itself; none if this role may not see it.
    pub application: Option<String>,
    /// Its user.
    pub user: Option<String>,
    /// What it does, in PostgreSQL's words.
    pub state: Option<String>,
    /// Its name, if it is prepared.
    pub prepared: Option<String>,
    /// For how long it has been open.
    pub open: Option<Duration>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.prepared, self.pid) {
            (Some(name), _) => write!(f, "prepared transaction {name:?}")?,
            (None, Some(pid)) => write!(f, "session {pid}")?,
            (None, None) => f.write_str("a prepared transaction")?,
        }
        for part in [&self.application, &self.user, &self.state].into_iter().flatten() {
            if !part.is_empty() {
                write!(f, ", {part}")?;
            }
        }
        match self.open {
            Some(open) => write!(f, ", open for {} s", open.as_secs()),
            None => Ok(()),
        }
    }
}

impl Holder {
    fn read(mut row: Row) -> Holder {
        let open = row.int("open_us").map(|open| Duration::from_micros(u64::try_from(open).unwrap_or(0)));
        Holder {
            pid: row.int("pid"),
            application: row.text("application_name"),
            user: row.text("username"),
            state: row.text("state"),
            prepared: row.text("gid"),
            open,
        }
    }
}

/// Events of a range, in order.
pub(crate) async fn page(
    database: &dyn Database,
    range: Range,
    filter: &Filter,
) -> Result<Vec<Event>, OutboxError> {
    let mut params = values![range.after, range.upto, range.limit];
    params.extend(filter.values());
    let rows = database.query(twin!("event_page"), params).await?;
    Ok(rows.into_iter().map(Event::read).collect())
}

impl EventLog {
    /// Events that are committed, after a position, in order: at most `most`. For people: an event with a lower position may still be
    /// committed later. A subscription waits for it.
    pub async fn read(&self, after: i64, filter: &Filter, most: u32) -> Result<Vec<Event>, OutboxError> {
        filter.check()?;
        let range = Range { after, upto: i64::MAX, limit: most.clamp(1, PAGE_MAX) };
        page(&*self.database, range, filter).await
    }

    /// Events of one stream, after a version, in order: at most `most`. The version of the last one is what
    /// [`ExpectedVersion::At`](super::ExpectedVersion::At) takes.
    pub async fn read_stream(&self, stream: &str, after: i64, most: u32) -> Result<Vec<Event>, OutboxError> {
        check_name("stream", stream)?;
        let params = values![stream, after, most.clamp(1, PAGE_MAX)];
        let rows = self.database.query(twin!("event_stream"), params).await?;
        Ok(rows.into_iter().map(Event::read).collect())
    }

    /// The position of the last event that is committed; 0 if there is none.
    pub async fn head(&self) -> Result<i64, OutboxError> {
        let rows = self.database.query(twin!("event_head"), Vec::new()).await?;
        Ok(rows.into_iter().next().map_or(0, |mut row| row.number("head")))
    }

    /// Open transactions that have appended events, the longest first. Subscriptions do not go past what they have appended.
    pub async fn holders(&self) -> Result<Vec<Holder>, OutboxError> {
        let rows = self.database.query(twin!("event_holders"), values![HOLDERS_MAX]).await?;
        Ok(rows.into_iter().map(Holder::read).collect())
    }
}
