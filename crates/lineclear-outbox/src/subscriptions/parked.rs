//! Parked events: those that failed too often, and wait for a decision.

use std::sync::Arc;
use std::time::SystemTime;

use super::error::HandlerError;
use super::handler::{Call, Handler, within};
use super::lag::count;
use super::reader::{Next, Reader};
use super::shown;
use crate::database::{Row, Step, Transacted, twin, values};
use crate::delivery::Next as Answer;
use crate::error::OutboxError;
use crate::events::{Event, EventLog};

/// Parked events on one page.
const PAGE_MAX: u32 = 1_000;

/// An event that failed too often.
#[derive(Clone, Debug)]
pub struct ParkedEvent {
    /// Its number among parked events.
    pub id: i64,
    /// Its failed attempts.
    pub attempts: u32,
    /// Its last error.
    pub last_error: Option<String>,
    /// When it was parked.
    pub parked_at: SystemTime,
    /// Whether its subscription is about to handle it again.
    pub replays: bool,
    /// The event.
    pub event: Event,
}

impl ParkedEvent {
    fn read(mut row: Row) -> ParkedEvent {
        ParkedEvent {
            id: row.number("id"),
            attempts: u32::try_from(row.number("attempts")).unwrap_or(0),
            last_error: row.text("last_error"),
            parked_at: row.time("parked_us").unwrap_or(SystemTime::UNIX_EPOCH),
            replays: row.flag("replays"),
            event: Event::read(row),
        }
    }
}

impl EventLog {
    /// Parked events of a subscription, newest first: at most `most`, below the id `before`.
    pub async fn parked(
        &self,
        name: &str,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<ParkedEvent>, OutboxError> {
        self.parked_page(name, before, most, true).await
    }

    /// As [`EventLog::parked`], without the payloads and headers of the events.
    pub async fn parked_without_payloads(
        &self,
        name: &str,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<ParkedEvent>, OutboxError> {
        self.parked_page(name, before, most, false).await
    }

    /// One parked event of a subscription.
    pub async fn show_parked(&self, name: &str, id: i64) -> Result<Option<ParkedEvent>, OutboxError> {
        let found = self.parked_page(name, id.checked_add(1), 1, true).await?;
        Ok(found.into_iter().next().filter(|parked| parked.id == id))
    }

    async fn parked_page(
        &self,
        name: &str,
        before: Option<i64>,
        most: u32,
        full: bool,
    ) -> Result<Vec<ParkedEvent>, OutboxError> {
        let params = values![name, before.unwrap_or(i64::MAX), most.clamp(1, PAGE_MAX), full];
        let rows = self.database.query(twin!("parked_list"), params).await?;
        Ok(rows.into_iter().map(ParkedEvent::read).collect())
    }

    /// Lets the subscription handle these parked events again, each once, after events that came later. One that fails stays parked. Returns
    /// how many there are.
    pub async fn replay_parked(&self, name: &str, ids: &[i64]) -> Result<u64, OutboxError> {
        let rows = self.database.query(twin!("parked_replay"), values![name, ids]).await?;
        Ok(u64::try_from(rows.len()).unwrap_or(0))
    }

    /// Forgets these parked events; they stay in the log. Returns how many there were.
    pub async fn discard_parked(&self, name: &str, ids: &[i64]) -> Result<u64, OutboxError> {
        let rows = self.database.query(twin!("parked_discard"), values![name, ids]).await?;
        Ok(u64::try_from(rows.len()).unwrap_or(0))
    }
}

impl Reader {
    /// Handles a parked event again.
    pub(super) async fn replay(&mut self) -> Result<Next, OutboxError> {
        let name = self.shared.name.clone();
        let rows = self.database.query(twin!("parked_next"), values![&*name, self.version]).await?;
        let Some(parked) = rows.into_iter().next().map(ParkedEvent::read) else { return Ok(Next::Go) };
        let fence = self.shared.term.fence();
        let done = vec![Step::must(twin!("parked_done"), values![parked.id, &*name, self.version])];
        let transacted = match self.shared.handler.clone() {
            Handler::External(handler) => {
                match within(self.shared.options.timeout, handler(parked.event.clone())).await {
                    Ok(()) => self.database.transact(Some(fence), None, done).await?,
                    Err(error) => Transacted::Failed(error),
                }
            }
            #[cfg(any(feature = "postgres", feature = "sqlite"))]
            _ => {
                let page = self.page_of(vec![parked.event.clone()], true);
                let work = self.work(Call::Handle(Arc::new(page)));
                self.database.transact(Some(fence), Some(work), done).await?
            }
        };
        match transacted {
            Transacted::Done(_) => {
                self.away = 0;
                count("lineclear_subscription_handled_total", &name, 1);
                Ok(Next::Go)
            }
            Transacted::Changed => Ok(Next::Go),
            Transacted::Lost => Ok(Next::End),
            Transacted::Failed(error) => self.replay_failed(parked.id, error).await,
        }
    }

    async fn replay_failed(&mut self, id: i64, error: HandlerError) -> Result<Next, OutboxError> {
        let what = shown(&error.what);
        if error.next == Answer::Pause {
            tracing::warn!(subscription = %self.shared.name, error = what, "a parked event cannot be handled yet");
            return Ok(Next::After(self.away_pause()));
        }
        count("lineclear_subscription_failed_total", &self.shared.name, 1);
        self.database.query(twin!("parked_fail"), values![id, 1, &*what]).await?;
        Ok(Next::Go)
    }
}
