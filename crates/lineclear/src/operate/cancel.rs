//! Cancels jobs, in whatever table they are.

use lineclear_model::JobState;

use crate::db::statements::Statement;
use crate::db::{Query, Session, Verb, values};
use crate::store::{JobId, NodeId, Store, StoreResult};

/// The result of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It was waiting, and has ended.
    Over,
    /// It is running; its node was asked to stop it.
    Asked(NodeId),
    /// It had ended before, in this state.
    Before(JobState),
    /// There is no such job, or its history was cleaned.
    Unknown,
    /// It moved between tables during every attempt; try again.
    Moving,
}

/// Attempts at cancelling many jobs.
const ATTEMPTS: u32 = 3;

/// Attempts at cancelling one job.
const ATTEMPTS_ONE: u32 = 5;

/// One attempt at cancelling a job. `Moving` if no table had the job at the time of the write.
pub(crate) struct Cancel(pub(crate) JobId);

pub(crate) struct CancelAnswer {
    pub(crate) cancelled: Cancelled,
    pub(crate) freed_key: Option<String>,
}

impl Verb for Cancel {
    type Answer = CancelAnswer;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<CancelAnswer> {
        let id = self.0.0;
        let mut answer = CancelAnswer { cancelled: Cancelled::Unknown, freed_key: None };
        if let Some(row) = session.rows(Statement::Cancel, values![vec![id]]).await?.first() {
            answer.freed_key = row.get("limit_key")?;
            answer.cancelled = if row.get("over")? {
                Cancelled::Over
            } else {
                Cancelled::Asked(NodeId(row.get("leased_by")?))
            };
        } else if let Some(row) = session.rows(Statement::JobState, values![id]).await?.first() {
            let state = row.word("state", JobState::from_word)?;
            let over = matches!(state, JobState::Completed | JobState::Cancelled | JobState::Dead);
            answer.cancelled = if over { Cancelled::Before(state) } else { Cancelled::Moving };
        }
        Ok(answer)
    }
}

/// Cancels many jobs in the caller's transaction; returns how many were cancelled or asked to stop, and limit keys that may have
/// free capacity now.
pub(crate) async fn cancel_many(session: &mut Session, jobs: &[JobId]) -> StoreResult<(u64, Vec<String>)> {
    let mut left: Vec<i64> = jobs.iter().map(|job| job.0).collect();
    let mut freed = Vec::new();
    let mut count = 0;
    // A job that moves between tables is in neither snapshot: try again.
    for _ in 0..ATTEMPTS {
        if left.is_empty() {
            break;
        }
        let rows = session.rows(Statement::Cancel, values![left.clone()]).await?;
        for row in &rows {
            let id: i64 = row.get("id")?;
            left.retain(|other| *other != id);
            freed.extend(row.get::<Option<String>>("limit_key")?);
            count += 1;
        }
    }
    Ok((count, freed))
}

impl Store {
    /// Cancels a job: one that waits ends now, one that runs is asked to stop.
    pub async fn cancel(&self, job: JobId) -> StoreResult<Cancelled> {
        let mut answer = self.run(Cancel(job)).await?;
        let mut attempts = 1;
        // A job that moves between tables is in neither snapshot: try again, and once for an unknown job.
        while (answer.cancelled == Cancelled::Moving && attempts < ATTEMPTS_ONE)
            || (answer.cancelled == Cancelled::Unknown && attempts < 2)
        {
            answer = self.run(Cancel(job)).await?;
            attempts += 1;
        }
        self.wake_or_warn(answer.freed_key.into_iter().collect()).await;
        Ok(answer.cancelled)
    }

    /// Jobs of a node whose cancellation was requested.
    pub async fn cancel_requests(&self, node: NodeId) -> StoreResult<Vec<JobId>> {
        self.db
            .read(Query::each(Statement::CancelProbe, values![node.0], |row| row.get("id").map(JobId)))
            .await
    }
}
