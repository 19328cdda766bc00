//! The reader of one version: it waits for events, and hands them on page by page.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::checkpoint::{Checkpoint, Polled, poll};
use super::handler::{Call, Handler, Work};
use super::supervisor::Shared;
use super::{SCAN_MAX, lag, shown};
use crate::database::{Database, Transacted, twin, values};
use crate::error::OutboxError;
use crate::events::{Mark, Range, read_page};

/// How often the mark is looked at while open transactions hold it up: first often, then as often as an idle reader looks.
pub(super) const POLL_PENDING: Duration = Duration::from_millis(5);
const PENDING_OFTEN: Duration = Duration::from_millis(200);
/// A mark that is held up for so long is worth a warning, and another one after as long again.
const HELD_UP: Duration = Duration::from_secs(10);
/// How often the lag is measured.
const LAG_EVERY: Duration = Duration::from_secs(5);
/// The longest pause of a subscription whose handler lacks something.
const AWAY_MAX: Duration = Duration::from_secs(30);

pub(super) struct Reader {
    pub(super) shared: Arc<Shared>,
    pub(super) version: i32,
    pub(super) database: Arc<dyn Database>,
    /// Whether the handler has prepared its version.
    is_prepared: bool,
    pub(super) mark: Mark,
    /// Since when the mark has been held up.
    held_since: Option<Instant>,
    warned_at: Option<Instant>,
    lag_at: Option<Instant>,
    /// Up to here, events are handled one by one: a page of them failed.
    pub(super) one_by_one: i64,
    /// How often in a row the handler lacked something.
    pub(super) away: u32,
}

