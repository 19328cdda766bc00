//! execute: a claim → an outcome. The handler runs in a separate task, which contains its panics.

pub(crate) mod activate;
pub(crate) mod active_jobs;
pub(crate) mod logs;
pub(crate) mod parent_output;
pub(crate) mod progress;
pub(crate) mod reporter;
pub(crate) mod start;
pub(crate) mod steps;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::{Failure, Outcome, RetryPolicy, Verdict, judge};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::handler::{Ctx, JobContext, JobInfo, Kind};
use crate::journey::execute::active_jobs::Why;
use crate::node::{Client, Event, JobEvent, Shared, metrics};
use crate::secrets::{self, UsedSecrets};
use crate::store::{Claim, Settlement};
use crate::trace;

/// How long a handler that was told to stop may take before it is dropped.
const HARD_STOP: Duration = Duration::from_secs(5);

/// How long after its start a job is reclaimed even from a worker that renews its lease. The timeout should have ended it long
/// before; if it did not, all threads of the node are blocked.
pub(crate) fn deadline(shared: &Shared, claim: &Claim) -> Option<Duration> {
    let kind = shared.kinds.get(&claim.kind)?;
    Some(limit(kind, claim).saturating_add(HARD_STOP).saturating_add(shared.options.lease))
}

/// How long the handler may run.
fn limit(kind: &Kind, claim: &Claim) -> Duration {
    claim.timeout.unwrap_or(kind.options.timeout)
}

/// Runs a claim to its end.
pub(crate) async fn execute(shared: Arc<Shared>, claim: Claim, cancel: CancellationToken) -> Settlement {
    let Some(kind) = shared.kinds.get(&claim.kind) else {
        if let Some(left_out) = shared.store.monitor.log.note(&"unknown kinds") {
            tracing::warn!(job.id = %claim.job, job.kind = %claim.kind, left_out, "no handler for this kind; the job is parked until a node with one starts");
        }
        return Settlement::new(&claim, Outcome::Released, Verdict::Park);
    };
    let buffer = shared.running.begin(claim.reference(), claim.kind.clone(), kind.options.when_trust_ends);
    let span = buffer.span(|| span(&claim));
    trace::go_on(&span, claim.trace.as_deref(), claim.kind.as_str());
    metrics::claimed(&claim);
    shared.hooks.tell(|| {
        let event = Event::Started { claim_no: claim.no };
        JobEvent { job: claim.job, kind: claim.kind.clone(), event }
    });
    let job = JobContext {
        info: JobInfo::of(&claim),
        input: claim.input.clone(),
        cancel: cancel.clone(),
        states: shared.states.clone(),
        client: Client { shared: shared.clone() },
        ctx: Ctx::new(claim.reference(), shared.store.clone(), cancel.clone(), buffer.clone()),
        secrets: UsedSecrets::default(),
    };
    let begun_at = Instant::now();
    // Called inside the task, because decoding the input may panic, too.
    let (call, resolver) = (kind.call.clone(), shared.secrets.clone());
    let run = async move {
        match secrets::resolve(job, resolver).await {
            Ok(job) => call(job).await,
            Err(failure) => Outcome::Failed(failure),
        }
    };
    let mut handler = tokio::spawn(run.instrument(span));
    let limit = limit(kind, &claim);
    let outcome = tokio::select! {
        // In this order: a handler that finished in time has not timed out, however late this task runs.
        biased;
        // A handler may end right after it was told to stop: the reason for stopping still decides.
        ended = &mut handler => after_stop(Some(outcome_of(ended)), shared.running.why(claim.reference())),
        () = tokio::time::sleep(limit) => {
            cancel.cancel();
            stopped(handler, HARD_STOP).await;
            Outcome::TimedOut
        }
        () = cancel.cancelled() => {
            let why = shared.running.why(claim.reference());
            // Another node may run the job when the lease has ended, which is a tenth after the trust in it.
            let grace = if why == Some(Why::LeaseLost) { HARD_STOP.min(shared.options.lease_length() / 10) } else { HARD_STOP };
            after_stop(stopped(handler, grace).await, why)
        }
    };
    let outcome = match buffer.mask() {
        Some(mask) => mask.outcome(outcome),
        None => outcome,
    };
    metrics::ran(&claim.kind, outcome.word(), begun_at.elapsed());
    let verdict = judge(&outcome, claim.failures, &policy(kind, &claim));
    Settlement::new(&claim, outcome, verdict)
}

/// The span of the handler.
fn span(claim: &Claim) -> tracing::Span {
    tracing::info_span!(
        target: "lineclear",
        "job",
        job.id = %claim.job,
        job.kind = %claim.kind,
        claim.no = claim.no,
        job.trace = claim.trace,
    )
}

/// The retry policy of the job and its manifest, and of the kind where those are silent.
fn policy(kind: &Kind, claim: &Claim) -> RetryPolicy {
    let of_kind = kind.options.retry;
    let retries = claim.retries.unwrap_or(of_kind.retries);
    claim.backoff.map_or(RetryPolicy { retries, ..of_kind }, |backoff| backoff.policy(retries))
}

/// Waits a limited time for a handler that was told to stop, then aborts it.
async fn stopped(mut handler: JoinHandle<Outcome>, grace: Duration) -> Option<Outcome> {
    match tokio::time::timeout(grace, &mut handler).await {
        Ok(ended) => Some(outcome_of(ended)),
        Err(_) => {
            handler.abort();
            None
        }
    }
}

/// The outcome: completed work counts; otherwise, if the handler was told to stop, the reason decides.
fn after_stop(ended: Option<Outcome>, why: Option<Why>) -> Outcome {
    match (ended, why) {
        (Some(done @ Outcome::Completed { .. }), _) => done,
        // The job is released without a failure; if another claim has it by now, this changes nothing.
        (_, Some(Why::LeaseLost | Why::Shutdown)) => Outcome::Released,
        (_, Some(Why::Cancelled)) => Outcome::Cancelled,
        (Some(outcome), None) => outcome,
        (None, None) => Outcome::Released,
    }
}

fn outcome_of(ended: Result<Outcome, tokio::task::JoinError>) -> Outcome {
    ended.unwrap_or_else(|error| {
        match error.try_into_panic() {
            Ok(panic) => Outcome::Failed(Failure::new("panic", panic_message(&*panic))),
            // The runtime is shutting down: not a failure of the job.
            Err(_) => Outcome::Released,
        }
    })
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the handler panicked".to_owned())
}
