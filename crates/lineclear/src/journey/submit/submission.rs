//! A claim whose job goes to a submitter: the call, and what follows from its answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lineclear_model::{DeadReason, Failure, Outcome, Verdict, judge};
use tokio_util::sync::CancellationToken;

use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::handler::{KindOptions, WhenTrustEnds};
use crate::journey::execute::{after_stop, policy};
use crate::journey::submit::transfer::Transfer;
use crate::node::pacer::AFTER_ERROR;
use crate::node::{Event, JobEvent, Shared, metrics};
use crate::store::{Claim, ManifestId, Settlement, Store, StoreResult};
use crate::submitters::routing::Registered;
use crate::submitters::{Accepted, Submission, SubmittedJob, Unreachable};
use crate::trace;

/// The error type of a job that was not handed over.
const UNREACHABLE: &str = "unreachable";
/// The error type of a job that a submitter can never run.
const REFUSED: &str = "refused";
/// Longest lease of an accepted job.
const LEASE_MAX: Duration = Duration::from_secs(86_400);
/// Longest name of a job in another system.
const EXTERNAL_ID_BYTES_MAX: usize = 255;
/// How long to wait for a row that another transaction has locked.
const WHILE_LOCKED: Duration = Duration::from_millis(50);
/// Keys of manifests that a node remembers.
const KEYS_MAX: usize = 10_000;

/// Keys of manifests by id, which never change.
#[derive(Default)]
pub(crate) struct ManifestKeys(Mutex<HashMap<ManifestId, String>>);

impl ManifestKeys {
    /// The keys of these manifests; read from the database where they are not known. A missing one was removed.
    pub(crate) async fn of(&self, shared: &Shared, ids: Vec<ManifestId>) -> HashMap<ManifestId, String> {
        let known = || self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut keys: HashMap<ManifestId, String> = {
            let known = known();
            ids.iter().filter_map(|id| Some((*id, known.get(id)?.clone()))).collect()
        };
        let unknown: Vec<ManifestId> = ids.into_iter().filter(|id| !keys.contains_key(id)).collect();
        if !unknown.is_empty()
            // Without its key a job runs as well.
            && let Ok(read) = shared.loop_store.manifest_keys(&unknown).await
        {
            let mut known = known();
            if known.len() + read.len() > KEYS_MAX {
                known.clear();
            }
            known.extend(read.iter().cloned());
            keys.extend(read);
        }
        keys
    }
}

impl Store {
    /// Keys of manifests by id.
    pub(crate) async fn manifest_keys(&self, ids: &[ManifestId]) -> StoreResult<Vec<(ManifestId, String)>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let read = Query::each(Statement::ManifestKeys, values![ids], |row| {
            Ok((ManifestId(row.get("id")?), row.get("key")?))
        });
        self.db.read(read).await
    }
}

/// The options of a claim's kind.
fn options(shared: &Shared, claim: &Claim) -> KindOptions {
    let known = shared.kinds.get(&claim.kind).map(|kind| kind.options.clone());
    known.unwrap_or_else(|| shared.routing.defaults.clone())
}

/// Submits a claim. `None`: the submitter has accepted the job, and holds its lease now.
pub(crate) async fn submit(
    shared: &Arc<Shared>,
    to: &Registered,
    claim: Claim,
    cancel: CancellationToken,
) -> Option<Settlement> {
    let options = options(shared, &claim);
    let limit = claim.timeout.unwrap_or(options.timeout);
    let buffer = shared.running.begin(claim.reference(), claim.kind.clone(), WhenTrustEnds::Stop);
    let span = buffer.span(|| crate::journey::execute::span(&claim));
    trace::go_on(&span, claim.trace.as_deref(), claim.kind.as_str());
    metrics::claimed(&claim);
    shared.hooks.tell(|| {
        let event = Event::Started { claim_no: claim.no };
        JobEvent { job: claim.job, kind: claim.kind.clone(), event }
    });
    let begun_at = Instant::now();
    let job = match job(shared, to, &claim, limit, &cancel).await {
        Ok(job) => job,
        // Without its token the worker could not report.
        Err(error) => {
            let why = format!("the token of the claim could not be made: {error}");
            return Some(unreachable(shared, to, &claim, Unreachable::new(why)));
        }
    };
    // In a task of its own, which contains its panics.
    let call = to.submit(job);
    let mut call = tokio::spawn(tracing::Instrument::instrument(call, span));
    let submission = tokio::select! {
        biased;
        ended = &mut call => match ended {
            // It may have answered because it was told to stop: the reason for stopping decides.
            Ok(Submission::Done(outcome)) if cancel.is_cancelled() => {
                Submission::Done(after_stop(Some(outcome), shared.running.why(claim.reference())))
            }
            Ok(submission) => submission,
            Err(_) => Submission::Unreachable(Unreachable::new("the submitter panicked")),
        },
        () = tokio::time::sleep(limit) => Submission::Done(Outcome::TimedOut),
        () = cancel.cancelled() => {
            let why = shared.running.why(claim.reference());
            Submission::Done(after_stop(None, why))
        }
    };
    call.abort();
    if !matches!(submission, Submission::Unreachable(_)) {
        to.reached();
    }
    let outcome = match submission {
        Submission::Done(outcome) => outcome,
        Submission::Accepted(accepted) => {
            hand_over(shared, to, &claim, accepted, limit, &cancel).await;
            return None;
        }
        Submission::Refused(why) => {
            let failure = Failure::new(REFUSED, why).permanent();
            let verdict = Verdict::Bury { reason: DeadReason::Permanent };
            return Some(Settlement::new(&claim, Outcome::DeadLetter(failure), verdict));
        }
        Submission::Unreachable(why) => return Some(unreachable(shared, to, &claim, why)),
    };
    metrics::ran(&claim.kind, outcome.word(), begun_at.elapsed());
    let verdict = judge(&outcome, claim.failures, &policy(&options, claim.retries, claim.backoff));
    Some(Settlement::new(&claim, outcome, verdict))
}

