//! The runner of an outbox: on one node at a time, it reads messages in the order of their ids and hands them to a sink.

use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::{Lease, Locks, RunnerStatus, Singleton, Term};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::delivery::{Delivery, DeliveryError};
use crate::error::OutboxError;
use crate::options::OutboxOptions;
use crate::outbox::Outbox;
use crate::runner_task::RunnerTask;
use crate::store::BatchRequest;
use crate::window::Window;

/// How often results are recorded while other messages are on their way.
const SETTLE_EVERY: Duration = Duration::from_millis(100);
/// How often all ready messages are looked at, and not only those after the last one that was read: a transaction that commits late
/// may have written one with a lower id.
const LOOK_BACK: Duration = Duration::from_secs(1);
/// How often what is kept no longer is removed.
const CLEAN_EVERY: Duration = Duration::from_secs(60);
/// The longest pause of a runner whose receiver is away.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Where messages go.
pub trait Sink: Send + Sync + 'static {
    /// Delivers a message. It may be called again for the same message, with the same delivery id.
    fn deliver(&self, message: Delivery) -> impl Future<Output = Result<(), DeliveryError>> + Send;
}

impl<H, F> Sink for H
where
    H: Fn(Delivery) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), DeliveryError>> + Send,
{
    fn deliver(&self, message: Delivery) -> impl Future<Output = Result<(), DeliveryError>> + Send {
        self(message)
    }
}

/// The runner of an outbox on this node. Dropped, it stops in the background.
#[derive(Debug)]
pub struct Runner(RunnerTask);

impl Outbox {
    /// Starts a runner with the default options. See [`Outbox::start_with`].
    pub async fn start(&self, sink: impl Sink) -> Result<Runner, OutboxError> {
        self.start_with(OutboxOptions::default(), sink).await
    }

    /// Starts a runner. Any number of nodes may do so: one of them delivers, and the others wait for its lock.
    pub async fn start_with(&self, options: OutboxOptions, sink: impl Sink) -> Result<Runner, OutboxError> {
        options.check()?;
        let (outbox, sink, lock_ttl) = (self.clone(), Arc::new(sink), options.lock_ttl);
        let work =
            move |singleton, term| deliver(outbox.clone(), options.clone(), sink.clone(), singleton, term);
        RunnerTask::start(&self.url, ("outbox", &self.lock_name()), lock_ttl, work).await.map(Runner)
    }
}

impl Runner {
    /// Its state on this node, and every change of it.
    pub fn status(&self) -> watch::Receiver<RunnerStatus> {
        self.0.status()
    }

    /// The locks that it uses, with their registry.
    pub fn locks(&self) -> &Locks {
        self.0.locks()
    }

    /// Leaves the outbox to another node. If none takes it within five seconds, this one goes on.
    pub fn hand_over(&self) {
        self.0.hand_over();
    }

    /// Stops: messages that are on their way are waited for, and recorded.
    pub async fn stop(self) -> Result<(), OutboxError> {
        self.0.stop().await
    }
}

/// Delivers messages from the moment the lock is won to the end of the term.
async fn deliver<S: Sink>(
    outbox: Outbox,
    options: OutboxOptions,
    sink: Arc<S>,
    singleton: Singleton,
    term: Term,
) -> Result<(), OutboxError> {
    let mut run = Run {
        window: Window::new(options.clone(), sink, Lease::clone(&term)),
        low: 0,
        looked_back_at: Instant::now(),
        cleaned_at: Instant::now(),
        outbox,
        options,
        singleton,
        term,
    };
    let lost = run.term.lost().clone();
    tokio::select! {
        biased;
        // Whatever is on its way is dropped: another node may have the lock.
        () = lost.cancelled() => Ok(()),
        ran = run.run() => ran,
    }
}

struct Run<S: Sink> {
    outbox: Outbox,
    options: OutboxOptions,
    singleton: Singleton,
    term: Term,
    window: Window<S>,
    /// No message below this id is ready, as far as is known.
    low: i64,
    looked_back_at: Instant,
    cleaned_at: Instant,
}

