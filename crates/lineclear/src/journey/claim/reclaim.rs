//! reclaim: a lease ran out, its worker is gone; the job goes on without it.

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::store::{BATCH, ClaimRef, JobId, NodeId, Store, StoreResult};

/// A claim whose worker vanished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// The claim that was given up.
    pub claim: ClaimRef,
    /// Who held it.
    pub node: NodeId,
    /// What became of the job.
    pub fate: Fate,
    pub(crate) limit_key: Option<String>,
}

/// What became of a job whose worker vanished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits again, before all fresh work.
    Requeued,
    /// Its workers vanished too often: a dead letter.
    Buried,
    /// Somebody had asked to cancel it.
    Cancelled,
}

/// Verb: give up to `most` expired leases.
pub(crate) struct Reclaim {
    pub(crate) most: u32,
    pub(crate) crash_budget: u32,
    /// Jobs that the caller runs itself.
    pub(crate) ours: Vec<JobId>,
}

impl Verb for Reclaim {
    type Answer = Vec<Reclaimed>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Reclaimed>> {
        let params = vec![
            Value::Int(Some(i64::from(self.most))),
            Value::Int(Some(i64::from(self.crash_budget))),
            Value::Ints(self.ours.iter().map(|job| job.0).collect()),
        ];
        let rows = session.rows(Statement::Reclaim, params).await?;
        rows.iter()
            .map(|row| {
                Ok(Reclaimed {
                    claim: ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? },
                    node: NodeId(row.get("leased_by")?),
                    fate: row.word("verdict", |word| match word {
                        "requeue" => Some(Fate::Requeued),
                        "bury" => Some(Fate::Buried),
                        "cancel" => Some(Fate::Cancelled),
                        _ => None,
                    })?,
                    limit_key: row.get("limit_key")?,
                })
            })
            .collect()
    }
}

impl Store {
    /// Takes back up to `most` jobs whose lease ran out; after `crash_budget` vanished workers a job is buried.
    pub async fn reclaim(&self, most: u32, crash_budget: u32) -> StoreResult<Vec<Reclaimed>> {
        self.reclaim_except(most, crash_budget, Vec::new()).await
    }

    /// The same, but not of jobs that the caller runs itself: a node that slept must not call itself dead.
    pub async fn reclaim_except(
        &self,
        most: u32,
        crash_budget: u32,
        ours: Vec<JobId>,
    ) -> StoreResult<Vec<Reclaimed>> {
        let reclaimed = self.run(Reclaim { most: most.min(BATCH), crash_budget, ours }).await?;
        self.wake_or_warn(reclaimed.iter().filter_map(|r| r.limit_key.clone()).collect()).await;
        Ok(reclaimed)
    }
}
