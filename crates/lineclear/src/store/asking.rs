//! What operators ask of the store, and what they do to many jobs at once.

use lineclear_model::Name;
use lineclear_model::explain::Explanation;

use super::verbs::explain;
use super::{JobId, Store, StoreResult};

impl Store {
    /// Why a job does not run, gate by gate, or how it ended. `None`: there is no such job (any more).
    pub async fn explain_job(&self, job: JobId) -> StoreResult<Option<Explanation>> {
        self.db.read(explain::ExplainJob(job)).await
    }

    /// Why a manifest makes no job now, gate by gate, and whether the next one would run. `None`: there is no such manifest.
    pub async fn explain_manifest(&self, key: Name) -> StoreResult<Option<Explanation>> {
        self.db.read(explain::ExplainManifest(key)).await
    }
}
