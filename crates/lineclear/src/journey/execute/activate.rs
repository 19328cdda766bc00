//! activate: a running job wakes a dormant dependent of its manifest, with an input.

use lineclear_model::job::Origin;
use lineclear_model::{Name, Payload};

use crate::db::statements::Statement;
use crate::db::{Column, Session, Value, Verb};
use crate::journey::enqueue::insert::{QueueRow, queue};
use crate::journey::plan::firing::JobTemplate;
use crate::manifests::pause::move_jobs;
use crate::manifests::stored::manifest_of;
use crate::store::{ClaimRef, JobId, Store, StoreError, StoreResult};

/// What became of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activated {
    /// The dependent's job.
    Queued(JobId),
    /// Another claim has the activating job, or it is over: nothing was queued.
    Stale,
}

/// Verb: one job of a dormant dependent, for a claim that still holds.
pub(crate) struct Activate {
    pub(crate) claim: ClaimRef,
    pub(crate) child: Name,
    pub(crate) input: Payload,
}

impl Verb for Activate {
    type Answer = Activated;

    async fn run(&self, session: &mut Session) -> StoreResult<Activated> {
        // Locked, so that nobody settles or reclaims it before we are done. Job rows come before manifests.
        let params = vec![Value::Int(Some(self.claim.job.0)), Value::Int(Some(i64::from(self.claim.no)))];
        let rows = session.rows(Statement::ActivateClaim, params).await?;
        let Some(claim) = rows.first() else { return Ok(Activated::Stale) };
        let (parent_id, parent): (Option<i64>, Option<String>) =
            (claim.get("manifest_id")?, claim.get("key")?);
        let (Some(parent_id), Some(parent)) = (parent_id, parent) else {
            return Err(self.refused("the running job is of no manifest, so nothing depends on it"));
        };
        let keys = vec![self.child.to_string()];
        let rows = session.rows(Statement::ManifestRead, vec![Value::Texts(keys)]).await?;
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
            // Like all waiting jobs of a paused manifest, it waits for it to be resumed.
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
    /// A running job wakes a dormant dependent of its manifest, with an input; fenced by its claim.
    pub async fn activate(&self, claim: ClaimRef, child: Name, input: Payload) -> StoreResult<Activated> {
        self.run(Activate { claim, child, input }).await
    }
}
