//! The jobs that a node runs now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lineclear_model::Name;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::handler::{ProgressBuffer, WhenTrustEnds};
use crate::journey::claim::isolation::RunPermit;
use crate::node::metrics;
use crate::store::{ClaimRef, JobId, Renewing, Settlement};

/// Why a handler is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The job was cancelled.
    Cancelled,
    /// Its lease is lost, or can no longer be trusted.
    LeaseLost,
    /// The node shuts down.
    Shutdown,
}

struct Job {
    cancel: CancellationToken,
    why: Option<Why>,
    /// Until then the node surely has the lease, by its own clock.
    trusted_until: Instant,
    /// Its kind keeps running beyond that.
    goes_on: bool,
    kind: Option<Name>,
    buffer: Arc<ProgressBuffer>,
    /// How long after its start renewal no longer protects it.
    deadline: Option<Duration>,
    /// The submitter that has it; none: it runs here.
    submitter: Option<Name>,
    /// When its handler began.
    begun_at: Option<Instant>,
    /// Its handler has ended; so many bytes are to be written.
    unsettled: Option<usize>,
    /// Kept until they are.
    permit: Option<RunPermit>,
}

impl Job {
    fn runs_here(&self) -> bool {
        self.begun_at.is_some() && self.unsettled.is_none() && self.submitter.is_none()
    }
}

/// Jobs whose handlers have ended, and whose outcomes are not written yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsettled {
    pub(crate) count: u32,
    pub(crate) bytes: usize,
}

/// The active jobs of a node, by claim. Shared with the thread that renews leases, so its lock is never held across an await.
pub(crate) struct ActiveJobs {
    jobs: Mutex<HashMap<ClaimRef, Job>>,
    count: watch::Sender<usize>,
}

