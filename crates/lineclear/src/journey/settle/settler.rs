//! The settler of a node: outcome → history, in batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tracing::Instrument;

use crate::journey::execute::reporter;
use crate::journey::execute::start::start_waiting;
use crate::node::pacer::AFTER_ERROR;
use crate::node::{Event, JobEvent, Shared, metrics};
use crate::store::{FencedWrite, Settlement, StoreError};

/// Settlements that one statement takes.
pub(crate) const SETTLE_MAX: usize = 500;
/// Its name in the log.
const NAME: &str = "settler";
/// How long settling continues after a stop: results of finished jobs must be recorded.
const SETTLE_AFTER_STOP: Duration = Duration::from_secs(30);
/// The last success of a manifest is written at most so often, if it could not be written with its job.
const NOTE_PAUSE: Duration = Duration::from_millis(50);
/// Pauses before locked settlements are tried again: another settler holds a lock for milliseconds, an application may for minutes.
const LOCKED_PAUSE_MIN: Duration = Duration::from_millis(5);
const LOCKED_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Writes outcomes until no handler is left that could end. An outcome that cannot be written now is tried again until it is:
/// a database that is away for a while must not cost finished work. Leases are renewed meanwhile, and an outcome that comes too
/// late changes nothing. Only a node that stops gives up after a while.
pub(crate) async fn settle(shared: Arc<Shared>, mut settlements: mpsc::Receiver<Settlement>) {
    let mut settler = Settler::new(shared);
    let mut batch = Vec::with_capacity(SETTLE_MAX);
    let mut ended = false;
    while !ended || settler.locked.is_waiting() {
        tokio::select! {
            count = settlements.recv_many(&mut batch, SETTLE_MAX), if !ended => ended = count == 0,
            () = settler.locked.is_due() => batch.append(&mut settler.locked.settlements),
            () = tokio::time::sleep(NOTE_PAUSE), if !settler.shared.loop_store.successes.is_empty() => {
                settler.note_successes().await;
            }
        }
        if !batch.is_empty() {
            let span = tracing::debug_span!("settle", node.id = %settler.shared.id, jobs = batch.len());
            settler.settle_batch(std::mem::take(&mut batch)).instrument(span).await;
            // A job that ran alone may be over, and there is room for more.
            start_waiting(&settler.shared);
            settler.shared.nudge.notify_one();
        }
    }
    settler.note_successes().await;
}

/// Settles one outcome, without the loop.
pub(crate) async fn settle_one(shared: &Arc<Shared>, settlement: Settlement) {
    let (sender, settlements) = mpsc::channel(1);
    // The channel has room for one.
    drop(sender.try_send(settlement));
    drop(sender);
    settle(shared.clone(), settlements).await;
}

struct Settler {
    shared: Arc<Shared>,
    locked: LockedSettlements,
    /// When successes were last noted.
    noted_at: Instant,
    /// When a node that stops gives up.
    give_up_at: Option<Instant>,
}

/// Settlements whose rows another transaction holds: they wait for it without holding up others.
#[derive(Default)]
struct LockedSettlements {
    settlements: Vec<Settlement>,
    pause: Duration,
    at: Option<Instant>,
}

impl LockedSettlements {
    fn add(&mut self, settlements: Vec<Settlement>) {
        self.settlements.extend(settlements);
        self.pause = (self.pause * 5 / 4).clamp(LOCKED_PAUSE_MIN, LOCKED_PAUSE_MAX);
        self.at = Some(Instant::now() + self.pause);
    }

    fn is_waiting(&self) -> bool {
        !self.settlements.is_empty()
    }

