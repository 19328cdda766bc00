//! The canary of a batch: one job goes first, and how it ends decides about the rest.

use lineclear_model::JobState;

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::error::no_answer;
use crate::operate::bulk::{BulkOperation, bulk_operation_of, hold};
use crate::store::{JobId, StoreResult};

/// Verb: how is the canary? Nobody waits here: the batch is put down until the next look, which any server may take.
pub(crate) struct Watch {
    pub(crate) batch: BulkOperation,
    pub(crate) canary: JobId,
    pub(crate) holder: String,
}

/// What a canary decides.
enum Verdict {
    Wait,
    Follow,
    Stop(String),
}

impl Verb for Watch {
    /// `None`: somebody cancelled the batch, or another looks after it.
    type Answer = Option<BulkOperation>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<BulkOperation>> {
        let held = hold(session, &self.batch, &self.holder).await?;
        let Some(is_late) = held.first().map(|row| row.get("is_late")).transpose()? else { return Ok(None) };
        // One statement sees the job in one place, wherever it goes meanwhile.
        let rows = session.rows(Statement::JobState, vec![Value::Int(Some(self.canary.0))]).await?;
        let state = rows.first().map(|row| row.word("state", JobState::from_word)).transpose()?;
        let (follow, because) = match verdict(self.canary, state, is_late) {
            Verdict::Wait => (false, None),
            Verdict::Follow => (true, None),
            Verdict::Stop(because) => (false, Some(because)),
        };
        let params = vec![Value::Int(Some(self.batch.id.0)), Value::Bool(follow), Value::Text(because)];
        let rows = session.rows(Statement::BulkCanary, params).await?;
        bulk_operation_of(rows.first().ok_or_else(|| no_answer("bulk_canary"))?).map(Some)
    }
}

fn verdict(canary: JobId, state: Option<JobState>, is_late: bool) -> Verdict {
    let stop = |how: &str| Verdict::Stop(format!("its canary, job {canary}, {how}"));
    match state {
        Some(JobState::Completed) => Verdict::Follow,
        Some(JobState::Dead) => stop("died again"),
        Some(JobState::Cancelled) => stop("was cancelled"),
        None => stop("is not kept any more, and nobody knows how it ended"),
        Some(_) if is_late => stop("did not end within a day"),
        Some(_) => Verdict::Wait,
    }
}
