//! One term of a runner.

use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::{Lease, Singleton, Term};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Sink;
use super::exchange::{Exchange, ended};
use crate::error::OutboxError;
use crate::events::Mark;
use crate::gaps::Gaps;
use crate::options::OutboxOptions;
use crate::outbox::Outbox;
use crate::window::Window;

/// How often results are recorded while other messages are on their way.
pub(super) const SETTLE_EVERY: Duration = Duration::from_millis(100);
/// How often all ready messages are looked at, and not only new ones and those of late transactions: dead ones may have been replayed.
const LOOK_BACK: Duration = Duration::from_secs(1);
/// The longest pause of a runner whose receiver is away.
const PAUSE_MAX: Duration = Duration::from_secs(30);

pub(super) struct Run<S: Sink> {
    pub(super) outbox: Outbox,
    pub(super) options: OutboxOptions,
    singleton: Singleton,
    pub(super) term: Term,
    pub(super) window: Window<S>,
    /// The one that goes on.
    pub(super) exchange: Option<Exchange>,
    /// No exchange begins before: the database was away.
    pub(super) pause_until: Instant,
    pub(super) is_database_away: bool,
    /// When results are recorded, and more messages are looked for, even if there are few.
    pub(super) tick_at: Instant,
    /// No message below this id is ready, as far as is known, except in the gaps.
    pub(super) low: i64,
    pub(super) gaps: Gaps,
    pub(super) mark: Mark,
    /// When it is asked which gaps are closed.
    pub(super) gaps_at: Instant,
    looked_back_at: Instant,
    pub(super) clean_at: Instant,
    /// How often in a row the receiver was away.
    away: u32,
}

impl<S: Sink> Run<S> {
    pub(super) fn new(
        outbox: Outbox,
        options: OutboxOptions,
        sink: Arc<S>,
        singleton: Singleton,
        term: Term,
    ) -> Run<S> {
        let now = Instant::now();
        Run {
            window: Window::new(options.clone(), sink, Lease::clone(&term)),
            exchange: None,
            pause_until: now,
            is_database_away: false,
            tick_at: now,
            away: 0,
            low: 0,
            gaps: Gaps::default(),
            mark: Mark::default(),
            gaps_at: now,
            looked_back_at: now,
            clean_at: now,
            outbox,
            options,
            singleton,
            term,
        }
    }

    pub(super) async fn run(&mut self) -> Result<(), OutboxError> {
        let ending = self.term.ending().clone();
        while !ending.is_cancelled() {
            if self.exchange.is_none() {
                if self.looked_back_at.elapsed() >= LOOK_BACK {
                    (self.low, self.looked_back_at) = (0, Instant::now());
                }
                self.clean_sometimes().await?;
            }
            if self.window.away().is_some() {
                if !self.wait_for_receiver(&ending).await? {
                    return Ok(());
                }
                continue;
            }
            if self.exchange.is_none() && !self.begin(&ending).await? {
                continue;
            }
            // The end of an exchange is a tick, too. Without this, a tick that is due would make the loop spin.
            let ticks = self.exchange.is_none();
            tokio::select! {
                biased;
                () = ending.cancelled() => {}
                ended = ended(&mut self.exchange) => {
                    if !self.end(ended)? {
                        return Ok(());
                    }
                }
                () = self.window.next() => {}
                () = tokio::time::sleep_until(self.tick_at), if ticks => {}
            }
        }
        self.drain().await
    }

