//! A live tap: new events, without a lock and without a checkpoint.

use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinHandle;

use super::{Event, EventLog, Filter, Mark, Range, read};
use crate::database::{Database, twin, values};
use crate::error::OutboxError;

/// How often a tap looks for events.
const POLL: Duration = Duration::from_millis(100);
/// How often it looks while open transactions hold up the mark.
const POLL_PENDING: Duration = Duration::from_millis(10);
/// The pause after an error.
const PAUSE: Duration = Duration::from_secs(1);
const PAGE: u32 = 500;
/// The largest buffer.
const BUFFER_MAX: usize = 65_536;

/// New events from now on, on this node only. It holds no lock and remembers nothing; a reader that is slower than the log loses the oldest
/// events of its buffer, and is told how many. Dropped, it ends.
#[derive(Debug)]
pub struct Tap {
    events: broadcast::Receiver<Event>,
    task: JoinHandle<()>,
}

/// What a tap gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tapped {
    /// The next event.
    Event(Box<Event>),
    /// So many events are lost: the reader was too slow.
    Lagged(u64),
}

impl EventLog {
    /// Taps the log: events that are appended from now on, in order. `buffer`: how many events wait for the reader, 1 to 65,536.
    pub async fn tap(&self, filter: Filter, buffer: usize) -> Result<Tap, OutboxError> {
        filter.check()?;
        if !(1..=BUFFER_MAX).contains(&buffer) {
            return Err(OutboxError::refused("buffer", format!("must be 1 to {BUFFER_MAX}, not {buffer}")));
        }
        let database = self.connection()?;
        let mut mark = Mark::default();
        let mut position = observe(&*database, &mut mark).await?;
        let (sender, events) = broadcast::channel(buffer);
        let task = tokio::spawn(async move {
            loop {
                let pause = match forward(&*database, &mut mark, &mut position, &filter, &sender).await {
                    Ok(true) => continue,
                    Ok(false) if mark.is_pending() => POLL_PENDING,
                    Ok(false) => POLL,
                    Err(error) => {
                        tracing::warn!(%error, "a tap cannot read the log");
                        PAUSE
                    }
                };
                tokio::time::sleep(pause).await;
            }
        });
        Ok(Tap { events, task })
    }
}

/// The last position that is drawn.
async fn observe(database: &dyn Database, mark: &mut Mark) -> Result<i64, OutboxError> {
    // No subscription has this name.
    let rows = database.query(twin!("subscription_poll"), values![""]).await?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(mark.complete()) };
    let last = row.number("last");
    mark.observe(last, row.texts("holders"));
    Ok(last)
}

/// Sends the next events. `false`: there are none.
async fn forward(
    database: &dyn Database,
    mark: &mut Mark,
    position: &mut i64,
    filter: &Filter,
    sender: &broadcast::Sender<Event>,
) -> Result<bool, OutboxError> {
    if mark.complete() <= *position {
        observe(database, mark).await?;
    }
    let upto = mark.complete().min(position.saturating_add(crate::subscriptions::SCAN_MAX));
    if upto <= *position {
        return Ok(false);
    }
    let range = Range { after: *position, upto, limit: PAGE };
    let events = read::page(database, range, filter).await?;
    let is_full = events.len() >= PAGE as usize;
    *position = events.last().filter(|_| is_full).map_or(upto, |last| last.position);
    for event in events {
        // Without a receiver the task ends soon.
        drop(sender.send(event));
    }
    Ok(true)
}

impl Tap {
    /// The next event, or how many were lost. Dropped while it waits, it loses nothing.
    pub async fn next(&mut self) -> Tapped {
        match self.events.recv().await {
            Ok(event) => Tapped::Event(Box::new(event)),
            Err(RecvError::Lagged(count)) => Tapped::Lagged(count),
            // The task ends with the tap, and not before.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.task.abort();
    }
}
