//! Access to parents and dependents: outputs of parents, and activation of dormant dependents.

use lineclear_model::{Failure, Name, Payload};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::handler::extract::{FromJob, Given, JobContext};
use crate::node::Client;
use crate::store::{Activated, ClaimRef, JobId, ManifestId, StoreError, StoreResult};

/// The parents of this job's manifest. Costs nothing until an output is read.
///
/// If the manifest runs a job for every completion of a parent (`overlap = "allow"`), an output is that of the completion which
/// queued this job. Otherwise completions are combined while a job waits, and an output is the parent's newest at the time it is
/// read: never older than the completion that queued this job, and another on each attempt if the parent completes in between. A
/// job that a person triggered gets the newest outputs, too.
#[derive(Clone, Debug)]
pub struct Parents {
    client: Client,
    job: JobId,
    manifest: Option<ManifestId>,
}

impl FromJob for Parents {
    fn from_job(job: &JobContext) -> Result<Parents, Failure> {
        let client = job.client("Parents")?;
        Ok(Parents { client, job: job.info.id, manifest: job.info.manifest })
    }

    fn missing(given: &Given<'_>) -> Option<String> {
        given.missing_store("Parents")
    }
}

impl Parents {
    /// The output of the parent `key`. `None`: it has none, it did not queue this job, or its history was cleaned.
    pub async fn output<T: DeserializeOwned>(&self, key: &str) -> StoreResult<Option<T>> {
        let parent = name(key)?;
        let Some(manifest) = self.manifest else {
            let why = format!("the job has no manifest, so {key} is not its parent");
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

/// The dependents of this job's manifest. Dormant ones run when this job activates them.
#[derive(Clone, Debug)]
pub struct Dependents {
    client: Client,
    claim: ClaimRef,
}

impl FromJob for Dependents {
    fn from_job(job: &JobContext) -> Result<Dependents, Failure> {
        let claim = ClaimRef { job: job.info.id, no: job.info.claim_no };
        Ok(Dependents { client: job.client("Dependents")?, claim })
    }

    fn missing(given: &Given<'_>) -> Option<String> {
        given.missing_store("Dependents")
    }
}

impl Dependents {
    /// Queues a job of the dormant dependent `key`, now, with this input. Each call queues a job, also in another attempt; call it
    /// in a step to queue it once. Refused if `key` is not a dormant dependent of this job's manifest, or if another worker has
    /// claimed this job.
    pub async fn activate(&self, key: &str, input: &(impl Serialize + ?Sized)) -> StoreResult<JobId> {
        let input = Payload::of(input).map_err(|e| StoreError::refused("input", e.to_string()))?;
        match self.client.activate(self.claim, name(key)?, input).await? {
            Activated::Queued(job) => Ok(job),
            Activated::Stale => {
                let why = format!("another worker has claimed job {}", self.claim.job);
                Err(StoreError::refused("stale_claim", why))
            }
        }
    }
}

fn name(key: &str) -> StoreResult<Name> {
    Name::new(key).map_err(|e| StoreError::refused("manifest", format!("{key:?}: {e}")))
}