    /// The time to try them again has come; never, if there are none.
    async fn is_due(&self) {
        match self.at.filter(|_| self.is_waiting()) {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}

impl Settler {
    fn new(shared: Arc<Shared>) -> Settler {
        Settler { shared, locked: LockedSettlements::default(), noted_at: Instant::now(), give_up_at: None }
    }

    /// Settles a batch. Tries again while the database is away; what is locked is left for later.
    async fn settle_batch(&mut self, mut batch: Vec<Settlement>) {
        let shared = self.shared.clone();
        reporter::write_last_lines(&shared, &batch).await;
        loop {
            let results = shared.loop_store.settle_each(shared.id, &batch).await;
            let (mut unwritten, mut locked, mut trouble) = (Vec::new(), Vec::new(), None);
            let (mut written, mut answers) = (Vec::new(), Vec::new());
            for (settlement, result) in batch.into_iter().zip(results) {
                match result {
                    Ok(answer) => {
                        written.push(settlement);
                        answers.push(answer);
                    }
                    Err(StoreError::Locked { .. }) => locked.push(settlement),
                    Err(error) if error.may_be_one_rows_fault() => {
                        tracing::error!(%error, job.id = %settlement.claim.job, "an outcome cannot be recorded; the job will run again");
                        shared.running.remove(settlement.claim);
                    }
                    Err(error) => {
                        unwritten.push(settlement);
                        trouble = Some(error);
                    }
                }
            }
            tell(&shared, &written, &answers);
            for settlement in &written {
                shared.running.remove(settlement.claim);
            }
            self.leave_for_later(locked);
            if self.noted_at.elapsed() >= NOTE_PAUSE {
                self.note_successes().await;
            }
            batch = unwritten;
            let Err(error) = shared.statuses.note("settling", trouble.map_or(Ok(()), Err)) else {
                shared.log_success(NAME);
                return;
            };
            shared.log_failure(NAME, &error);
            if self.gives_up(&batch, &error.to_string()) {
                return;
            }
            tokio::time::sleep(AFTER_ERROR).await;
        }
    }

    fn leave_for_later(&mut self, locked: Vec<Settlement>) {
        if locked.is_empty() {
            if !self.locked.is_waiting() {
                self.locked.pause = Duration::ZERO;
            }
        } else if !self.gives_up(&locked, "another transaction holds their rows") {
            tracing::debug!(node.id = %self.shared.id, jobs = locked.len(), "outcomes wait: another transaction holds their rows");
            locked.iter().for_each(|settlement| self.shared.running.drop_permit(settlement.claim));
            self.locked.add(locked);
        }
    }

    async fn note_successes(&mut self) {
        self.noted_at = Instant::now();
        if let Err(error) = self.shared.loop_store.note_successes().await {
            tracing::debug!(%error, node.id = %self.shared.id, "the last success of manifests is not written yet");
        }
    }

    /// A node that stops leaves these jobs to others if it could not settle them for a while.
    fn gives_up(&mut self, batch: &[Settlement], why: &str) -> bool {
        if !self.shared.stopping.is_cancelled() {
            return false;
        }
        let at = *self.give_up_at.get_or_insert_with(|| Instant::now() + SETTLE_AFTER_STOP);
        if Instant::now() < at {
            return false;
        }
        let jobs: Vec<i64> = batch.iter().map(|settlement| settlement.claim.job.0).collect();
        tracing::error!(why, ?jobs, "outcomes are lost with this node; these jobs will run again");
        batch.iter().for_each(|settlement| self.shared.running.remove(settlement.claim));
        true
    }
}

/// Reports recorded results to waiters, metrics and hooks; another node reports those that came too late.
fn tell(shared: &Shared, batch: &[Settlement], answers: &[FencedWrite]) {
    let stale = answers.iter().filter(|answer| **answer == FencedWrite::Stale).count();
    if stale > 0 {
        metrics::stale(stale);
        tracing::warn!(node.id = %shared.id, stale, "results came too late: others have these jobs now");
        let is_stale = |(_, answer): &(&Settlement, &FencedWrite)| **answer == FencedWrite::Stale;
        shared.late_claims.add(batch.iter().zip(answers).filter(is_stale).map(|(late, _)| late.claim));
    }
    tracing::debug!(node.id = %shared.id, jobs = answers.len() - stale, "settled");
    shared.waiters.settled(batch.iter().map(|settlement| settlement.claim.job));
    for (settlement, _) in batch.iter().zip(answers).filter(|(_, answer)| **answer == FencedWrite::Recorded) {
        let Some(kind) = shared.running.kind(settlement.claim) else { continue };
        metrics::settled(&kind, settlement.outcome.word());
        if let Some(event) = Event::of(settlement) {
            shared.hooks.tell(|| JobEvent { job: settlement.claim.job, kind, event });
        }
    }
}
