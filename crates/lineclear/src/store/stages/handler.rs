//! Stage 6, what handlers leave behind while they run, and what their parents left for them.

use lineclear_model::{Name, Payload};

use crate::store::verbs::{activate, log, parent, progress, step};
use crate::store::{
    Activated, ClaimRef, JobId, LogLine, ManifestId, Noted, ProgressView, StepRecord, Store, StoreResult,
    door,
};

impl Store {
    /// The result of a step that an earlier claim of the job has finished.
    pub async fn finished_step(&self, job: JobId, name: &str) -> StoreResult<Option<Payload>> {
        door::check_key(name)?;
        self.db.read(step::ReadStep { job, name: name.to_owned() }).await
    }

    /// Records what a step came to.
    pub async fn record_step(&self, claim: ClaimRef, step: StepRecord) -> StoreResult<Noted> {
        door::check_key(&step.name)?;
        self.run(step::RecordStep { claim, step }).await
    }

    /// Writes how far running jobs are, all in one statement. A claim that is left out of the answer was lost, or somebody
    /// had its row locked: say it again.
    pub async fn write_progress(
        &self,
        progress: Vec<(ClaimRef, ProgressView)>,
    ) -> StoreResult<Vec<ClaimRef>> {
        door::check_batch(progress.len())?;
        if progress.is_empty() {
            return Ok(Vec::new());
        }
        self.run(progress::WriteProgress(progress)).await
    }

    /// Keeps log lines of claims that still run; those of others are left out.
    pub async fn write_log(&self, lines: Vec<(ClaimRef, LogLine)>) -> StoreResult<()> {
        door::check_batch(lines.len())?;
        if lines.is_empty() {
            return Ok(());
        }
        self.run(log::WriteLog(lines)).await
    }

    /// What the parent with this key left for a job of its dependent `manifest`. `None`: nothing, or it is not kept.
    pub async fn parent_output(
        &self,
        job: JobId,
        manifest: ManifestId,
        parent: Name,
    ) -> StoreResult<Option<Payload>> {
        self.db.read(parent::ParentOutput { job, manifest, parent }).await
    }

    /// A running job wakes a dormant dependent of its manifest, with an input; fenced by its claim.
    pub async fn activate(&self, claim: ClaimRef, child: Name, input: Payload) -> StoreResult<Activated> {
        self.run(activate::Activate { claim, child, input }).await
    }
}
