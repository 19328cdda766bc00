//! Sends results to the server, in batches: whatever has ended when the call before returns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear::store::ClaimRef;
use lineclear_model::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;

use crate::pull::backoff::Backoff;
use crate::pull::reporter::send_logs;
use crate::pull::session::Session;
use crate::pull::skipped::send_again;
use crate::wire::api::CallError;
use crate::wire::outcome::EndOfClaim;
use crate::wire::{ClaimResult, RECORDED, SKIPPED, STALE};

/// Results in one call.
const BATCH_MAX: usize = 500;
/// Bytes of results in one call: half of what the server accepts.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The longest pause between calls that fail.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A claim whose handler has ended, or does not start.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    claim: ClaimRef,
    outcome: Outcome,
    at: Instant,
}

impl Ended {
    pub(crate) fn now(claim: ClaimRef, outcome: Outcome) -> Ended {
        Ended { claim, outcome, at: Instant::now() }
    }
}

#[derive(Serialize)]
struct Settle<'a> {
    worker: &'a str,
    claims: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Settled {
    claims: Vec<ClaimResult>,
}

/// A result to send.
pub(super) struct Unsettled {
    ended: Ended,
    json: Box<RawValue>,
}

impl Unsettled {
    pub(super) fn claim(&self) -> ClaimRef {
        self.ended.claim
    }
}

/// What is to be done with a result after the server has answered.
enum Next {
    Nothing,
    /// Another result is to be sent instead.
    Send(Unsettled),
    /// The row of its job is locked.
    SendLater(Unsettled),
}

/// Sends results until no handler is left that could end.
pub(crate) async fn settle(session: Arc<Session>, ended: mpsc::Receiver<Ended>) {
    let (sender, skipped) = mpsc::unbounded_channel();
    tokio::join!(send(session.clone(), ended, sender), send_again(session, skipped));
}

async fn send(
    session: Arc<Session>,
    mut ended: mpsc::Receiver<Ended>,
    skipped: mpsc::UnboundedSender<Unsettled>,
) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while ended.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let runs: Vec<_> = batch.iter().filter_map(|ended| session.active.run(ended.claim)).collect();
        // A log that cannot be sent does not hold up the result.
        if let Err(error) = send_logs(&session, &runs).await {
            session.warn("the last log lines of jobs are lost", &error);
        }
        let unsettled = batch.drain(..).filter_map(|ended| unsettled(&session, ended)).collect();
        for one in send_all(&session, unsettled).await {
            // The receiver ends after the sender.
            drop(skipped.send(one));
        }
    }
}

/// Sends results until the server has them, or will have them too late; returns those that it skipped.
pub(super) async fn send_all(session: &Session, batch: Vec<Unsettled>) -> Vec<Unsettled> {
    let (mut unsettled, mut skipped) = (VecDeque::from(batch), Vec::new());
    let (mut backoff, mut most) = (Backoff::up_to(PAUSE_MAX), BATCH_MAX);
    while !unsettled.is_empty() {
        let part = next_part(&mut unsettled, most);
        let claims = part.iter().map(|one| &*one.json).collect();
        let body = Settle { worker: &session.worker.id, claims };
        let answer = session.api.post("/claims/settle", &body, session.call_timeout()).await;
        match results(answer) {
            Ok(results) if results.len() == part.len() => {
                backoff.reset();
                for (one, result) in part.into_iter().zip(results) {
                    match note(session, one, result) {
                        Next::Nothing => {}
                        Next::Send(instead) => unsettled.push_back(instead),
                        Next::SendLater(one) => skipped.push(one),
                    }
                }
            }
            // One result may be the reason why all are refused.
            Err(CallError::Refused { status: 400 | 413 | 422, .. }) if part.len() > 1 => {
                most = 1;
                unsettled.extend(part);
            }
            Err(CallError::Refused { status: 400 | 413 | 422, detail, .. }) => {
                let refused = ClaimResult { status: "refused".to_owned(), detail: Some(detail) };
                for one in part {
                    if let Next::Send(instead) = note(session, one, refused.clone()) {
                        unsettled.push_back(instead);
                    }
                }
            }
            Ok(_) => {
                unsettled.extend(part);
                tokio::time::sleep(backoff.next()).await;
            }
            Err(error) => {
                session.warn("cannot send results; trying again", &error);
                unsettled.extend(part);
                tokio::time::sleep(backoff.next()).await;
            }
        }
        unsettled.retain(|one| is_in_time(session, one));
    }
    skipped
}

