//! over: which jobs have ended, for those who wait for them.

use lineclear_model::JobState;

use crate::store::db::{Session, Value, Verb};
use crate::store::sql::Statement;
use crate::store::{JobId, StoreResult};

/// Verb: those of some jobs that are over, and how they ended.
pub(crate) struct JobsOver(pub(crate) Vec<JobId>);

impl Verb for JobsOver {
    type Answer = Vec<(JobId, JobState)>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Self::Answer> {
        let jobs = Value::Ints(self.0.iter().map(|job| job.0).collect());
        let rows = session.rows(Statement::JobsOver, vec![jobs]).await?;
        rows.iter().map(|row| Ok((JobId(row.get("id")?), row.word("state", JobState::from_word)?))).collect()
    }
}
