//! over: which jobs have ended, for those who wait for them.

use lineclear_model::JobState;

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::store::{JobId, Store, StoreResult};

/// Verb: those of some jobs that are over, and how they ended.
pub(crate) struct JobsOver(pub(crate) Vec<JobId>);

impl Verb for JobsOver {
    type Answer = Vec<(JobId, JobState)>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Self::Answer> {
        let jobs = Value::Ints(self.0.iter().map(|job| job.0).collect());
        let rows = session.rows(Statement::FinishedJobs, vec![jobs]).await?;
        rows.iter().map(|row| Ok((JobId(row.get("id")?), row.word("state", JobState::from_word)?))).collect()
    }
}

impl Store {
    /// Those of some jobs that are over, and how they ended.
    pub(crate) async fn jobs_over(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, JobState)>> {
        self.db.read(JobsOver(jobs)).await
    }
}
