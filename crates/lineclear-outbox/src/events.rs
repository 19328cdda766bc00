//! The event log of a database: events of streams, in one order.

mod append;
mod event;
mod filter;
mod mark;
mod read;
mod tap;

use std::sync::Arc;

use crate::database::{self, Database};
use crate::error::OutboxError;

pub use append::{APPEND_MAX, Appended, ExpectedVersion};
pub use event::{Event, NewEvent};
pub use filter::{FILTER_MAX, Filter};
pub use read::Holder;
pub use tap::{Tap, Tapped};

pub(crate) use mark::Mark;
pub(crate) use read::{Range, page as read_page};

/// The log of a database, in PostgreSQL or SQLite: programs append events in their own transactions, and subscriptions read them in order.
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventLog {
    pub(crate) url: Arc<str>,
    pub(crate) database: Arc<dyn Database>,
    /// The statement that appends, for its schema; none: the log is not in PostgreSQL.
    #[cfg(feature = "postgres")]
    append: Option<Arc<str>>,
}

impl EventLog {
    /// Opens the log of a database, and creates its tables unless they exist: `postgres://…`, `sqlite:FILE` or a path. A schema of PostgreSQL
    /// (`?schema=`) has one log, and so has a file of SQLite. MySQL is not supported.
    pub async fn open(url: &str) -> Result<EventLog, OutboxError> {
        let database = database::open(url)?;
        database.prepare().await?;
        EventLog::of(url, database)
    }

    /// Opens the log of a database for people: it creates nothing. `None`: there are no tables.
    pub async fn open_existing(url: &str) -> Result<Option<EventLog>, OutboxError> {
        let database = database::open(url)?;
        if !database.has_log().await? {
            return Ok(None);
        }
        EventLog::of(url, database).map(Some)
    }

    fn of(url: &str, database: Arc<dyn Database>) -> Result<EventLog, OutboxError> {
        Ok(EventLog {
            url: Arc::from(url),
            database,
            #[cfg(feature = "postgres")]
            append: append::statement(url)?,
        })
    }

    /// A connection of its own, for a runner.
    pub(crate) fn connection(&self) -> Result<Arc<dyn Database>, OutboxError> {
        database::open(&self.url)
    }
}
