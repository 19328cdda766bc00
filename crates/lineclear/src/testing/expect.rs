//! Assertions for tests. If one fails, its message lists the jobs that there are.

use std::fmt::Write as _;

use lineclear_model::JobState;
use serde::de::DeserializeOwned;

use crate::read::{JobDetail, JobFilter, PAGE_MAX};
use crate::store::JobId;
use crate::testing::{TestNode, sure};

/// States in which a job waits.
const WAITING: [JobState; 6] = [
    JobState::Scheduled,
    JobState::Queued,
    JobState::Held,
    JobState::Parked,
    JobState::Ready,
    JobState::Retrying,
];

impl TestNode {
    /// All jobs in these states, or in any state if none is given; oldest first.
    pub async fn jobs(&self, states: &[JobState]) -> Vec<JobDetail> {
        let filter = JobFilter { states: states.to_vec(), ..JobFilter::default() };
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = sure(self.store().jobs(&filter, before, PAGE_MAX).await);
            for job in &page.items {
                found.extend(sure(self.store().job(job.id).await));
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        found.sort_by_key(|detail| detail.job.id);
        found
    }

    /// Asserts that a job of `kind` waits whose input `fits`; returns the first one.
    ///
    /// # Panics
    ///
    /// If there is none, with a list of the jobs that wait.
    pub async fn assert_enqueued<T: DeserializeOwned>(&self, kind: &str, fits: impl Fn(T) -> bool) -> JobId {
        let waiting = self.jobs(&WAITING).await;
        let is_it = |detail: &&JobDetail| {
            let input = detail.input.as_deref().and_then(|input| serde_json::from_str(input).ok());
            detail.job.kind == kind && input.is_some_and(&fits)
        };
        match waiting.iter().find(is_it) {
            Some(detail) => detail.job.id,
            None => panic!("no job of kind {kind} with such an input waits; what waits: {}", list(&waiting)),
        }
    }

    /// Asserts that no job waits, due now or later.
    ///
    /// # Panics
    ///
    /// If some do, with a list of them.
    pub async fn assert_nothing_enqueued(&self) {
        let waiting = self.jobs(&WAITING).await;
        assert!(waiting.is_empty(), "jobs wait: {}", list(&waiting));
    }

    /// Asserts that the job is completed.
    ///
    /// # Panics
    ///
    /// If it is not, with its state and executions.
    pub async fn assert_completed(&self, job: JobId) {
        self.assert_state(job, JobState::Completed).await;
    }

    /// Asserts that the job is a dead letter: it has used up its retries, or failed permanently.
    ///
    /// # Panics
    ///
    /// If it is not, with its state and executions.
    pub async fn assert_dead(&self, job: JobId) {
        self.assert_state(job, JobState::Dead).await;
    }

    /// Asserts that the job is in a state.
    ///
    /// # Panics
    ///
    /// If it is not, with its state and executions.
    pub async fn assert_state(&self, job: JobId, state: JobState) {
        match sure(self.store().job(job).await) {
            Some(detail) if detail.job.state == state => {}
            Some(detail) => panic!("job {job} is not {state}:{}", list(&[detail])),
            None => panic!("there is no job {job}; what there is: {}", list(&self.jobs(&[]).await)),
        }
    }
}

/// Lists jobs, one per line, each followed by its executions.
fn list(jobs: &[JobDetail]) -> String {
    if jobs.is_empty() {
        return "nothing".to_owned();
    }
    let mut text = String::new();
    for JobDetail { job, input, executions, .. } in jobs {
        let (due, input) = (job.due_at.timestamp(), input.as_deref().unwrap_or("(gone)"));
        let _ = write!(text, "\n  job {} {} {}, due {due}, input {input}", job.id, job.kind, job.state);
        for execution in executions {
            let error = execution.error_message.as_deref().unwrap_or_default();
            let _ = write!(text, "\n    claim {}: {} {error}", execution.claim_no, execution.outcome);
        }
    }
    text
}
