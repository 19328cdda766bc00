//! Outputs of the parents of a dependent's job.

use lineclear_model::{Name, Payload};

use crate::db::statements::Statement;
use crate::db::{Column, Query, Session, values};
use crate::store::{JobId, ManifestId, Store, StoreError, StoreResult};

/// Records the parents' jobs whose outputs a job gets: the job, the parent, and the parent's job, or `None` for its newest.
pub(crate) async fn remember(
    session: &mut Session,
    inputs: Vec<(JobId, i64, Option<JobId>)>,
) -> StoreResult<()> {
    if inputs.is_empty() {
        return Ok(());
    }
    let columns = vec![
        Column::Ints(inputs.iter().map(|(job, ..)| Some(job.0)).collect()),
        Column::Ints(inputs.iter().map(|(_, parent, _)| Some(*parent)).collect()),
        Column::Ints(inputs.iter().map(|(.., of)| of.map(|job| job.0)).collect()),
    ];
    session.rows(Statement::DependentsReady, columns).await.map(drop)
}

impl Store {
    /// The output of the parent with this key, for a job of its dependent `manifest`. `None`: there is none, or it was cleaned.
    pub async fn parent_output(
        &self,
        job: JobId,
        manifest: ManifestId,
        parent: Name,
    ) -> StoreResult<Option<Payload>> {
        let params = values![job.0, manifest.0, &parent];
        let read = Query::first(Statement::ParentOutput, params, |row| {
            match row.get::<Option<String>>("output")? {
                Some(_) => row.word("output", |output| Payload::parse(output).ok()).map(Some),
                None => Ok(None),
            }
        });
        self.db.read(read).await?.ok_or_else(|| {
            let why = format!("{parent} is not a parent of this job's manifest");
            StoreError::refused("not_a_parent", why)
        })
    }
}
