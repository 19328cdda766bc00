//! Looking at the store: lists and details, page by page. Nothing here changes anything.

mod dead_letters;
pub(crate) mod events;
pub(crate) mod finished_jobs;
mod history;
mod now;
mod rows;
pub(crate) mod search;
pub(crate) mod stats;
pub(crate) mod totals;

use lineclear_model::query::{self, Names};
use lineclear_model::{JobState, Micros, Name};

use crate::db::statements::Statement;
use crate::db::{Query, Row, Value};
use crate::manifests::upsert::manifest_of;
pub use crate::read::dead_letters::{FAMILIES_LOOKED_MAX, Families, FamilyView};
pub use crate::read::history::LastLines;
pub use crate::read::now::{PipelineView, RunningView, StageView, UpcomingView};
pub use crate::read::rows::{
    DeadLetterView, ExecutionView, GroupView, JobDetail, JobView, ManifestView, NodeView, StepView, TickView,
};
use crate::read::rows::{secrets_of, step_of};
pub use crate::read::search::Found;
use crate::store::{JobId, ManifestId, NodeId, Store, StoreResult};

/// Rows per page at most.
pub const PAGE_MAX: u32 = 1_000;

/// A page, and where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T, C> {
    /// What was found.
    pub items: Vec<T>,
    /// Pass this to get the next page; `None`: this was the last. A page may be empty and not the last: a filter on
    /// rare things looks through a bounded number of rows at a time.
    pub next: Option<C>,
}

/// Which jobs, in the simplest form; [`Store::search`] takes all others.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<JobState>,
    /// Of this kind.
    pub kind: Option<Name>,
}

/// The last item's key if the page is full, and so may not be the last.
pub(crate) fn next_of<T, C>(items: &[T], most: u32, key: impl Fn(&T) -> C) -> Option<C> {
    (items.len() >= most as usize).then(|| items.last().map(key)).flatten()
}

fn manifest_view_of(row: &Row) -> StoreResult<ManifestView> {
    Ok(ManifestView {
        id: ManifestId(row.get("id")?),
        key: row.word("key", |key| Name::new(key).ok())?,
        version: row.get("version")?,
        manifest: manifest_of(row).map_err(|error| error.to_string()),
        held: row.get("held")?,
        next_due_at: row.get("next_due_at")?,
        last_success_at: row.get("last_success_at")?,
        last_success_job: row.get::<Option<i64>>("last_success_job_id")?.map(JobId),
    })
}

impl Store {
    /// The rows of a statement that only reads.
    pub(crate) async fn read_rows(&self, statement: Statement, params: Vec<Value>) -> StoreResult<Vec<Row>> {
        self.db.read(Query::rows(statement, params)).await
    }