/// None: nothing is sent, because the job is another worker's.
fn unsettled(session: &Session, ended: Ended) -> Option<Unsettled> {
    if session.active.is_stale(ended.claim) {
        session.active.remove(ended.claim);
        return None;
    }
    let object = EndOfClaim::new(ended.claim, ended.outcome.clone());
    // Strings, numbers, and an output that is JSON.
    let json = to_raw_value(&object).ok()?;
    Some(Unsettled { ended, json })
}

/// The next results, within the limits of a call.
fn next_part(unsettled: &mut VecDeque<Unsettled>, most: usize) -> Vec<Unsettled> {
    let (mut part, mut bytes) = (Vec::new(), 0);
    while let Some(one) = unsettled.pop_front() {
        bytes += one.json.get().len();
        if !part.is_empty() && (part.len() >= most || bytes > BATCH_BYTES_MAX) {
            unsettled.push_front(one);
            break;
        }
        part.push(one);
    }
    part
}

/// If all of them are stale, the response is a refusal that has the same list.
fn results(answer: Result<Settled, CallError>) -> Result<Vec<ClaimResult>, CallError> {
    match answer {
        Ok(settled) => Ok(settled.claims),
        Err(CallError::Refused { code, body, .. }) if code == STALE => {
            let settled: Result<Settled, _> = serde_json::from_slice(&body);
            let unreadable = |error: serde_json::Error| CallError::Unreachable {
                why: error.to_string(),
                retry_after: None,
            };
            settled.map(|settled| settled.claims).map_err(unreadable)
        }
        Err(error) => Err(error),
    }
}

/// Notes what the server did with a result.
fn note(session: &Session, mut one: Unsettled, result: ClaimResult) -> Next {
    if result.status == SKIPPED {
        // The server has just seen that the claim is ours.
        one.ended.at = Instant::now();
        return Next::SendLater(one);
    }
    let Ended { claim, outcome, .. } = &one.ended;
    match result.status.as_str() {
        RECORDED => {}
        STALE => {
            tracing::warn!(job.id = %claim.job, claim.no = claim.no, "the result came too late: another worker has the job now");
        }
        _ => {
            let detail = result.detail.unwrap_or(result.status);
            tracing::error!(job.id = %claim.job, claim.no = claim.no, detail, "the server refuses this result");
            if outcome.failure().is_none_or(|failure| failure.error_type != "refused") {
                let failure = Failure::new("refused", format!("the server refuses the result: {detail}"));
                let instead = unsettled(session, Ended::now(*claim, Outcome::Failed(failure.permanent())));
                return instead.map_or(Next::Nothing, Next::Send);
            }
        }
    }
    session.active.remove(*claim);
    Next::Nothing
}

/// Whether the lease may still be ours. Afterwards another worker has the job, or will soon.
fn is_in_time(session: &Session, one: &Unsettled) -> bool {
    let claim = one.ended.claim;
    let trusted_until = session.active.run(claim).map_or(one.ended.at, |run| run.trusted_until());
    // A lease cannot be renewed while the row is locked; the server that skipped the result knew the claim.
    let trusted_until = trusted_until.max(one.ended.at);
    let is_in_time = !session.active.is_stale(claim) && Instant::now() < trusted_until + session.lease();
    if !is_in_time {
        give_up(session, claim);
    }
    is_in_time
}

pub(super) fn give_up(session: &Session, claim: ClaimRef) {
    tracing::error!(job.id = %claim.job, claim.no = claim.no, "the server did not get the result in time; the job will run again");
    session.active.remove(claim);
}
