//! Asks the server for jobs, and starts their handlers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear::store::ClaimRef;
use lineclear_model::{Failure, Name, Outcome};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::error::WorkerError;
use crate::pull::backoff::Backoff;
use crate::pull::renewer::renew;
use crate::pull::session::{Session, WorkerInfo};
use crate::pull::settler::Ended;
use crate::pull::steps::RemoteSteps;
use crate::wire::ClaimId;
use crate::wire::api::CallError;
use crate::wire::job::{HandedJob, trusted_until};

/// The shortest and longest wait for jobs. In between, a third of a lease: a lease counts from the request on, because the worker
/// does not know when it began.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(25);
/// The longest pause between requests that fail.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Claims that a request names.
const HELD_MAX: usize = 1_000;

#[derive(Serialize)]
struct Poll<'a> {
    worker: &'a WorkerInfo,
    kinds: &'a [Name],
    slots: u32,
    wait_ms: u64,
    resume: bool,
    held: Vec<ClaimId>,
}

#[derive(Deserialize)]
struct Polled {
    worker: PolledWorker,
    claims: Vec<HandedJob>,
}

#[derive(Deserialize)]
struct PolledWorker {
    /// Servers of earlier releases do not say it.
    #[serde(default)]
    drain: bool,
}

pub(crate) struct Poller {
    session: Arc<Session>,
    ended: mpsc::Sender<Ended>,
    /// A response was lost. Until then, the server may have given jobs to this worker that it does not know of.
    resume_until: Option<Instant>,
    /// A request waits for its response.
    is_asking: bool,
}

impl Poller {
    pub(crate) fn new(session: Arc<Session>, ended: mpsc::Sender<Ended>) -> Poller {
        Poller { session, ended, resume_until: None, is_asking: false }
    }

    /// Polls until the server refuses this worker.
    pub(crate) async fn poll(&mut self) -> WorkerError {
        let mut backoff = Backoff::up_to(PAUSE_MAX);
        let session = self.session.clone();
        loop {
            // The sender lives as long as the session, so waiting cannot fail.
            drop(session.drains.subscribe().wait_for(|drains| !drains).await);
            let free = session.active.until_free(session.slots).await;
            let (asked_at, wait) = (Instant::now(), (session.lease() / 3).clamp(WAIT_MIN, WAIT_MAX));
            match self.ask(free, wait).await {
                Ok(claims) => {
                    backoff.reset();
                    self.start_all(claims, asked_at).await;
                }
                Err(CallError::Refused { status, code, detail, .. }) => {
                    return WorkerError::Refused { status, code, detail };
                }
                Err(error @ CallError::Unreachable { retry_after, .. }) => {
                    session.warn("cannot ask for jobs; trying again", &error);
                    self.answer_lost(wait);
                    tokio::time::sleep(backoff.next().max(retry_after.unwrap_or_default())).await;
                }
            }
        }
    }

    /// The server may still work on the request, and give it jobs.
    fn answer_lost(&mut self, wait: Duration) {
        self.resume_until = Some(Instant::now() + wait + self.session.lease());
    }

    async fn ask(&mut self, slots: u32, wait: Duration) -> Result<Vec<HandedJob>, CallError> {
        let session = &self.session;
        let resume = self.resume_until.is_some_and(|until| Instant::now() < until);
        let mut held = if resume { session.active.references() } else { Vec::new() };
        held.truncate(HELD_MAX);
        let poll = Poll {
            worker: &session.worker,
            kinds: &session.kinds,
            slots,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or_default(),
            resume,
            held: held.into_iter().map(ClaimId::from).collect(),
        };
        self.is_asking = true;
        let polled: Result<Polled, CallError> =
            session.api.post("/claims", &poll, wait + session.call_timeout()).await;
        self.is_asking = false;
        let polled = polled?;
        session.set_drains(polled.worker.drain);
        Ok(polled.claims)
    }

    /// Starts jobs that the server gave in response to a request that was sent at `asked_at`.
    async fn start_all(&mut self, claims: Vec<HandedJob>, asked_at: Instant) {
        let Some(lease) = claims.first().map(HandedJob::lease) else { return };
        self.session.set_lease(lease);
        // After a long wait, the lease counts from its renewal.
        let left = trusted_until(asked_at, lease).saturating_duration_since(Instant::now());
        if left > lease / 2 {
            claims.into_iter().for_each(|claim| self.start(claim, asked_at));
            return;
        }
        let (references, renewed_at): (Vec<ClaimRef>, _) =
            (claims.iter().filter_map(HandedJob::reference).collect(), Instant::now());
        let Ok(renewals) =
            renew(&self.session, &self.session.api, &references, self.session.call_timeout()).await
        else {
            // The next request returns them again.
            self.answer_lost(Duration::ZERO);
            return;
        };
        for claim in claims {
            let renewal = renewals.iter().find(|renewal| Some(renewal.claim) == claim.reference());
            match renewal.and_then(|renewal| Some((renewal.is_ours?, renewal.cancel))) {
                Some((true, false)) => self.start(claim, renewed_at),
                Some((true, true)) => self.end_unstarted(&claim, Outcome::Cancelled),
                Some((false, _)) => {}
                None => self.answer_lost(Duration::ZERO),
            }
        }
    }

    fn start(&self, handed: HandedJob, leased_at: Instant) {
        let session = &self.session;
        let job = match handed.read(leased_at) {
            Ok(job) => job,
            Err(why) => {
                let failure = Failure::new("input", format!("the worker cannot read the job: {why}"));
                return self.end_unstarted(&handed, Outcome::Failed(failure.permanent()));
            }
        };
        let steps = RemoteSteps { api: session.api.clone(), worker: session.worker.id.clone() };
        let Some((run, handler)) = session.registry.run(job, Arc::new(steps)) else {
            return self.end_unstarted(&handed, Outcome::Released);
        };
        let claim = run.claim();
        if !session.active.add(run) {
            return;
        }
        let (session, ended) = (session.clone(), self.ended.clone());
        tokio::spawn(async move {
            let outcome = handler.await;
            session.active.end(claim);
            // The settler outlives all handlers.
            drop(ended.send(Ended::now(claim, outcome)).await);
        });
    }

    /// Settles a job whose handler does not start.
    fn end_unstarted(&self, handed: &HandedJob, outcome: Outcome) {
        let Some(claim) = handed.reference() else {
            tracing::error!(job.id = handed.job.id, "the server sent a job whose id is no number");
            return;
        };
        let ended = self.ended.clone();
        tokio::spawn(async move { drop(ended.send(Ended::now(claim, outcome)).await) });
    }

    /// The worker stops: gives back jobs that the server gave in response to a request that was given up.
    pub(crate) async fn release_lost(&mut self) {
        if !self.is_asking && self.resume_until.is_none() {
            return;
        }
        self.answer_lost(Duration::ZERO);
        match self.ask(1, Duration::ZERO).await {
            Ok(claims) => claims.iter().for_each(|claim| self.end_unstarted(claim, Outcome::Released)),
            // Leaving the server gives them back, too.
            Err(error) => self.session.warn("cannot ask for jobs that are to be given back", &error),
        }
    }
}
