//! A job that the next vanished worker would bury runs alone on its node, so that no job is buried for a neighbour's
//! crash: if its last worker vanishes, it was the only job there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Which jobs of a node run beside each other.
#[derive(Default)]
pub(crate) struct Isolation {
    /// Read by jobs that may run together, written by one that runs alone.
    lock: Arc<RwLock<()>>,
    /// A job runs alone, or waits to: the node leases nothing more.
    wanted: Arc<AtomicBool>,
}

/// A job's permit to run. It lasts until the outcome is written: up to then, the job is charged if the process ends.
pub(crate) enum RunPermit {
    Beside { _guard: Option<OwnedRwLockReadGuard<()>> },
    Alone { _guard: Option<OwnedRwLockWriteGuard<()>>, _end: EndOfIsolation },
}

/// When it is dropped, others run again.
pub(crate) struct EndOfIsolation(Arc<AtomicBool>);

impl Drop for EndOfIsolation {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Isolation {
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Requests that a job runs alone; none if another has.
    pub(crate) fn request(&self) -> Option<EndOfIsolation> {
        let was_wanted = self.wanted.swap(true, Ordering::AcqRel);
        (!was_wanted).then(|| EndOfIsolation(self.wanted.clone()))
    }

    /// For a job that may run beside others.
    pub(crate) fn beside_others(&self) -> RunPermit {
        RunPermit::Beside { _guard: self.lock.clone().try_read_owned().ok() }
    }

    /// For a job that runs alone: waits until the outcomes of the others are written, or `patience` is over. Those were running before, and
    /// are not on their last chance.
    pub(crate) async fn alone(&self, patience: Duration, end: EndOfIsolation) -> RunPermit {
        let guard = tokio::time::timeout(patience, self.lock.clone().write_owned()).await;
        RunPermit::Alone { _guard: guard.ok(), _end: end }
    }
}

#[cfg(test)]
mod tests {
    use lineclear_model::{Outcome, Verdict};
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::journey::execute::active_jobs::ActiveJobs;
    use crate::store::{ClaimRef, JobId, Settlement};

    const SOON: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    /// A job has ended beside others, and its outcome is not written.
    fn ended(jobs: &ActiveJobs, isolation: &Isolation, job: i64) -> ClaimRef {
        let claim = ClaimRef { job: JobId(job), no: 1 };
        jobs.add(claim, std::time::Instant::now() + LONG, None, None);
        jobs.ended(&completed(claim), Some(isolation.beside_others()));
        claim
    }

    fn completed(claim: ClaimRef) -> Settlement {
        Settlement {
            claim,
            manifest: None,
            outcome: Outcome::Completed { output: None },
            verdict: Verdict::Complete,
            note: None,
            ran: None,
        }
    }

    #[tokio::test]
    async fn a_job_runs_alone_when_the_outcomes_of_the_others_are_written() {
        let (jobs, isolation) = (ActiveJobs::new(), Isolation::default());
        let other = ended(&jobs, &isolation, 1);
        let end = isolation.request().expect("no other has");
        assert!(isolation.request().is_none() && isolation.is_wanted());
        let mut alone = std::pin::pin!(isolation.alone(LONG, end));
        assert!(timeout(SOON, &mut alone).await.is_err(), "the other one would be charged");
        jobs.remove(other);
        let permit = timeout(LONG, alone).await.expect("it is written");
        let claim = ended(&jobs, &isolation, 2);
        jobs.ended(&completed(claim), Some(permit));
        assert!(isolation.is_wanted(), "it would be charged itself");
        jobs.remove(claim);
        assert!(!isolation.is_wanted());
    }

    #[tokio::test]
    async fn an_outcome_that_cannot_be_written_holds_up_no_job_that_runs_alone() {
        let (jobs, isolation) = (ActiveJobs::new(), Isolation::default());
        jobs.drop_permit(ended(&jobs, &isolation, 1));
        let begun = Instant::now();
        isolation.alone(LONG, isolation.request().expect("no other has")).await;
        assert!(begun.elapsed() < LONG / 2);
        assert!(!isolation.is_wanted(), "its permit is gone");
    }
}
