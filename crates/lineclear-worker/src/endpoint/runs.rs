//! The jobs that an endpoint runs or has run lately, by the id of their call: a call that is repeated does not run them again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lineclear::handler::HandlerFuture;
use lineclear::outbound::VERIFY_WINDOW;
use lineclear::remote::RemoteRun;
use lineclear_model::Outcome;
use lineclear_model::outcome_object::OutcomeObject;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::endpoint::callback::Callback;

/// How long a job goes on that no call waits for: a proxy may have dropped the call, and it is repeated soon.
const ALONE_FOR: Duration = Duration::from_secs(5);
/// How long answers are kept: as long as a call of either clock can be repeated.
const KEPT_FOR: Duration = Duration::from_secs(2 * VERIFY_WINDOW.as_secs() + 60);
/// Answers that are kept, and their bytes. Beyond, the oldest go.
const KEPT_MAX: usize = 50_000;
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long the last log lines may delay an answer.
const LAST_LINES: Duration = Duration::from_secs(2);

/// What a call finds.
pub(super) enum Joined {
    /// The job runs already, or has ended.
    Running(Waiting),
    /// It is to be started.
    New(NewRun),
    /// All slots are taken.
    Busy,
}

/// The runs of an endpoint.
#[derive(Clone)]
pub(super) struct Runs {
    slots: Arc<Semaphore>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    runs: HashMap<String, Shared>,
    /// Those that have ended, in the order of their ends.
    ended: VecDeque<(Instant, String, usize)>,
    ended_bytes: usize,
}

/// What the calls of a run share.
#[derive(Clone)]
struct Shared {
    outcome: watch::Receiver<Option<Arc<str>>>,
    /// How many calls wait.
    waiting: Arc<watch::Sender<usize>>,
}

impl Known {
    /// Forgets answers that no call can ask for any more.
    fn sweep(&mut self) {
        while let Some((ended_at, ..)) = self.ended.front() {
            let is_full = self.ended.len() > KEPT_MAX || self.ended_bytes > KEPT_BYTES_MAX;
            if ended_at.elapsed() <= KEPT_FOR && !is_full {
                return;
            }
            if let Some((_, id, bytes)) = self.ended.pop_front() {
                self.runs.remove(&id);
                self.ended_bytes -= bytes;
            }
        }
    }
}

impl Runs {
    pub(super) fn new(slots: usize) -> Runs {
        let slots = slots.clamp(1, Semaphore::MAX_PERMITS);
        Runs { slots: Arc::new(Semaphore::new(slots)), known: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the run of this call, or makes it.
    pub(super) fn join(&self, id: &str) -> Joined {
        let mut known = self.known();
        known.sweep();
        if let Some(shared) = known.runs.get(id) {
            return Joined::Running(Waiting::new(shared.clone()));
        }
        let Ok(slot) = self.slots.clone().try_acquire_owned() else { return Joined::Busy };
        let (outcome, receiver) = watch::channel(None);
        let shared = Shared { outcome: receiver, waiting: Arc::new(watch::Sender::new(0)) };
        known.runs.insert(id.to_owned(), shared.clone());
        let waiting = Waiting::new(shared);
        Joined::New(NewRun {
            runs: self.clone(),
            id: Some(id.to_owned()),
            slot: Some(slot),
            outcome,
            waiting,
        })
    }
}

/// A call that waits for the end of a run.
pub(super) struct Waiting(Shared);

impl Waiting {
    fn new(shared: Shared) -> Waiting {
        shared.waiting.send_modify(|calls| *calls += 1);
        Waiting(shared)
    }

    /// The outcome object.
    pub(super) async fn outcome(mut self) -> Arc<str> {
        let outcome = self.0.outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        // The run was dropped with its runtime, or refused while another call waited for it.
        outcome.unwrap_or_else(|| json(Outcome::Released))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|calls| *calls -= 1);
    }
}

/// A job that is ready to run.
pub(super) struct Prepared {
    pub(super) run: Arc<RemoteRun>,
    pub(super) handler: HandlerFuture,
    pub(super) callback: Option<Callback>,
}

/// A run that does not exist yet. Dropped without a start, it is forgotten.
pub(super) struct NewRun {
    runs: Runs,
    id: Option<String>,
    slot: Option<OwnedSemaphorePermit>,
    outcome: watch::Sender<Option<Arc<str>>>,
    waiting: Waiting,
}

impl NewRun {
    /// Runs the handler in a task of its own: it does not end with the call.
    pub(super) fn start(mut self, prepared: Prepared) -> Waiting {
        let shared = self.waiting.0.clone();
        let waiting = Waiting::new(shared.clone());
        let calls = shared.waiting.subscribe();
        let id = self.id.take().unwrap_or_default();
        let (runs, sender, slot) = (self.runs.clone(), self.outcome.clone(), self.slot.take());
        tokio::spawn(async move {
            let outcome = json(to_end(prepared, calls).await);
            let mut known = runs.known();
            known.ended_bytes += outcome.len();
            known.ended.push_back((Instant::now(), id, outcome.len()));
            known.sweep();
            drop(known);
            drop(slot);
            sender.send_replace(Some(outcome));
        });
        waiting
    }
}

impl Drop for NewRun {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.runs.known().runs.remove(&id);
        }
    }
}

fn json(outcome: Outcome) -> Arc<str> {
    let json = serde_json::to_string(&OutcomeObject::from(outcome));
    json.unwrap_or_else(|_| r#"{"outcome":"released"}"#.to_owned()).into()
}

/// Runs the handler to its end, and tells it to stop when no call waits for it.
async fn to_end(prepared: Prepared, mut calls: watch::Receiver<usize>) -> Outcome {
    let Prepared { run, mut handler, callback } = prepared;
    let ended = CancellationToken::new();
    let running = async {
        let outcome = tokio::select! {
            outcome = &mut handler => outcome,
            () = abandoned(&mut calls) => {
                run.lose();
                handler.await
            }
        };
        ended.cancel();
        outcome
    };
    let reporting = async {
        let Some(callback) = &callback else { return };
        let late = async {
            ended.cancelled().await;
            // A log that cannot be sent does not hold up the answer for long.
            tokio::time::sleep(LAST_LINES).await;
        };
        tokio::select! {
            () = callback.report(&run, &ended) => {}
            () = late => {}
        }
    };
    tokio::join!(running, reporting).0
}

/// Ready when no call has waited for a while.
async fn abandoned(calls: &mut watch::Receiver<usize>) {
    loop {
        // The sender is with the known runs as long as this one runs.
        drop(calls.wait_for(|calls| *calls == 0).await);
        if tokio::time::timeout(ALONE_FOR, calls.wait_for(|calls| *calls > 0)).await.is_err() {
            return;
        }
    }
}