/// The job was not handed over: it goes back to the queue, and spends no retry.
fn unreachable(shared: &Shared, to: &Registered, claim: &Claim, unreachable: Unreachable) -> Settlement {
    let Unreachable { why, retry_in } = unreachable;
    let after = retry_in.unwrap_or_else(|| to.pause());
    if let Some(left_out) = shared.store.monitor.log.note(&"unreachable submitters") {
        tracing::warn!(submitter = %to.name, job.id = %claim.job, %why, left_out, "a job could not be handed over; it is submitted again");
    }
    let settlement = Settlement::new(claim, Outcome::Released, Verdict::Snooze { after });
    settlement.with_note(Failure::new(UNREACHABLE, why))
}

/// The job as the submitter gets it.
async fn job(
    shared: &Arc<Shared>,
    to: &Registered,
    claim: &Claim,
    limit: Duration,
    cancel: &CancellationToken,
) -> StoreResult<SubmittedJob> {
    let keys = shared.manifest_keys.of(shared, claim.manifest.into_iter().collect()).await;
    let lease = shared.options.lease;
    let holder = to.holder.get().copied().unwrap_or(shared.id);
    // The job ends with its time, however long an accepted lease is. A worker that reports a little later learns that the claim is stale.
    let token =
        shared.claim_tokens.issue(shared, claim.reference(), [shared.id, holder], limit + lease).await?;
    Ok(SubmittedJob {
        id: claim.job,
        kind: claim.kind.clone(),
        input: claim.input.clone(),
        claim_no: claim.no,
        attempt: claim.failures + 1,
        manifest: claim.manifest.and_then(|id| keys.get(&id).cloned()),
        tick_at: claim.tick_at,
        trace: claim.trace.clone(),
        timeout: limit,
        lease,
        token: Some(token),
        cancel: cancel.clone(),
    })
}

/// The submitter has the job: its lease goes from the node to the submitter. If that is not possible until the node may no longer
/// trust the lease, the lease runs out, unless the submitter reports before.
async fn hand_over(
    shared: &Arc<Shared>,
    to: &Registered,
    claim: &Claim,
    accepted: Accepted,
    limit: Duration,
    cancel: &CancellationToken,
) {
    let external_id =
        accepted.external_id.map(|id| id.chars().filter(|c| !c.is_control()).collect::<String>());
    let external_id = external_id.map(|id| id[..id.floor_char_boundary(EXTERNAL_ID_BYTES_MAX)].to_owned());
    let transfer = Transfer {
        claim: claim.reference(),
        holder: to.holder.get().copied().unwrap_or(shared.id),
        lease: accepted.lease.unwrap_or(shared.options.lease).clamp(Duration::from_secs(1), LEASE_MAX),
        external_id,
    };
    // The node renews the lease until it is transferred.
    loop {
        let pause = match shared.loop_store.hand_over(shared.id, &transfer, limit).await {
            Ok(true) => return,
            // Another transaction has its row.
            Ok(false) => WHILE_LOCKED,
            Err(error) => {
                shared.warn_folded("the lease of an accepted job is not handed over yet", &error);
                AFTER_ERROR
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
