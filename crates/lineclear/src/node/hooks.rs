//! Hooks: functions of the program that are called for each event of a job. They run on a thread of their own, so a hook
//! that is slow, hangs or panics delays other hooks, and never a job.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lineclear_model::{Name, Outcome, Verdict};
use tokio::sync::{broadcast, mpsc, watch};

use crate::node::metrics;
use crate::store::{JobId, Settlement};

/// Events that may wait for hooks. Further events are dropped, counted and logged.
pub const HOOK_EVENTS_MAX: usize = 1_000;
/// How long one hook may take for one event.
const HOOK_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a node that stops waits for its hooks.
const HOOKS_AFTER_STOP: Duration = Duration::from_secs(5);

/// Something that happened to a job on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEvent {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: Name,
    /// What happened.
    pub event: Event,
}

/// What can happen to a job on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// This node enqueued or triggered it. (Ticks that a planner queues are reported when they start.) If a worker starts
    /// the job first, this follows `Started`.
    Queued,
    /// Its handler begins.
    Started {
        /// The number of the claim.
        claim_no: u32,
    },
    /// It is done.
    Completed,
    /// A try failed.
    Failed {
        /// What went wrong.
        error: String,
        /// Whether it is tried again. Otherwise it is a dead letter now.
        retried: bool,
    },
    /// It was cancelled.
    Cancelled,
}

impl Event {
    /// The event of a recorded settlement; released and snoozed jobs have not ended.
    pub(crate) fn of(settlement: &Settlement) -> Option<Event> {
        let failed = |retried| Event::Failed { error: error_of(&settlement.outcome), retried };
        match settlement.verdict {
            Verdict::Complete => Some(Event::Completed),
            Verdict::Retry { .. } => Some(failed(true)),
            Verdict::Bury { .. } => Some(failed(false)),
            Verdict::Cancel => Some(Event::Cancelled),
            _ => None,
        }
    }
}

fn error_of(outcome: &Outcome) -> String {
    let message = outcome.failure().map(|failure| failure.message.clone());
    message.unwrap_or_else(|| outcome.word().as_str().to_owned())
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A hook of the program.
#[derive(Clone)]
pub(crate) struct Hook(Arc<dyn Fn(JobEvent) -> Running + Send + Sync>);

impl Hook {
    pub(crate) fn new<F>(hook: impl Fn(JobEvent) -> F + Send + Sync + 'static) -> Hook
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Hook(Arc::new(move |event| Box::pin(hook(event))))
    }
}

/// The channel of live events.
struct Live(broadcast::Sender<JobEvent>);

impl Default for Live {
    fn default() -> Live {
        Live(broadcast::channel(HOOK_EVENTS_MAX).0)
    }
}

/// The hooks of a node.
#[derive(Default)]
pub(crate) struct Hooks {
    queue: Option<mpsc::Sender<JobEvent>>,
    /// Receivers of live events.
    live: Live,
    /// Events that wait for hooks or are being handled.
    open: watch::Sender<usize>,
    dropped: AtomicU64,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

impl Hooks {
    /// Starts the thread, if there is a hook.
    pub(crate) fn start(hooks: Vec<Hook>) -> std::io::Result<Hooks> {
        if hooks.is_empty() {
            return Ok(Hooks::default());
        }
        let (queue, mut events) = mpsc::channel::<JobEvent>(HOOK_EVENTS_MAX);
        let open = watch::Sender::new(0_usize);
        let handled = open.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("lineclear-hooks".to_owned()).spawn(move || {
            runtime.block_on(async {
                while let Some(event) = events.recv().await {
                    for hook in &hooks {
                        call(hook.clone(), event.clone()).await;
                    }
                    handled.send_modify(|open| *open = open.saturating_sub(1));
                }
            });
        })?;
        Ok(Hooks { queue: Some(queue), live: Live::default(), open, dropped: AtomicU64::new(0) })
    }

    /// Whether there is a hook or a receiver.
    pub(crate) fn are_there(&self) -> bool {
        self.queue.is_some() || self.live.0.receiver_count() > 0
    }

    /// Events from now on; a slow receiver misses some.
    pub(crate) fn watch(&self) -> broadcast::Receiver<JobEvent> {
        self.live.0.subscribe()
    }

    /// Queues an event for the hooks without waiting for them.
    pub(crate) fn tell(&self, event: impl FnOnce() -> JobEvent) {
        if !self.are_there() {
            return;
        }
        let event = event();
        let Some(queue) = &self.queue else {
            // An error means that no receiver is left.
            let _ = self.live.0.send(event);
            return;
        };
        let _ = self.live.0.send(event.clone());
        // Counted before it is sent, so that the thread cannot decrement first.
        self.open.send_modify(|open| *open += 1);
        if let Err(error) = queue.try_send(event) {
            self.open.send_modify(|open| *open = open.saturating_sub(1));
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            metrics::event_dropped();
            // At powers of two only: a hook that hangs must not flood the log.
            if dropped.is_power_of_two() {
                tracing::warn!(%error, dropped, "hooks are too slow; events were dropped");
            }
        }
    }

    /// Events that were dropped because too many waited.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits a limited time until the hooks have handled all events.
    pub(crate) async fn end(&self) {
        let mut open = self.open.subscribe();
        let handled = open.wait_for(|open| *open == 0);
        if tokio::time::timeout(HOOKS_AFTER_STOP, handled).await.is_err() {
            tracing::warn!("hooks are too slow; stopping without waiting for them");
        }
    }
}

/// Calls one hook in a task of its own, which contains its panic.
async fn call(hook: Hook, event: JobEvent) {
    let job = event.job;
    let mut calling = tokio::spawn(async move { (hook.0)(event).await });
    match tokio::time::timeout(HOOK_TIME_MAX, &mut calling).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, job.id = %job, "a hook failed"),
        Err(_) => {
            calling.abort();
            tracing::warn!(job.id = %job, "a hook took too long and was dropped");
        }
    }
}
