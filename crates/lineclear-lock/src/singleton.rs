//! Work that runs on one of several nodes, for as long as they run.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clock::Moment;
use crate::election::{Election, Term};
use crate::error::LockError;
use crate::locks::Locks;
use crate::name::{Epoch, LockName};
use crate::registry::{Registry, Runner};

/// The pause after the first failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// After so many failures in a row, another node may try.
const FAILURES_MAX: u32 = 5;
/// Work that ran for so long did not fail at its start.
const RAN_WELL: Duration = Duration::from_secs(60);
/// Longest error that is kept, in characters.
const ERROR_CHARS_MAX: usize = 1_000;

/// Work that runs on one node at a time. It starts where its lock is won, stays there, and starts on another node when this one dies,
/// freezes or stops.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lineclear_lock::LockError> {
/// use lineclear_lock::{Locks, Singleton};
/// use tokio_util::sync::CancellationToken;
///
/// let locks = Locks::open(":memory:").await?;
/// let stop = CancellationToken::new();
/// # stop.cancel();
/// let mirror = Singleton::new(&locks, "price-mirror");
/// mirror.run(&stop, |term| async move {
///     while !term.ending().is_cancelled() {
///         // one round of work
/// #       tokio::task::yield_now().await;
///     }
///     Ok::<(), String>(())
/// }).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Singleton {
    election: Election,
    status: Arc<watch::Sender<RunnerStatus>>,
    recorded: Option<Arc<Recorded>>,
}

/// Where the state of a runner is recorded for people, while it runs.
#[derive(Debug)]
struct Recorded {
    registry: Registry,
    runner: Arc<Runner>,
    is_started: AtomicBool,
}

impl Recorded {
    /// `None`: the locks have no registry, or the name is not one.
    fn of(locks: &Locks, name: &str) -> Option<Arc<Recorded>> {
        let registry = locks.registry().filter(|registry| registry.options().record_automatically)?;
        let name = LockName::new(name).ok()?;
        let kind = locks.kind.clone().or_else(|| registry.options().kind_of(name.as_str()));
        let (store, holder) = (locks.store(), locks.core().holder.clone());
        let runner = Arc::new(Runner { id: Uuid::new_v4(), name, store, kind, holder });
        Some(Arc::new(Recorded { registry: registry.clone(), runner, is_started: AtomicBool::new(false) }))
    }
}

/// What a runner does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnerState {
    /// Another node runs it, or none could be asked.
    Waiting,
    /// It runs on this node.
    Running,
    /// It failed on this node, which holds the lock and starts it again after a pause.
    Failing,
    /// It was told to stop.
    Stopped,
}

impl RunnerState {
    const ALL: [RunnerState; 4] =
        [RunnerState::Waiting, RunnerState::Running, RunnerState::Failing, RunnerState::Stopped];

    /// The state of this word.
    pub fn from_word(word: &str) -> Option<RunnerState> {
        RunnerState::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            RunnerState::Waiting => "waiting",
            RunnerState::Running => "running",
            RunnerState::Failing => "failing",
            RunnerState::Stopped => "stopped",
        }
    }
}

/// The state of a runner on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerStatus {
    /// What it does.
    pub state: RunnerState,
    /// Since when, by the clock of this machine.
    pub since: SystemTime,
    /// The number of its lock's holder, while this node is that.
    pub epoch: Option<Epoch>,
    /// How often it failed in a row.
    pub failures: u32,
    /// Its last error on this node.
    pub last_error: Option<String>,
    /// When that was, by the clock of this machine.
    pub failed_at: Option<SystemTime>,
}

impl Singleton {
    /// Work under the lock of this name.
    pub fn new(locks: &Locks, name: &str) -> Singleton {
        let waiting = RunnerStatus {
            state: RunnerState::Waiting,
            since: SystemTime::now(),
            epoch: None,
            failures: 0,
            last_error: None,
            failed_at: None,
        };
        let status = Arc::new(watch::Sender::new(waiting));
        Singleton { election: locks.election(name), status, recorded: Recorded::of(locks, name) }
    }

    /// Its state on this node, and every change of it.
    pub fn status(&self) -> watch::Receiver<RunnerStatus> {
        self.status.subscribe()
    }

    /// Stops the work on this node, and leaves it to another one. If none takes it within five seconds, it continues here.
    pub fn hand_over(&self) {
        self.election.resign();
    }

