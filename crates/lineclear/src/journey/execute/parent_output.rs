//! What the parents of a dependent's job left behind.

use lineclear_model::{Name, Payload};

use crate::db::statements::Statement;
use crate::db::{Column, Session, Value, Verb};
use crate::store::{JobId, ManifestId, Store, StoreError, StoreResult};

/// Remembers which jobs of which parents a turn is for: job, parent, and the parent's job, or `None` for its newest.
pub(crate) async fn remember(
    session: &mut Session,
    turns: Vec<(JobId, i64, Option<JobId>)>,
) -> StoreResult<()> {
    if turns.is_empty() {
        return Ok(());
    }
    let columns = vec![
        Column::Ints(turns.iter().map(|turn| Some(turn.0.0)).collect()),
        Column::Ints(turns.iter().map(|turn| Some(turn.1)).collect()),
        Column::Ints(turns.iter().map(|turn| turn.2.map(|job| job.0)).collect()),
    ];
    session.rows(Statement::DependentsReady, columns).await.map(drop)
}

/// Verb: what a parent left for a job of its dependent.
pub(crate) struct ParentOutput {
    pub(crate) job: JobId,
    pub(crate) manifest: ManifestId,
    pub(crate) parent: Name,
}

impl Verb for ParentOutput {
    type Answer = Option<Payload>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Payload>> {
        let params = vec![
            Value::Int(Some(self.job.0)),
            Value::Int(Some(self.manifest.0)),
            Value::Text(Some(self.parent.to_string())),
        ];
        let rows = session.rows(Statement::ParentOutput, params).await?;
        let Some(row) = rows.first() else {
            let why = format!("{} is not a manifest that this job's manifest waits for", self.parent);
            return Err(StoreError::refused("not_a_parent", why));
        };
        match row.get::<Option<String>>("output")? {
            Some(_) => row.word("output", |output| Payload::parse(output).ok()).map(Some),
            None => Ok(None),
        }
    }
}

impl Store {
    /// What the parent with this key left for a job of its dependent `manifest`. `None`: nothing, or it is not kept.
    pub async fn parent_output(
        &self,
        job: JobId,
        manifest: ManifestId,
        parent: Name,
    ) -> StoreResult<Option<Payload>> {
        self.db.read(ParentOutput { job, manifest, parent }).await
    }
}
