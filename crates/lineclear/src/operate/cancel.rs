//! cancel: a job ends because somebody asked, wherever it is.

use lineclear_model::JobState;

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::store::{JobId, NodeId, Store, StoreResult};

/// What became of a request to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It waited; now it is over.
    Over,
    /// It runs; its node has been asked to stop it.
    Asked(NodeId),
    /// It had ended before, in this state.
    Before(JobState),
    /// There is no such job (any more).
    Unknown,
    /// It kept moving between tables while we looked; ask again.
    Moving,
}

/// Verb: one look at all tables. `Moving` if the job was in none of them as we wrote.
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
        let id = || vec![Value::Int(Some(self.0.0))];
        let ids = vec![Value::Ints(vec![self.0.0])];
        let mut answer = CancelAnswer { cancelled: Cancelled::Unknown, freed_key: None };
        if let Some(row) = session.rows(Statement::Cancel, ids).await?.first() {
            answer.freed_key = row.get("limit_key")?;
            answer.cancelled = if row.get("over")? {
                Cancelled::Over
            } else {
                Cancelled::Asked(NodeId(row.get("leased_by")?))
            };
        } else if let Some(row) = session.rows(Statement::JobState, id()).await?.first() {
            let state = row.word("state", JobState::from_word)?;
            let over = matches!(state, JobState::Completed | JobState::Cancelled | JobState::Dead);
            answer.cancelled = if over { Cancelled::Before(state) } else { Cancelled::Moving };
        }
        Ok(answer)
    }
}

/// Cancels many jobs, in a transaction of the caller's; returns how many were cancelled or asked, and limit keys that are free.
pub(crate) async fn many(session: &mut Session, jobs: &[JobId]) -> StoreResult<(u64, Vec<String>)> {
    let mut left: Vec<i64> = jobs.iter().map(|job| job.0).collect();
    let mut freed = Vec::new();
    let mut count = 0;
    // A job on its way from one table to the other is in neither snapshot: look again.
    for _ in 0..ROUNDS {
        if left.is_empty() {
            break;
        }
        let rows = session.rows(Statement::Cancel, vec![Value::Ints(left.clone())]).await?;
        for row in &rows {
            let id: i64 = row.get("id")?;
            left.retain(|other| *other != id);
            freed.extend(row.get::<Option<String>>("limit_key")?);
            count += 1;
        }
    }
    Ok((count, freed))
}

/// How often jobs that move between tables are looked for.
const ROUNDS: u32 = 3;

/// Verb: jobs of a node that somebody wants to stop.
pub(crate) struct CancelRequests(pub(crate) NodeId);

impl Verb for CancelRequests {
    type Answer = Vec<JobId>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<JobId>> {
        let rows = session.rows(Statement::CancelProbe, vec![Value::Int(Some(self.0.0))]).await?;
        rows.iter().map(|row| row.get("id").map(JobId)).collect()
    }
}

/// How often a job that moves between tables is looked for.
const CANCEL_ROUNDS_MAX: u32 = 5;

impl Store {
    /// Ends a job that waits; asks for the end of one that runs.
    pub async fn cancel(&self, job: JobId) -> StoreResult<Cancelled> {
        let mut answer = self.run(Cancel(job)).await?;
        let mut rounds = 1;
        // A job on its way from one table to the other is in neither snapshot: look again, twice for a "never heard of".
        while (answer.cancelled == Cancelled::Moving && rounds < CANCEL_ROUNDS_MAX)
            || (answer.cancelled == Cancelled::Unknown && rounds < 2)
        {
            answer = self.run(Cancel(job)).await?;
            rounds += 1;
        }
        self.wake_or_warn(answer.freed_key.into_iter().collect()).await;
        Ok(answer.cancelled)
    }

    /// Jobs of a node that somebody wants to stop.
    pub async fn cancel_requests(&self, node: NodeId) -> StoreResult<Vec<JobId>> {
        self.db.read(CancelRequests(node)).await
    }
}
