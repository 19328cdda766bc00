//! Which jobs have ended, for callers that wait for them.

use lineclear_model::JobState;

use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::store::{JobId, Store, StoreResult};

impl Store {
    /// Those of the given jobs that have ended, each with its final state.
    pub(crate) async fn finished_jobs(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, JobState)>> {
        let jobs: Vec<i64> = jobs.into_iter().map(|job| job.0).collect();
        let read = Query::each(Statement::FinishedJobs, values![jobs], |row| {
            Ok((JobId(row.get("id")?), row.word("state", JobState::from_word)?))
        });
        self.db.read(read).await
    }
}