    /// Stops the work on this node, and leaves it to the one with this [holder](Locks::holder). If that one has not taken it within five seconds,
    /// any node may.
    pub fn hand_over_to(&self, holder: &str) {
        self.election.resign_to(holder);
    }

    /// Waits for the lock, runs `work` while this node holds it, and waits again, until `stop`.
    ///
    /// Work must end soon after [`Term::ending`], and is dropped where it stands when the lock is lost, before another node can start it; see
    /// [`Election::run`]. Work that returns before that, fails or
    /// panics is started again on this node, after a pause that grows with each failure. The lock is kept meanwhile, so that the work does not
    /// wander between nodes. After five failures in a row, another node may try.
    pub async fn run<F, E>(
        &self,
        stop: &CancellationToken,
        work: impl Fn(Term) -> F + Send + Sync + 'static,
    ) -> Result<(), LockError>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let work = Arc::new(work);
        if let Some(recorded) = &self.recorded {
            recorded.is_started.store(true, Ordering::SeqCst);
            self.record();
        }
        // Also if this future is dropped.
        let _stopped = OnDrop(|| {
            self.set(RunnerState::Stopped, None);
            if let Some(recorded) = &self.recorded {
                recorded.is_started.store(false, Ordering::SeqCst);
            }
        });
        self.election.run(stop, |term| self.clone().tenure(term, work.clone())).await
    }

    /// For work that goes on and does not get on: shows the error, and that the runner fails. `None`: it gets on again.
    pub fn report(&self, error: Option<&str>) {
        match error {
            Some(error) => self.failed(0, error.chars().take(ERROR_CHARS_MAX).collect()),
            None if self.status.borrow().state == RunnerState::Failing => {
                let epoch = self.status.borrow().epoch;
                self.set(RunnerState::Running, epoch);
            }
            None => {}
        }
    }

    /// From the start of the work on this node to its end here.
    async fn tenure<F, E>(self, term: Term, work: Arc<impl Fn(Term) -> F>)
    where
        F: Future<Output = Result<(), E>>,
        E: std::fmt::Display,
    {
        let ending = term.ending().clone();
        let mut failures = 0;
        // However the tenure ends: the work may also be aborted.
        let _waits_again = OnDrop(|| self.set(RunnerState::Waiting, None));
        while !ending.is_cancelled() {
            self.set(RunnerState::Running, Some(term.epoch()));
            let started_at = Moment::now();
            let error = match catch_panic(work(term.clone())).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(panic) => Some(format!("it panicked: {panic}")),
            };
            let Some(error) = error else {
                failures = 0;
                pause(PAUSE, &ending).await;
                continue;
            };
            if started_at.plus(RAN_WELL).remaining().is_zero() {
                failures = 0;
            }
            failures += 1;
            let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
            tracing::warn!(lock.name = %term.name(), failures, error, "a runner failed and starts again");
            metrics::counter!("lineclear_runner_failures_total", "lock" => term.name().to_string())
                .increment(1);
            self.failed(failures, error);
            if failures >= FAILURES_MAX {
                self.election.resign();
            }
            pause(PAUSE.saturating_mul(1 << failures.min(16)).min(PAUSE_MAX), &ending).await;
        }
    }

    fn set(&self, state: RunnerState, epoch: Option<Epoch>) {
        self.status.send_modify(|status| {
            if status.state != state {
                (status.state, status.since) = (state, SystemTime::now());
            }
            status.epoch = epoch;
        });
        self.record();
    }

    /// Records the state in the registry, from the start to the end of [`Singleton::run`].
    fn record(&self) {
        if let Some(recorded) =
            self.recorded.as_ref().filter(|recorded| recorded.is_started.load(Ordering::SeqCst))
        {
            recorded.registry.runner_changed(&recorded.runner, self.status.borrow().clone());
        }
    }

    fn failed(&self, failures: u32, error: String) {
        let now = SystemTime::now();
        self.status.send_modify(|status| {
            if status.state != RunnerState::Failing {
                (status.state, status.since) = (RunnerState::Failing, now);
            }
            (status.failures, status.last_error, status.failed_at) = (failures, Some(error), Some(now));
        });
        self.record();
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

async fn pause(length: Duration, ending: &CancellationToken) {
    tokio::select! {
        () = ending.cancelled() => {}
        () = tokio::time::sleep(length) => {}
    }
}

/// The output of a future, or the message with which it panicked.
async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = Box::pin(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Poll::Ready(Err(text.unwrap_or_else(|| "without a message".to_owned())))
        }
    })
    .await
}