impl<S: Sink> Run<S> {
    async fn run(&mut self) -> Result<(), OutboxError> {
        let ending = self.term.ending().clone();
        let mut away = 0;
        while !ending.is_cancelled() {
            if self.looked_back_at.elapsed() >= LOOK_BACK {
                (self.low, self.looked_back_at) = (0, Instant::now());
            }
            if self.window.results() > 0 || self.outbox.store.waits(&self.outbox.name, self.low).await? {
                match self.settle_and_fetch(true).await {
                    Ok(true) => {}
                    Ok(false) => {
                        tracing::warn!(outbox = %self.outbox.name, "another runner has the lock: this one stops");
                        return Ok(());
                    }
                    // What was delivered is recorded as soon as the database is back: nothing is delivered again.
                    Err(error @ OutboxError::Unavailable(_)) if self.window.results() > 0 => {
                        tracing::warn!(outbox = %self.outbox.name, %error, "results cannot be recorded yet");
                        pause(SETTLE_EVERY, &ending).await;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            } else if self.window.is_idle() {
                if away > 0 {
                    away = 0;
                    self.singleton.report(None);
                }
                self.clean_sometimes().await?;
                pause(self.options.poll_interval, &ending).await;
                continue;
            }
            if !self.work(&ending).await {
                away += 1;
                let length =
                    self.options.backoff_first.saturating_mul(1 << (away - 1).min(10)).min(PAUSE_MAX);
                let error = self.window.away().unwrap_or_default();
                tracing::warn!(outbox = %self.outbox.name, error, ?length, "the receiver is away: delivery pauses");
                self.singleton.report(Some(&format!("the receiver is away: {error}")));
                self.settle_and_fetch(false).await?;
                pause(length, &ending).await;
                // What was held is read again, in order.
                (self.low, self.looked_back_at) = (0, Instant::now());
            } else if away > 0 && self.window.results() > 0 {
                away = 0;
                self.singleton.report(None);
            }
        }
        // A node that stops lets its messages arrive, and records that.
        self.window.stop_reading();
        while !self.window.is_idle() {
            self.window.next().await;
        }
        self.settle_and_fetch(false).await.map(drop)
    }

    /// Records results, and reads the next messages if there is room. `false`: another runner has the lock.
    async fn settle_and_fetch(&mut self, reads: bool) -> Result<bool, OutboxError> {
        // While the receiver is away, a message that is read now could pass those that were let go.
        let limit = if reads && !self.window.is_pausing() { self.window.room() } else { 0 };
        let settlement = self.window.take_results();
        if limit == 0 && settlement.delivered.is_empty() && settlement.failed.is_empty() {
            return Ok(true);
        }
        let request = BatchRequest {
            outbox: self.outbox.name.to_string(),
            settlement,
            keeps: !self.options.keep_delivered.is_zero(),
            low: self.low,
            held: self.window.held(),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
        };
        let batch = self.outbox.store.settle_and_fetch(self.term.fence(), &request).await;
        let batch = match batch {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(false),
            Err(error) => {
                // The messages were delivered; that must not be forgotten because the database was away for a moment.
                self.window.put_back(request.settlement);
                return Err(error);
            }
        };
        count(&self.outbox.name, &request.settlement);
        if let Some(last) = batch.fetched.last() {
            // All that were ready up to here are in the window. If there was no room for more, others may be ready behind it.
            let (next, is_cut) = (last.delivery.id + 1, batch.fetched.len() >= limit);
            self.low = if is_cut { next } else { next.max(self.low) };
        }
        for fetched in batch.fetched {
            self.window.add(fetched);
        }
        Ok(true)
    }

    /// Waits for results that are worth a transaction, or for a while. `false`: the receiver is away.
    async fn work(&mut self, ending: &CancellationToken) -> bool {
        let until = Instant::now() + SETTLE_EVERY;
        loop {
            if self.window.away().is_some() {
                return false;
            }
            if self.window.is_idle() || self.window.has_many_results() || Instant::now() >= until {
                return true;
            }
            tokio::select! {
                biased;
                () = ending.cancelled() => return true,
                () = self.window.next() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    async fn clean_sometimes(&mut self) -> Result<(), OutboxError> {
        if self.cleaned_at.elapsed() < CLEAN_EVERY {
            return Ok(());
        }
        self.cleaned_at = Instant::now();
        let (delivered, dead) = (self.options.keep_delivered, self.options.keep_dead);
        self.outbox.store.clean(&self.outbox.name, delivered, dead).await.map(drop)
    }
}

async fn pause(length: Duration, ending: &CancellationToken) {
    tokio::select! {
        () = ending.cancelled() => {}
        () = tokio::time::sleep(length) => {}
    }
}

fn count(outbox: &str, settlement: &crate::store::Settlement) {
    let add = |name: &'static str, count: usize| {
        if count > 0 {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            metrics::counter!(name, "outbox" => outbox.to_owned()).increment(count);
        }
    };
    let charged = settlement.failed.iter().filter(|failed| failed.charged).count();
    let dead = settlement.failed.iter().filter(|failed| failed.retry_in.is_none()).count();
    add("lineclear_outbox_attempts_total", settlement.delivered.len() + charged);
    add("lineclear_outbox_delivered_total", settlement.delivered.len());
    add("lineclear_outbox_failed_total", charged);
    add("lineclear_outbox_dead_total", dead);
}
