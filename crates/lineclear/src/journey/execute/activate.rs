//! Activates a dormant dependent: a running job queues a job of it, with an input.

use lineclear_model::job::Origin;
use lineclear_model::{Name, Payload};

use crate::db::statements::Statement;
use crate::db::{Column, Session, Verb, values};
use crate::journey::enqueue::insert::{QueueRow, queue};
use crate::journey::plan::firing::JobTemplate;
use crate::manifests::pause::move_jobs;
use crate::manifests::stored::manifest_of;
use crate::store::{ClaimRef, JobId, Store, StoreError, StoreResult};
use crate::validate;

/// The result of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activated {
    /// The dependent's job.
    Queued(JobId),
    /// Another claim has the activating job, or it has ended: nothing was queued.
    Stale,
}

/// Queues one job of a dormant dependent, if the claim still holds.
pub(crate) struct Activate {
    pub(crate) claim: ClaimRef,
    pub(crate) child: Name,
    pub(crate) input: Payload,
}

impl Verb for Activate {
    type Answer = Activated;

    async fn run(&self, session: &mut Session) -> StoreResult<Activated> {
        // Locks the job against settle and reclaim. Job rows come before manifests in the lock order.
        let rows = session.rows(Statement::ActivateClaim, values![self.claim.job.0, self.claim.no]).await?;
        let Some(claim) = rows.first() else { return Ok(Activated::Stale) };
        let (parent_id, parent): (Option<i64>, Option<String>) =
            (claim.get("manifest_id")?, claim.get("key")?);
        let (Some(parent_id), Some(parent)) = (parent_id, parent) else {
            return Err(self.refused("the running job has no manifest, so nothing depends on it"));
        };
        let rows = session.rows(Statement::ManifestRead, values![vec![self.child.to_string()]]).await?;
        let Some(row) = rows.first() else { return Err(self.refused("there is no such manifest")) };
        let child = manifest_of(row)?;
        if row.get("removed")? {
            return Err(self.refused("it was removed"));
        }
        if !child.schedule.parents().iter().any(|known| known.as_str() == parent) {
            return Err(self.refused(&format!("it does not depend on {parent}")));
        }
        if !child.schedule.is_dormant() {
            return Err(
                self.refused(&format!("it is not dormant: it runs by itself when {parent} completes"))
            );
        }
        let template = JobTemplate::of(row)?;
        let job = QueueRow { input: self.input.as_str().to_owned(), ..template.job(Origin::Dormant) };
        let queued = queue(session, &[job]).await?;
        let job = queued.into_iter().next().flatten().ok_or_else(|| crate::error::no_answer("enqueue"))?;
        let columns = vec![
            Column::Ints(vec![Some(job.0)]),
            Column::Ints(vec![Some(parent_id)]),
            Column::Ints(vec![Some(self.claim.job.0)]),
        ];
        session.rows(Statement::DependentsReady, columns).await?;
        if !child.enabled {
            // Like all waiting jobs of a paused manifest, it is parked until the manifest is resumed.
            move_jobs(session, vec![template.id], false).await?;
        }
        Ok(Activated::Queued(job))
    }
}

impl Activate {
    fn refused(&self, why: &str) -> StoreError {
        StoreError::refused("activate", format!("{} cannot be activated: {why}", self.child))
    }
}

impl Store {
    /// Queues a job of a dormant dependent of a running job's manifest, with an input; fenced by the claim.
    pub async fn activate(&self, claim: ClaimRef, child: Name, input: Payload) -> StoreResult<Activated> {
        validate::check_input(Some(&input))?;
        self.run(Activate { claim, child, input }).await
    }
}