impl ActiveJobs {
    pub(crate) fn new() -> ActiveJobs {
        ActiveJobs { jobs: Mutex::default(), count: watch::Sender::new(0) }
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, HashMap<ClaimRef, Job>> {
        self.jobs.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a claim, until it is settled.
    pub(crate) fn add(
        &self,
        claim: ClaimRef,
        trusted_until: Instant,
        deadline: Option<Duration>,
        submitter: Option<Name>,
    ) -> CancellationToken {
        let cancel = CancellationToken::new();
        let buffer = Arc::default();
        let job = Job {
            cancel: cancel.clone(),
            why: None,
            trusted_until,
            goes_on: false,
            kind: None,
            buffer,
            deadline,
            submitter,
            begun_at: None,
            unsettled: None,
            permit: None,
        };
        let mut jobs = self.jobs();
        jobs.insert(claim, job);
        self.count.send_replace(jobs.len());
        cancel
    }

    /// Its handler starts; returns the buffer of its progress and log.
    pub(crate) fn begin(
        &self,
        claim: ClaimRef,
        kind: Name,
        when_trust_ends: WhenTrustEnds,
    ) -> Arc<ProgressBuffer> {
        let mut jobs = self.jobs();
        let Some(job) = jobs.get_mut(&claim) else { return Arc::default() };
        job.kind = Some(kind);
        if job.begun_at.replace(Instant::now()).is_none() {
            metrics::slot_taken();
        }
        job.goes_on = when_trust_ends == WhenTrustEnds::GoOn;
        job.buffer.clone()
    }

    /// Its handler has ended: the settlement is to be written. Until then it keeps its permit.
    pub(crate) fn ended(&self, settlement: &Settlement, permit: Option<RunPermit>) {
        let mut jobs = self.jobs();
        let Some(job) = jobs.get_mut(&settlement.claim) else { return };
        job.permit = permit;
        if job.unsettled.replace(settlement.bytes()).is_none() && job.begun_at.is_some() {
            metrics::slot_free();
        }
    }

    /// Its outcome cannot be written for now: others need not wait for it.
    pub(crate) fn drop_permit(&self, claim: ClaimRef) {
        let permit = self.jobs().get_mut(&claim).and_then(|job| job.permit.take());
        drop(permit);
    }

    /// What is to be written of jobs that ran here.
    pub(crate) fn unsettled(&self) -> Unsettled {
        let jobs = self.jobs();
        let bytes = jobs.values().filter(|job| job.submitter.is_none()).filter_map(|job| job.unsettled);
        bytes.fold(Unsettled::default(), |sum, bytes| Unsettled {
            count: sum.count + 1,
            bytes: sum.bytes + bytes,
        })
    }

    pub(crate) fn kind(&self, claim: ClaimRef) -> Option<Name> {
        self.jobs().get(&claim).and_then(|job| job.kind.clone())
    }

    /// The buffers of these claims.
    pub(crate) fn buffers_of(
        &self,
        claims: impl Iterator<Item = ClaimRef>,
    ) -> Vec<(ClaimRef, Arc<ProgressBuffer>)> {
        let jobs = self.jobs();
        claims.filter_map(|claim| Some((claim, jobs.get(&claim)?.buffer.clone()))).collect()
    }

    /// The buffers of all claims.
    pub(crate) fn buffers(&self) -> Vec<(ClaimRef, Arc<ProgressBuffer>)> {
        self.jobs().iter().map(|(claim, job)| (*claim, job.buffer.clone())).collect()
    }

    pub(crate) fn remove(&self, claim: ClaimRef) {
        let mut jobs = self.jobs();
        if jobs.remove(&claim).is_some_and(|job| job.begun_at.is_some() && job.unsettled.is_none()) {
            metrics::slot_free();
        }
        self.count.send_replace(jobs.len());
    }

    pub(crate) fn count(&self) -> usize {
        self.jobs().len()
    }

    /// Jobs that run: not those that are leased ahead, and not those whose outcome is to be written.
    pub(crate) fn count_running(&self) -> usize {
        self.jobs().values().filter(|job| job.submitter.is_some() || job.runs_here()).count()
    }

    /// Jobs whose handlers run here.
    pub(crate) fn count_here(&self) -> u32 {
        let here = self.jobs().values().filter(|job| job.runs_here()).count();
        u32::try_from(here).unwrap_or(u32::MAX)
    }

    /// Jobs that a submitter has.
    pub(crate) fn count_of(&self, submitter: &Name) -> u32 {
        let count = self.jobs().values().filter(|job| job.submitter.as_ref() == Some(submitter)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(crate) fn job_ids(&self) -> Vec<JobId> {
        self.jobs().keys().map(|claim| claim.job).collect()
    }

    pub(crate) fn claims(&self) -> Vec<ClaimRef> {
        self.jobs().keys().copied().collect()
    }

    pub(crate) fn to_renew(&self) -> Vec<Renewing> {
        let renewing = |(claim, job): (&ClaimRef, &Job)| Renewing {
            claim: *claim,
            deadline: job.deadline,
            ran: job.begun_at.map(|begun_at| begun_at.elapsed()),
        };
        self.jobs().iter().map(renewing).collect()
    }

    pub(crate) async fn until_empty(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        drop(self.count.subscribe().wait_for(|count| *count == 0).await);
    }

    pub(crate) fn why(&self, claim: ClaimRef) -> Option<Why> {
        self.jobs().get(&claim).and_then(|job| job.why)
    }

    pub(crate) fn trusted_until(&self, claim: ClaimRef) -> Option<Instant> {
        self.jobs().get(&claim).map(|job| job.trusted_until)
    }

    pub(crate) fn trust(&self, claim: ClaimRef, until: Instant) {
        if let Some(job) = self.jobs().get_mut(&claim) {
            job.trusted_until = until;
        }
    }

    pub(crate) fn stop(&self, claim: ClaimRef, why: Why) {
        if let Some(job) = self.jobs().get_mut(&claim) {
            job.why.get_or_insert(why);
            job.cancel.cancel();
        }
    }

    pub(crate) fn stop_job(&self, id: JobId, why: Why) {
        let claims: Vec<ClaimRef> = self.claims().into_iter().filter(|claim| claim.job == id).collect();
        claims.into_iter().for_each(|claim| self.stop(claim, why));
    }

    pub(crate) fn stop_all(&self, why: Why) {
        self.claims().into_iter().for_each(|claim| self.stop(claim, why));
    }

    /// When the first of them can no longer be trusted.
    pub(crate) fn earliest_trust(&self) -> Option<Instant> {
        self.jobs()
            .values()
            .filter(|job| job.why.is_none() && !job.goes_on)
            .map(|job| job.trusted_until)
            .min()
    }

    /// Stops jobs whose lease may have expired without the node's knowledge.
    pub(crate) fn stop_untrusted(&self, now: Instant) {
        let is_untrusted = |job: &Job| job.trusted_until <= now && !job.goes_on;
        let untrusted: Vec<ClaimRef> =
            self.jobs().iter().filter(|(_, job)| is_untrusted(job)).map(|(claim, _)| *claim).collect();
        untrusted.into_iter().for_each(|claim| self.stop(claim, Why::LeaseLost));
    }
}
