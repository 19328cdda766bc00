//! What a handler can ask of the manifests before and after its own: their outputs, and dormant ones to wake.

use lineclear_model::{Failure, Name, Payload};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::handler::extract::{FromJob, JobContext};
use crate::node::Client;
use crate::store::{Activated, ClaimRef, JobId, ManifestId, StoreError, StoreResult};

/// The manifests that this job's manifest waits for. Costs nothing until it is asked.
///
/// If the job's manifest lets every turn run (`overlap = "allow"`), an output is that of the completion which made this
/// turn. Otherwise turns are put together while one waits, and an output is the newest of its parent, at the time it is
/// asked for: never older than the completion that made this job run, and not the same on each try if the parent
/// completes in between. A job that a person triggered sees the newest ones too.
#[derive(Clone, Debug)]
pub struct Parents {
    client: Client,
    job: JobId,
    manifest: Option<ManifestId>,
}

impl FromJob for Parents {
    fn from_job(job: &JobContext) -> Result<Parents, Failure> {
        Ok(Parents { client: job.client.clone(), job: job.info.id, manifest: job.info.manifest })
    }
}

impl Parents {
    /// What the parent `key` left. `None`: nothing, or it is not one that made this turn run, or history no longer has
    /// it.
    pub async fn output<T: DeserializeOwned>(&self, key: &str) -> StoreResult<Option<T>> {
        let parent = name(key)?;
        let Some(manifest) = self.manifest else {
            let why = format!("the job is of no manifest, and so not after {key}");
            return Err(StoreError::refused("not_a_parent", why));
        };
        let output = self.client.store().parent_output(self.job, manifest, parent).await?;
        let read = output.map(|output| output.read::<T>()).transpose();
        read.map_err(|error| {
            let why = lineclear_model::secret::without_value(&error.to_string());
            StoreError::refused("parent_output", format!("the output of {key} does not fit: {why}"))
        })
    }
}

/// The manifests that wait for this job's manifest: the dormant ones of them run when this job says so.
#[derive(Clone, Debug)]
pub struct Dependents {
    client: Client,
    claim: ClaimRef,
}

impl FromJob for Dependents {
    fn from_job(job: &JobContext) -> Result<Dependents, Failure> {
        let claim = ClaimRef { job: job.info.id, no: job.info.claim_no };
        Ok(Dependents { client: job.client.clone(), claim })
    }
}

impl Dependents {
    /// Queues a job of the dormant dependent `key`, now, with this input. Each call makes a job, also when this job is
    /// tried again; a step makes it once. Refused if `key` is no dormant dependent of this job's manifest, and if this
    /// job was given to another worker.
    pub async fn activate(&self, key: &str, input: &(impl Serialize + ?Sized)) -> StoreResult<JobId> {
        let input = Payload::of(input).map_err(|e| StoreError::refused("input", e.to_string()))?;
        match self.client.activate(self.claim, name(key)?, input).await? {
            Activated::Queued(job) => Ok(job),
            Activated::Stale => {
                let why = format!("job {} was given to another worker", self.claim.job);
                Err(StoreError::refused("stale_claim", why))
            }
        }
    }
}

fn name(key: &str) -> StoreResult<Name> {
    Name::new(key).map_err(|e| StoreError::refused("manifest", format!("{key:?}: {e}")))
}
