//! execute: a claim → an outcome. The handler runs in a separate task, which contains its panics.

pub(crate) mod activate;
pub(crate) mod active_jobs;
pub(crate) mod append_log;
pub(crate) mod inline;
pub(crate) mod logs;
pub(crate) mod parent_output;
pub(crate) mod prefetch;
pub(crate) mod progress;
pub(crate) mod reporter;
pub(crate) mod slots;
pub(crate) mod start;
pub(crate) mod steps;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::{Backoff, Failure, Name, Outcome, RetryPolicy, Verdict, judge};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::handler::step_recorder::Recorder;
use crate::handler::{Ctx, Erased, JobContext, JobInfo, Kind, KindOptions, Trust, TrustSource};
use crate::journey::execute::active_jobs::Why;
use crate::journey::submit::submission::submit;
use crate::node::{Client, Event, JobEvent, Shared, metrics};
use crate::secrets::{self, Resolver, UsedSecrets};
use crate::store::{Claim, ClaimRef, Settlement};
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

/// Runs a claim to its end, here or by the submitter of its route. `None`: a submitter has accepted the job.
pub(crate) async fn execute(
    shared: Arc<Shared>,
    claim: Claim,
    cancel: CancellationToken,
) -> Option<Settlement> {
    if let Some(to) = shared.routing.submitter(&claim.route) {
        return submit(&shared, to, claim, cancel).await;
    }
    let kind = shared.kinds.get(&claim.kind);
    let Some((kind, call)) = kind.and_then(|kind| Some((kind, kind.call.clone()?))) else {
        return Some(send_on(&shared, &claim).await);
    };
    Some(call_handler(&shared, kind, call, claim, cancel).await)
}

/// A job that this node does not run goes to the route of its kind. Without one, it waits until a node with a handler starts.
async fn send_on(shared: &Shared, claim: &Claim) -> Settlement {
    let known = shared.kinds.get(&claim.kind).map(|kind| kind.options.route.clone());
    let route = known.or_else(|| shared.routing.default_route(&claim.kind));
    // If this fails, the job is parked, and comes back with a heartbeat.
    if matches!(shared.loop_store.reroute(claim.reference(), route.as_ref()).await, Ok(true)) {
        return Settlement::new(claim, Outcome::Released, Verdict::Release);
    }
    if let Some(left_out) = shared.store.monitor.log.note(&"unknown kinds") {
        tracing::warn!(job.id = %claim.job, job.kind = %claim.kind, left_out, "no handler for this kind; the job is parked until a node with one starts");
    }
    Settlement::new(claim, Outcome::Released, Verdict::Park)
}

/// Calls the handler of a claim.
async fn call_handler(
    shared: &Arc<Shared>,
    kind: &Kind,
    call: Erased,
    claim: Claim,
    cancel: CancellationToken,
) -> Settlement {
    let buffer = shared.running.begin(claim.reference(), claim.kind.clone(), kind.options.when_trust_ends);
    let span = buffer.span(|| span(&claim));
    trace::go_on(&span, claim.trace.as_deref(), claim.kind.as_str());
    metrics::claimed(&claim);
    shared.hooks.tell(|| {
        let event = Event::Started { claim_no: claim.no };
        JobEvent { job: claim.job, kind: claim.kind.clone(), event }
    });
    let client = Client { shared: shared.clone() };
    let recorder = Recorder::Store(Box::new(shared.store.clone()));
    let job = JobContext {
        info: JobInfo::of(&claim),
        input: claim.input.clone(),
        cancel: cancel.clone(),
        states: shared.states.clone(),
        trust: Trust(TrustSource::Node(client.clone(), claim.reference())),
        client: Some(client),
        ctx: Ctx::new(claim.reference(), recorder, cancel, buffer),
        secrets: UsedSecrets::default(),
    };
    let begun_at = Instant::now();
    let run = Run { call, job, resolver: shared.secrets.clone(), span };
    let terms = Terms { limit: limit(kind, &claim), lease: shared.options.lease_length() };
    let outcome = run.finish(terms, || shared.running.why(claim.reference())).await;
    let ran = begun_at.elapsed();
    metrics::ran(&claim.kind, outcome.word(), ran);
    let verdict = judge(&outcome, claim.failures, &policy(&kind.options, claim.retries, claim.backoff));
    Settlement::new(&claim, outcome, verdict).with_run(ran)
}

/// The span of the handler.
pub(crate) fn span(claim: &Claim) -> tracing::Span {
    span_of(claim.reference(), &claim.kind, claim.trace.as_deref())
}

/// The span of a claim of this kind.
pub(crate) fn span_of(claim: ClaimRef, kind: &Name, trace: Option<&str>) -> tracing::Span {
    tracing::info_span!(
        target: "lineclear",
        "job",
        job.id = %claim.job,
        job.kind = %kind,
        claim.no = claim.no,
        job.trace = trace,
    )
}

/// A handler to run.
pub(crate) struct Run {
    pub(crate) call: Erased,
    pub(crate) job: JobContext,
    pub(crate) resolver: Option<Resolver>,
    pub(crate) span: tracing::Span,
}

/// How long a handler may run.
pub(crate) struct Terms {
    pub(crate) limit: Duration,
    pub(crate) lease: Duration,
}

impl Run {
    /// Runs the handler until it ends, or has to: its time is over, or it is told to stop, for the reason that `why` returns.
    pub(crate) async fn finish(self, terms: Terms, why: impl Fn() -> Option<Why>) -> Outcome {
        let Run { call, job, resolver, span } = self;
        let (cancel, buffer) = (job.cancel.clone(), job.ctx.buffer().clone());
        // Called inside the task, because decoding the input may panic, too.
        let run = async move {
            match secrets::resolve(job, resolver).await {
                Ok(job) => call(job).await,
                Err(failure) => Outcome::Failed(failure),
            }
        };
        let mut handler = tokio::spawn(run.instrument(span));
        let outcome = tokio::select! {
            // In this order: a handler that finished in time has not timed out, however late this task runs.
            biased;
            // A handler may end right after it was told to stop: the reason for stopping still decides.
            ended = &mut handler => after_stop(Some(outcome_of(ended)), why()),
            () = tokio::time::sleep(terms.limit) => {
                cancel.cancel();
                stopped(handler, HARD_STOP).await;
                Outcome::TimedOut
            }
            () = cancel.cancelled() => {
                let why = why();
                // Another node may run the job when the lease has ended, which is a tenth after the trust in it.
                let grace = if why == Some(Why::LeaseLost) { HARD_STOP.min(terms.lease / 10) } else { HARD_STOP };
                after_stop(stopped(handler, grace).await, why)
            }
        };
        match buffer.mask() {
            Some(mask) => mask.outcome(outcome),
            None => outcome,
        }
    }
}

/// The retry policy of the job and its manifest, and of the kind where those are silent.
pub(crate) fn policy(kind: &KindOptions, retries: Option<u32>, backoff: Option<Backoff>) -> RetryPolicy {
    let of_kind = kind.retry;
    let retries = retries.unwrap_or(of_kind.retries);
    backoff.map_or(RetryPolicy { retries, ..of_kind }, |backoff| backoff.policy(retries))
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
pub(crate) fn after_stop(ended: Option<Outcome>, why: Option<Why>) -> Outcome {
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

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the handler panicked".to_owned())
}
