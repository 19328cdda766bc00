//! Stage 8, cancel: the end of a job that waits, or the wish to a job that runs.

use lineclear_model::JobState;

use crate::store::verbs::{cancel, over};
use crate::store::{Cancelled, JobId, NodeId, Store, StoreResult};

/// How often a job that moves between tables is looked for.
const CANCEL_ROUNDS_MAX: u32 = 5;

impl Store {
    /// Ends a job that waits; asks for the end of one that runs.
    pub async fn cancel(&self, job: JobId) -> StoreResult<Cancelled> {
        let mut answer = self.run(cancel::Cancel(job)).await?;
        let mut rounds = 1;
        // A job on its way from one table to the other is in neither snapshot: look again, twice for a "never heard of".
        while (answer.cancelled == Cancelled::Moving && rounds < CANCEL_ROUNDS_MAX)
            || (answer.cancelled == Cancelled::Unknown && rounds < 2)
        {
            answer = self.run(cancel::Cancel(job)).await?;
            rounds += 1;
        }
        self.wake_or_warn(answer.freed_key.into_iter().collect()).await;
        Ok(answer.cancelled)
    }

    /// Those of some jobs that are over, and how they ended.
    pub(crate) async fn jobs_over(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, JobState)>> {
        self.db.read(over::JobsOver(jobs)).await
    }

    /// Jobs of a node that somebody wants to stop.
    pub async fn cancel_requests(&self, node: NodeId) -> StoreResult<Vec<JobId>> {
        self.db.read(cancel::CancelRequests(node)).await
    }
}