    /// Jobs, newest first, waiting, running, dead and over, before `before` if given.
    pub async fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<JobId>,
        most: u32,
    ) -> StoreResult<Page<JobView, JobId>> {
        let kind =
            Names { any_of: filter.kind.iter().map(ToString::to_string).collect(), none_of: Vec::new() };
        let states = (!filter.states.is_empty()).then(|| filter.states.clone());
        let found =
            self.search(&query::Query { states, kind, ..query::Query::default() }, before, most).await?;
        Ok(Page { items: found.items, next: found.next })
    }

    /// Where a job is in its life; `None`: there is no such job (any more).
    pub async fn job_state(&self, id: JobId) -> StoreResult<Option<JobState>> {
        let mut found = self.read_rows(Statement::JobState, vec![Value::Int(Some(id.0))]).await?;
        if found.is_empty() {
            // It may have been on its way from one table to the other.
            found = self.read_rows(Statement::JobState, vec![Value::Int(Some(id.0))]).await?;
        }
        found.first().map(|row| row.word("state", JobState::from_word)).transpose()
    }

    /// One job with its input, the claims of it that ended last, and its steps.
    pub async fn job(&self, id: JobId) -> StoreResult<Option<JobDetail>> {
        let mut found = self.read_rows(Statement::GetJob, vec![Value::Int(Some(id.0))]).await?;
        if found.is_empty() {
            // It may have been on its way from one table to the other.
            found = self.read_rows(Statement::GetJob, vec![Value::Int(Some(id.0))]).await?;
        }
        let Some(row) = found.first() else { return Ok(None) };
        let executions = self.last_executions(id, PAGE_MAX).await?;
        let params = vec![Value::Int(Some(id.0)), Value::Int(Some(i64::from(PAGE_MAX)))];
        let steps = self.read_rows(Statement::ListSteps, params).await?;
        Ok(Some(JobDetail {
            job: JobView::of(row)?,
            input: row.get("input")?,
            executions,
            steps: steps.iter().map(step_of).collect::<StoreResult<_>>()?,
            secrets: secrets_of(row)?,
            claimed_at: row.get("claimed_at")?,
            now: row.get("now")?,
        }))
    }

    /// Manifests by key.
    pub async fn manifests(&self, after: Option<&Name>, most: u32) -> StoreResult<Page<ManifestView, Name>> {
        let most = most.clamp(1, PAGE_MAX);
        let after = after.map(ToString::to_string).unwrap_or_default();
        let params = vec![Value::Text(Some(after)), Value::Int(Some(i64::from(most)))];
        let rows = self.read_rows(Statement::ListManifests, params).await?;
        let items = rows.iter().map(manifest_view_of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |view| view.key.clone());
        Ok(Page { items, next })
    }

    /// One manifest; `None`: there is none, or it was removed.
    pub async fn manifest(&self, key: &Name) -> StoreResult<Option<ManifestView>> {
        let rows = self.read_rows(Statement::GetManifest, vec![Value::Text(Some(key.to_string()))]).await?;
        rows.first().map(manifest_view_of).transpose()
    }

    /// What became of a manifest's ticks, newest first.
    pub async fn ticks(
        &self,
        manifest: ManifestId,
        before: Option<Micros>,
        most: u32,
    ) -> StoreResult<Page<TickView, Micros>> {
        let most = most.clamp(1, PAGE_MAX);
        let params =
            vec![Value::Int(Some(manifest.0)), Value::Time(before), Value::Int(Some(i64::from(most)))];
        let rows = self.read_rows(Statement::ListTicks, params).await?;
        let of = |row: &Row| {
            Ok(TickView {
                tick_at: row.get("tick_at")?,
                until_tick_at: row.get("until_tick_at")?,
                job: row.get::<Option<i64>>("job_id")?.map(JobId),
                skip_reason: row.get("skip_reason")?,
            })
        };
        let items = rows.iter().map(of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |tick| tick.tick_at);
        Ok(Page { items, next })
    }

    /// Groups by name.
    pub async fn groups(&self, after: Option<&str>, most: u32) -> StoreResult<Page<GroupView, String>> {
        let most = most.clamp(1, PAGE_MAX);
        let params =
            vec![Value::Text(Some(after.unwrap_or_default().to_owned())), Value::Int(Some(i64::from(most)))];
        let rows = self.read_rows(Statement::ListGroups, params).await?;
        let items = rows.iter().map(GroupView::of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |group| group.name.clone());
        Ok(Page { items, next })
    }

    /// One group.
    pub async fn group(&self, name: &str) -> StoreResult<Option<GroupView>> {
        let rows = self.read_rows(Statement::GetGroup, vec![Value::Text(Some(name.to_owned()))]).await?;
        rows.first().map(GroupView::of).transpose()
    }

    /// Nodes, last seen first.
    pub async fn nodes(&self, most: u32) -> StoreResult<Vec<NodeView>> {
        let params = vec![Value::Int(Some(i64::from(most.clamp(1, PAGE_MAX))))];
        let of = |row: &Row| {
            Ok(NodeView {
                id: NodeId(row.get("id")?),
                name: row.get("name")?,
                host: row.get("host")?,
                pid: row.get("pid")?,
                incarnation: row.get("incarnation")?,
                version: row.get("version")?,
                roles: row.get("roles")?,
                routes: row.get("routes")?,
                kinds: row.get("kinds")?,
                slots: row.get("slots")?,
                runners: row.get("runners")?,
                started_at: row.get("started_at")?,
                seen_at: row.get("seen_at")?,
                drain_at: row.get("drain_at")?,
                drain_by: row.get("drain_by")?,
                takes_nothing: row.get("takes_nothing")?,
                holds: row.get("holds")?,
                now: row.get("now")?,
            })
        };
        self.read_rows(Statement::ListNodes, params).await?.iter().map(of).collect()
    }
}
