//! The settler of a node: outcome → history, in batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tracing::Instrument;

use crate::journey::execute::reporter;
use crate::node::pacer::AFTER_ERROR;
use crate::node::{Event, JobEvent, Shared, metrics};
use crate::store::{FencedWrite, Settlement};

/// Settlements that one statement takes.
pub(crate) const SETTLE_MAX: usize = 500;
/// How long settling continues after a stop: results of finished jobs must be recorded.
const SETTLE_AFTER_STOP: Duration = Duration::from_secs(30);

/// Writes the results of finished jobs, until no job runs any more.
pub(crate) async fn settle(shared: Arc<Shared>, mut settlements: mpsc::Receiver<Settlement>) {
    let mut batch = Vec::with_capacity(SETTLE_MAX);
    while settlements.recv_many(&mut batch, SETTLE_MAX).await > 0 {
        let span = tracing::debug_span!("settle", node.id = %shared.id, jobs = batch.len());
        settle_batch(&shared, std::mem::take(&mut batch)).instrument(span).await;
        // Slots became free.
        shared.nudge.notify_one();
    }
}

/// Tries until every outcome is written: a database that is away for a while must not cost finished work. Leases are
/// renewed meanwhile, and a result that comes too late changes nothing. Only a node that stops gives up after a while.
pub(crate) async fn settle_batch(shared: &Shared, mut batch: Vec<Settlement>) {
    let mut give_up_at = None;
    reporter::write_last_lines(shared, &batch).await;
    loop {
        let results = shared.store.settle_each(shared.id, &batch).await;
        let (mut unwritten, mut trouble) = (Vec::new(), None);
        let (mut written, mut answers) = (Vec::new(), Vec::new());
        for (settlement, result) in batch.into_iter().zip(results) {
            match result {
                Ok(answer) => {
                    written.push(settlement);
                    answers.push(answer);
                }
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
        tell(shared, &written, &answers);
        for settlement in &written {
            shared.running.remove(settlement.claim);
        }
        batch = unwritten;
        let Err(error) = shared.statuses.note("settling", trouble.map_or(Ok(()), Err)) else { return };
        tracing::warn!(%error, node.id = %shared.id, jobs = batch.len(), "settling failed");
        if shared.stopping.is_cancelled() {
            let at = *give_up_at.get_or_insert_with(|| Instant::now() + SETTLE_AFTER_STOP);
            if Instant::now() >= at {
                let jobs: Vec<i64> = batch.iter().map(|settlement| settlement.claim.job.0).collect();
                tracing::error!(%error, ?jobs, "outcomes are lost with this node; these jobs will run again");
                batch.iter().for_each(|settlement| shared.running.remove(settlement.claim));
                return;
            }
        }
        tokio::time::sleep(AFTER_ERROR).await;
    }
}

/// Reports recorded results to waiters, metrics and hooks; another node reports those that came too late.
fn tell(shared: &Shared, batch: &[Settlement], answers: &[FencedWrite]) {
    let stale = answers.iter().filter(|answer| **answer == FencedWrite::Stale).count();
    if stale > 0 {
        metrics::stale(stale);
        tracing::warn!(node.id = %shared.id, stale, "results came too late: others have these jobs now");
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
