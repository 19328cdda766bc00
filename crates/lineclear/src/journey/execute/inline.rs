//! Handlers that run inside the call that enqueues their job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::explain::GateName;
use lineclear_model::job::ExecutionOutcome;
use lineclear_model::{Failure, JobState, Outcome, Payload};

use crate::journey::claim::renewer::lease;
use crate::journey::execute::start::Unsettled;
use crate::journey::execute::{deadline, execute};
use crate::journey::settle::settler::settle_one;
use crate::node::Shared;
use crate::read::ExecutionView;
use crate::store::{Claim, Dispatch, JobId, Lease, StoreResult};
use crate::submitters::routing::{Destination, inline_route};

/// How often a caller looks at a job that another caller or a node has.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Jobs that a call brings back into the queue at most.
const CATCH_UP_MAX: u32 = 100;
/// So many leases after its end a lease is surely that of a dead node: a live one has renewed it, however slow the database was.
const RECLAIM_PATIENCE: u32 = 3;
/// How long a caller waits for a job that should run, while others have its row locked.
const LOCKED_MAX: Duration = Duration::from_secs(5);

/// Runs jobs of the inline route until `job` has run; returns its outcome. `None`: a limit or a pause holds it, it is due later, or its
/// row stays locked. If the caller goes away meanwhile, what has begun is still run and settled.
pub(crate) async fn run_inline(shared: &Arc<Shared>, job: JobId) -> StoreResult<Option<Outcome>> {
    // A task of its own: a future that is dropped between lease and settlement would leave the job leased.
    tokio::spawn(run_to_its_end(shared.clone(), job)).await.unwrap_or(Ok(None))
}

/// Where nothing runs in the background, runs all jobs that wait: those that were just queued by a trigger, say, or by another job.
pub(crate) async fn run_what_waits(shared: &Arc<Shared>) -> StoreResult<()> {
    if !shared.routing.is_inline {
        return Ok(());
    }
    let shared = shared.clone();
    tokio::spawn(async move { run_waiting(&shared, None).await.map(drop) }).await.unwrap_or(Ok(()))
}

async fn run_to_its_end(shared: Arc<Shared>, job: JobId) -> StoreResult<Option<Outcome>> {
    let shared = &shared;
    let begun = Instant::now();
    loop {
        if let Some(outcome) = run_waiting(shared, Some(job)).await? {
            return Ok(outcome);
        }
        // Another caller, or a node in the background, may have it.
        let Some(detail) = shared.store.job(job).await? else { return Ok(None) };
        let goes_on = match detail.job.state {
            JobState::Running | JobState::Ready => true,
            // Another dispatch may have its row locked: that one runs it, or gives it back.
            JobState::Queued => begun.elapsed() < LOCKED_MAX && !is_held_back(shared, job).await?,
            _ => false,
        };
        if !goes_on {
            return Ok(detail.executions.last().and_then(recorded));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Runs jobs of the inline route until none is left, or `job` has run: then returns its outcome. Where nothing runs in the background, the
/// dependents of a job run after it.
async fn run_waiting(shared: &Arc<Shared>, job: Option<JobId>) -> StoreResult<Option<Option<Outcome>>> {
    if shared.routing.is_inline {
        // No loop does it: retries and jobs that are due meanwhile, and those of callers that crashed, run here, too.
        shared.store.promote(CATCH_UP_MAX).await?;
        let patience = shared.options.lease_length() * RECLAIM_PATIENCE;
        shared.store.reclaim_ended_ago(CATCH_UP_MAX, shared.options.crash_budget, patience).await?;
    }
    let (mut ours, mut after) = (None, 0);
    while after < CATCH_UP_MAX {
        let (lease, asked_at) = (lease_of(shared), Instant::now());
        let dispatch = Dispatch { limits: shared.options.limits, ..Dispatch::new(inline_route(), 1) };
        let claims = shared.store.dispatch_into_lease(dispatch, lease).await?;
        let Some(claim) = claims.into_iter().next() else { break };
        let is_ours = Some(claim.job) == job;
        let outcome = run(shared, claim, lease, asked_at).await;
        if is_ours {
            ours = Some(outcome);
        }
        // However many others queue meanwhile, this caller returns.
        if ours.is_some() || job.is_none() {
            if !shared.routing.is_inline {
                break;
            }
            after += 1;
        }
    }
    Ok(ours)
}

/// Whether a gate is closed that keeps a queued job from its handler.
async fn is_held_back(shared: &Arc<Shared>, job: JobId) -> StoreResult<bool> {
    let Some(explanation) = shared.store.explain_job(job).await? else { return Ok(false) };
    // Callers that run jobs are no nodes.
    let is_about_workers = |name| matches!(name, GateName::Node | GateName::Submitter | GateName::Taken);
    Ok(explanation.gates.iter().any(|gate| gate.open == Some(false) && !is_about_workers(gate.name)))
}

/// The outcome that was recorded; none if the handler has not run.
fn recorded(execution: &ExecutionView) -> Option<Outcome> {
    let failure = || {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Failure::new(text(&execution.error_type), text(&execution.error_message))
    };
    match execution.outcome {
        ExecutionOutcome::Completed => {
            let output = execution.output.as_deref().and_then(|output| Payload::parse(output).ok());
            Some(Outcome::Completed { output })
        }
        ExecutionOutcome::Failed => Some(Outcome::Failed(failure())),
        ExecutionOutcome::TimedOut => Some(Outcome::TimedOut),
        ExecutionOutcome::Cancelled => Some(Outcome::Cancelled),
        _ => None,
    }
}

/// Without loops nothing is renewed: the lease lasts as long as a handler may take.
fn lease_of(shared: &Shared) -> Lease {
    let lease = lease(shared);
    if !shared.routing.is_inline {
        return lease;
    }
    let inline = shared.kinds.values().filter(|kind| kind.destination == Destination::Inline);
    let longest = inline.map(|kind| kind.options.timeout).max().unwrap_or_default();
    Lease { length: lease.length.saturating_add(longest), ..lease }
}

async fn run(shared: &Arc<Shared>, claim: Claim, lease: Lease, asked_at: Instant) -> Option<Outcome> {
    let deadline = deadline(shared, &claim);
    let trusted_until = asked_at + lease.length - lease.length / 10;
    let cancel = shared.running.add(claim.reference(), trusted_until, deadline, None);
    let mut guard = Unsettled { shared, claim: claim.reference(), handed_over: false };
    let settlement = execute(shared.clone(), claim, cancel).await?;
    let outcome = settlement.outcome.clone();
    guard.handed_over = true;
    settle_one(shared, settlement).await;
    Some(outcome)
}
