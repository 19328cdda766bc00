//! The canary of a bulk operation: one job runs first, and its end decides whether the others follow.

use lineclear_model::JobState;

use crate::db::statements::Statement;
use crate::db::{Session, Verb, values};
use crate::error::no_answer;
use crate::operate::bulk::portion::lock;
use crate::operate::bulk::{BulkOperation, bulk_operation_of};
use crate::store::{JobId, StoreResult};

/// Checks the canary once. If it has not ended, the operation is released until the next check, by any node.
pub(super) struct CheckCanary {
    pub(super) operation: BulkOperation,
    pub(super) canary: JobId,
    pub(super) holder: String,
}

/// What the canary decides.
enum Verdict {
    Wait,
    Follow,
    Stop(String),
}

impl Verb for CheckCanary {
    /// `None`: the operation was cancelled, or another node works on it.
    type Answer = Option<BulkOperation>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<BulkOperation>> {
        let locked = lock(session, &self.operation, &self.holder).await?;
        let Some(is_late) = locked.first().map(|row| row.get("is_late")).transpose()? else {
            return Ok(None);
        };
        // One statement sees the job in exactly one table, even while it moves.
        let rows = session.rows(Statement::JobState, values![self.canary.0]).await?;
        let state = rows.first().map(|row| row.word("state", JobState::from_word)).transpose()?;
        let (follow, because) = match verdict(self.canary, state, is_late) {
            Verdict::Wait => (false, None),
            Verdict::Follow => (true, None),
            Verdict::Stop(because) => (false, Some(because)),
        };
        let rows = session.rows(Statement::BulkCanary, values![self.operation.id.0, follow, because]).await?;
        bulk_operation_of(rows.first().ok_or_else(|| no_answer("bulk_canary"))?).map(Some)
    }
}

fn verdict(canary: JobId, state: Option<JobState>, is_late: bool) -> Verdict {
    let stop = |how: &str| Verdict::Stop(format!("its canary, job {canary}, {how}"));
    match state {
        Some(JobState::Completed) => Verdict::Follow,
        Some(JobState::Dead) => stop("died again"),
        Some(JobState::Cancelled) => stop("was cancelled"),
        None => stop("was cleaned before its result was seen"),
        Some(_) if is_late => stop("did not end within a day"),
        Some(_) => Verdict::Wait,
    }
}
