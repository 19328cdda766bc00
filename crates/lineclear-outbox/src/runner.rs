//! The runner of an outbox: on one node at a time, it reads messages in the order of their ids and hands them to a sink.

use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::{Lease, Locks, RunnerStatus, Singleton, Term};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::delivery::{Delivery, DeliveryError};
use crate::error::OutboxError;
use crate::options::OutboxOptions;
use crate::outbox::Outbox;
use crate::runner_task::RunnerTask;
use crate::store::{BatchRequest, Fetched, Kept};
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
        exchange: None,
        pause_until: Instant::now(),
        tick_at: Instant::now(),
        away: 0,
        low: 0,
        looked_back_at: Instant::now(),
        cleaned_at: None,
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

/// A transaction that records results and reads the next messages, while others are on their way.
type Exchange = AbortOnDropHandle<(BatchRequest, Result<Option<Vec<Fetched>>, OutboxError>)>;

struct Run<S: Sink> {
    outbox: Outbox,
    options: OutboxOptions,
    singleton: Singleton,
    term: Term,
    window: Window<S>,
    /// The one that goes on.
    exchange: Option<Exchange>,
    /// No exchange begins before: the database was away.
    pause_until: Instant,
    /// When results are recorded, and more messages are looked for, even if there are few.
    tick_at: Instant,
    /// No message below this id is ready, as far as is known.
    low: i64,
    looked_back_at: Instant,
    cleaned_at: Option<Instant>,
    /// How often in a row the receiver was away.
    away: u32,
}

impl<S: Sink> Run<S> {
    async fn run(&mut self) -> Result<(), OutboxError> {
        let ending = self.term.ending().clone();
        while !ending.is_cancelled() {
            if self.looked_back_at.elapsed() >= LOOK_BACK {
                (self.low, self.looked_back_at) = (0, Instant::now());
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
            tokio::select! {
                biased;
                () = ending.cancelled() => {}
                ended = ended(&mut self.exchange) => {
                    if !self.end(ended)? {
                        return Ok(());
                    }
                }
                () = self.window.next() => {}
                () = tokio::time::sleep_until(self.tick_at) => {}
            }
        }
        // A node that stops lets its messages arrive, and records that.
        self.window.stop_reading();
        if !self.finish_exchange().await? {
            return Ok(());
        }
        while !self.window.is_idle() {
            self.window.next().await;
        }
        self.record().await.map(drop)
    }

    /// Begins an exchange if there is something to record or to read. `false`: nothing is to be done, and some time has passed.
    async fn begin(&mut self, ending: &CancellationToken) -> Result<bool, OutboxError> {
        let is_idle = self.window.is_idle();
        let is_due = self.tick_at <= Instant::now();
        if Instant::now() < self.pause_until {
            return Ok(true);
        }
        if self.window.results() > 0 {
            if self.away > 0 {
                self.away = 0;
                self.singleton.report(None);
            }
            if is_idle || is_due || self.window.has_many_results() {
                self.start_exchange(true);
            }
            return Ok(true);
        }
        if !is_idle && !is_due {
            return Ok(true);
        }
        self.tick_at = Instant::now() + SETTLE_EVERY;
        if self.window.room() > 0 && self.outbox.store.waits(&self.outbox.name, self.low).await? {
            self.start_exchange(true);
        } else if is_idle {
            if self.away > 0 {
                self.away = 0;
                self.singleton.report(None);
            }
            self.clean_sometimes().await?;
            pause(self.options.poll_interval, ending).await;
            return Ok(false);
        }
        Ok(true)
    }

    fn start_exchange(&mut self, reads: bool) {
        self.tick_at = Instant::now() + SETTLE_EVERY;
        // While the receiver is away, a message that is read now could pass those that were let go.
        let room = if reads && !self.window.is_pausing() { self.window.room() } else { 0 };
        let settlement = self.window.take_results();
        if room == 0 && settlement.is_empty() {
            return;
        }
        let request = BatchRequest {
            outbox: self.outbox.name.to_string(),
            settlement,
            keeps: !self.options.keep_delivered.is_zero(),
            low: self.low,
            held: self.window.held(),
            limit: i64::try_from(room).unwrap_or(i64::MAX),
        };
        let (store, fence) = (self.outbox.store.clone(), self.term.fence().clone());
        self.exchange = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let answer = store.settle_and_fetch(&fence, &request).await;
            (request, answer)
        })));
    }

    /// Takes up the answer of an exchange. `false`: another runner has the lock.
    fn end(
        &mut self,
        (request, answer): (BatchRequest, Result<Option<Vec<Fetched>>, OutboxError>),
    ) -> Result<bool, OutboxError> {
        self.exchange = None;
        let fetched = match answer {
            Ok(Some(fetched)) => fetched,
            Ok(None) => {
                tracing::warn!(outbox = %self.outbox.name, "another runner has the lock: this one stops");
                return Ok(false);
            }
            Err(error) => {
                // The messages were delivered; that must not be forgotten because the database was away for a moment: it is recorded as
                // soon as the database is back.
                let has_results = !request.settlement.is_empty();
                self.window.put_back(request.settlement);
                if has_results && matches!(error, OutboxError::Unavailable(_)) {
                    tracing::warn!(outbox = %self.outbox.name, %error, "results cannot be recorded yet");
                    self.tick_at = Instant::now() + SETTLE_EVERY;
                    self.pause_until = self.tick_at;
                    return Ok(true);
                }
                return Err(error);
            }
        };
        self.window.recorded();
        count(&self.outbox.name, &request.settlement);
        if self.window.is_pausing() {
            // They stay ready, behind those that were let go.
            return Ok(true);
        }
        if let Some(last) = fetched.last() {
            // All that were ready up to here are in the window. If there was no room for more, others may be ready behind it.
            let (next, limit) = (last.delivery.id + 1, usize::try_from(request.limit).unwrap_or(usize::MAX));
            self.low = if fetched.len() >= limit { next } else { next.max(self.low) };
        }
        self.window.add(fetched);
        Ok(true)
    }

    /// Waits for the exchange that goes on. `false`: another runner has the lock.
    async fn finish_exchange(&mut self) -> Result<bool, OutboxError> {
        if self.exchange.is_none() {
            return Ok(true);
        }
        let ended = ended(&mut self.exchange).await;
        self.end(ended)
    }

    /// Records all results. `false`: another runner has the lock.
    async fn record(&mut self) -> Result<bool, OutboxError> {
        self.start_exchange(false);
        self.finish_exchange().await
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
        if !self.record().await? {
            return Ok(false);
        }
        pause(length, ending).await;
        // What was held is read again, in order.
        (self.low, self.looked_back_at) = (0, Instant::now());
        Ok(true)
    }

    async fn clean_sometimes(&mut self) -> Result<(), OutboxError> {
        if self.cleaned_at.is_some_and(|at| at.elapsed() < CLEAN_EVERY) {
            return Ok(());
        }
        self.cleaned_at = Some(Instant::now());
        self.outbox.store.clean(&self.outbox.name, Kept::of(&self.options)).await.map(drop)
    }
}

/// The end of an exchange. If none goes on, it waits for ever.
async fn ended(exchange: &mut Option<Exchange>) -> (BatchRequest, Result<Option<Vec<Fetched>>, OutboxError>) {
    let Some(task) = exchange else { return std::future::pending().await };
    match task.await {
        Ok(ended) => ended,
        // It panicked. What it was to record is lost: the messages come again.
        Err(error) => (BatchRequest::default(), Err(OutboxError::failed(error))),
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