    /// A node that stops begins no message. It waits for those that are on their way, and records them as they arrive: it may be ended before
    /// the last one has arrived.
    async fn drain(&mut self) -> Result<(), OutboxError> {
        self.window.stop();
        loop {
            let is_idle = self.window.is_idle();
            if self.exchange.is_none() {
                if is_idle && self.window.results() == 0 {
                    return Ok(());
                }
                let now = Instant::now();
                let is_due = (is_idle || self.tick_at <= now) && self.pause_until <= now;
                if is_due && self.window.results() > 0 {
                    self.start_exchange(false);
                }
            }
            let ticks = self.exchange.is_none() && self.window.results() > 0;
            tokio::select! {
                biased;
                ended = ended(&mut self.exchange) => {
                    if !self.end(ended)? {
                        return Ok(());
                    }
                }
                () = self.window.next() => {}
                () = tokio::time::sleep_until(self.tick_at), if ticks => {}
            }
        }
    }

    /// Begins an exchange if there is something to record or to read. `false`: nothing is to be done, and some time has passed.
    async fn begin(&mut self, ending: &CancellationToken) -> Result<bool, OutboxError> {
        let is_idle = self.window.is_idle();
        let is_due = self.tick_at <= Instant::now();
        if Instant::now() < self.pause_until {
            return Ok(true);
        }
        if self.window.results() > 0 {
            self.receiver_is_back();
            if is_idle || is_due || self.window.has_many_results() {
                self.start_exchange(true);
            }
            return Ok(true);
        }
        if !is_idle && !is_due {
            return Ok(true);
        }
        self.tick_at = Instant::now() + SETTLE_EVERY;
        let reads = match self.waits().await {
            Ok(waits) => waits,
            Err(error) => {
                self.database_is_away(error)?;
                return Ok(true);
            }
        };
        if reads {
            self.start_exchange(true);
        } else if is_idle {
            self.receiver_is_back();
            pause(self.options.poll_interval.min(self.until_clean()), ending).await;
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether a message can be read now, or a gap is to be looked at.
    async fn waits(&self) -> Result<bool, OutboxError> {
        if self.window.room() == 0 {
            return Ok(false);
        }
        let gaps_are_due = !self.gaps.is_empty() && self.gaps_at <= Instant::now();
        Ok(gaps_are_due || self.outbox.store.waits(&self.outbox.name, self.low).await?)
    }

    /// A statement failed. If the database was away for a moment, messages that are on their way stay there, and what has arrived is recorded as soon as
    /// it is back. What was read then may be lost on the way back: everything is looked at again.
    pub(super) fn database_is_away(&mut self, error: OutboxError) -> Result<(), OutboxError> {
        if !error.is_unavailable() {
            return Err(error);
        }
        if !std::mem::replace(&mut self.is_database_away, true) {
            tracing::warn!(outbox = %self.outbox.name, %error, "the database is away: the runner tries again");
        }
        self.tick_at = Instant::now() + SETTLE_EVERY;
        self.pause_until = self.tick_at;
        self.low = 0;
        Ok(())
    }

    fn receiver_is_back(&mut self) {
        if self.away > 0 {
            self.away = 0;
            self.singleton.report(None);
        }
    }

    /// The receiver is away, and nothing is on its way: pauses. `false`: another runner has the lock.
    async fn wait_for_receiver(&mut self, ending: &CancellationToken) -> Result<bool, OutboxError> {
        let error = self.window.away().unwrap_or_default().to_owned();
        if !self.finish_exchange().await? {
            return Ok(false);
        }
        self.away += 1;
        let doubled = self.options.backoff_first.saturating_mul(1 << (self.away - 1).min(10));
        let length = doubled.min(PAUSE_MAX);
        tracing::warn!(outbox = %self.outbox.name, error, ?length, "the receiver is away: delivery pauses");
        self.singleton.report(Some(&format!("the receiver is away: {error}")));
        self.start_exchange(false);
        if !self.finish_exchange().await? {
            return Ok(false);
        }
        pause(length, ending).await;
        // What was held is read again, in order.
        (self.low, self.looked_back_at) = (0, Instant::now());
        Ok(true)
    }
}

async fn pause(length: Duration, ending: &CancellationToken) {
    tokio::select! {
        () = ending.cancelled() => {}
        () = tokio::time::sleep(length) => {}
    }
}