/// What a reader does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It looks at once.
    Go,
    /// It looks after this time.
    After(Duration),
    /// Its version is gone, or another node has the lock.
    End,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, version: i32) -> Result<Reader, OutboxError> {
        let is_prepared = matches!(shared.handler, Handler::External(_));
        Ok(Reader {
            database: shared.log.connection()?,
            shared,
            version,
            is_prepared,
            mark: Mark::default(),
            held_since: None,
            warned_at: None,
            lag_at: None,
            one_by_one: 0,
            away: 0,
        })
    }

    pub(super) async fn run(mut self) -> Result<(), OutboxError> {
        let ending = self.shared.term.ending().clone();
        while !ending.is_cancelled() {
            let next = match self.round().await {
                // What was committed is read anew.
                Err(error) if error.is_unavailable() => {
                    tracing::warn!(subscription = %self.shared.name, %error, "the subscription waits for its database");
                    Next::After(self.shared.options.backoff_first)
                }
                next => next?,
            };
            match next {
                Next::Go => {}
                Next::End => return Ok(()),
                Next::After(pause) => tokio::select! {
                    () = ending.cancelled() => {}
                    () = tokio::time::sleep(pause) => {}
                },
            }
        }
        Ok(())
    }

    /// Work of the handler in a transaction.
    pub(super) fn work(&self, call: Call) -> Work {
        Work { handler: self.shared.handler.clone(), call, timeout: self.shared.options.timeout }
    }

    /// Lets the handler prepare what this version needs. A rebuild that cannot does not disturb the active version.
    async fn prepare(&mut self) -> Result<Next, OutboxError> {
        let shared = self.shared.clone();
        let work = self.work(Call::Prepare(self.version));
        match self.database.transact(Some(shared.term.fence()), Some(work), Vec::new()).await? {
            Transacted::Failed(error) => {
                let (subscription, what) = (&*shared.name, shown(&error.to_string()));
                tracing::warn!(subscription, error = what, "the handler cannot prepare its version");
                let params = values![subscription, self.version, &*what];
                self.database.query(twin!("subscription_error"), params).await?;
                Ok(Next::After(self.away_pause()))
            }
            Transacted::Lost => Ok(Next::End),
            Transacted::Done(_) | Transacted::Changed => {
                (self.is_prepared, self.away) = (true, 0);
                Ok(Next::Go)
            }
        }
    }

    /// The checkpoints; the mark takes in what was seen with them.
    pub(super) async fn poll_checkpoints(&mut self) -> Result<Polled, OutboxError> {
        let mut polled = poll(&*self.database, &self.shared.name).await?;
        self.mark.observe(polled.last, std::mem::take(&mut polled.holders));
        Ok(polled)
    }

    async fn round(&mut self) -> Result<Next, OutboxError> {
        let polled = self.poll_checkpoints().await?;
        let Some(checkpoint) = polled.version(self.version).cloned() else { return Ok(Next::End) };
        if checkpoint.active {
            let rebuild = polled.checkpoints.iter().find(|other| !other.active);
            let rebuild = rebuild.map(|other| other.version);
            self.shared.rebuild.send_if_modified(|seen| std::mem::replace(seen, rebuild) != rebuild);
            self.measure_sometimes().await?;
        }
        let poll_interval = self.shared.options.poll_interval;
        if !checkpoint.is_running {
            return Ok(Next::After(poll_interval));
        }
        if !self.is_prepared {
            return self.prepare().await;
        }
        if !checkpoint.retry_in.is_zero() {
            return Ok(Next::After(checkpoint.retry_in.min(poll_interval)));
        }
        if checkpoint.replays {
            return self.replay().await;
        }
        let page = i64::from(self.shared.options.page_size);
        let is_close = polled.active().is_some_and(|active| active.position - checkpoint.position <= page);
        if !checkpoint.active && checkpoint.swaps && is_close {
            return self.take_place().await;
        }
        if self.mark.complete() > checkpoint.position {
            self.held_since = None;
            return self.read_on(&checkpoint).await;
        }
        if self.mark.is_pending() {
            return self.wait_for_mark().await;
        }
        self.held_since = None;
        Ok(Next::After(poll_interval))
    }

    /// Handles the next page.
    async fn read_on(&mut self, checkpoint: &Checkpoint) -> Result<Next, OutboxError> {
        let shared = self.shared.clone();
        // While a rebuild takes its place, the active version waits.
        let _step = if checkpoint.active { Some(shared.step.lock().await) } else { None };
        self.step(checkpoint).await
    }

    /// The next events, and the position after them.
    pub(super) async fn page(
        &self,
        checkpoint: &Checkpoint,
    ) -> Result<(Vec<crate::Event>, i64), OutboxError> {
        let is_single = checkpoint.failures > 0 || checkpoint.position < self.one_by_one;
        let limit = if is_single { 1 } else { self.shared.options.page_size };
        let upto = self.mark.complete().min(checkpoint.position.saturating_add(SCAN_MAX));
        let range = Range { after: checkpoint.position, upto, limit };
        let events = read_page(&*self.database, range, &self.shared.options.filter).await?;
        let is_full = u32::try_from(events.len()).is_ok_and(|len| len >= limit);
        let to = events.last().filter(|_| is_full).map_or(upto, |last| last.position);
        Ok((events, to))
    }

    async fn wait_for_mark(&mut self) -> Result<Next, OutboxError> {
        let since = *self.held_since.get_or_insert_with(Instant::now);
        if since.elapsed() < PENDING_OFTEN {
            return Ok(Next::After(POLL_PENDING));
        }
        if since.elapsed() >= HELD_UP && self.warned_at.is_none_or(|warned| warned.elapsed() >= HELD_UP) {
            self.warned_at = Some(Instant::now());
            let holders = self.shared.log.holders().await?;
            let holder = holders.first().map(ToString::to_string).unwrap_or_default();
            let (subscription, held_up) = (&self.shared.name, since.elapsed());
            tracing::warn!(%subscription, ?held_up, holder, "an open transaction has appended events: subscriptions wait for its end");
        }
        Ok(Next::After(self.shared.options.poll_interval))
    }

    /// The pause of a handler that lacks something.
    pub(super) fn away_pause(&mut self) -> Duration {
        self.away = self.away.saturating_add(1);
        let doubled = 1_u32 << (self.away - 1).min(10);
        self.shared.options.backoff_first.saturating_mul(doubled).min(AWAY_MAX)
    }

    async fn measure_sometimes(&mut self) -> Result<(), OutboxError> {
        if self.lag_at.is_none_or(|measured| measured.elapsed() >= LAG_EVERY) {
            self.lag_at = Some(Instant::now());
            lag::measure(&*self.database, &self.shared.name).await?;
        }
        Ok(())
    }
}
