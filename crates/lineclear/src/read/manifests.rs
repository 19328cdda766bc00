//! Manifests and the ledger of their ticks.

use lineclear_model::{Manifest, Micros, Name};

use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::manifests::stored::manifest_of;
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{JobId, ManifestId, Store, StoreResult};

/// A manifest in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestView {
    /// Its id.
    pub id: ManifestId,
    /// Its key.
    pub key: Name,
    /// Its version; grows with every change.
    pub version: i64,
    /// The manifest, or why it cannot be read: one broken row must not hide the others.
    pub manifest: Result<Manifest, String>,
    /// Whether a dead letter holds it until a person resolves it.
    pub held: bool,
    /// The next tick.
    pub next_due_at: Option<Micros>,
    /// When one of its jobs last completed.
    pub last_success_at: Option<Micros>,
    /// That job.
    pub last_success_job: Option<JobId>,
}

/// The ledger entry of a tick, or of a range of skipped ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickView {
    /// The tick, or the first of a skipped range.
    pub tick_at: Micros,
    /// The last of a skipped range.
    pub until_tick_at: Option<Micros>,
    /// Its job.
    pub job: Option<JobId>,
    /// Why it was skipped.
    pub skip_reason: Option<String>,
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
    /// Manifests in the order of their keys, after `after` if given.
    pub async fn manifests(&self, after: Option<&Name>, most: u32) -> StoreResult<Page<ManifestView, Name>> {
        let most = most.clamp(1, PAGE_MAX);
        let after = after.map(ToString::to_string).unwrap_or_default();
        let items = self
            .db
            .read(Query::each(Statement::ListManifests, values![after, most], manifest_view_of))
            .await?;
        let next = next_of(&items, most, |view| view.key.clone());
        Ok(Page { items, next })
    }

    /// One manifest; `None`: there is none, or it was removed.
    pub async fn manifest(&self, key: &Name) -> StoreResult<Option<ManifestView>> {
        self.db.read(Query::first(Statement::GetManifest, values![key], manifest_view_of)).await
    }

    /// The ledger of a manifest's ticks, newest first.
    pub async fn ticks(
        &self,
        manifest: ManifestId,
        before: Option<Micros>,
        most: u32,
    ) -> StoreResult<Page<TickView, Micros>> {
        let most = most.clamp(1, PAGE_MAX);
        let of = |row: &Row| {
            Ok(TickView {
                tick_at: row.get("tick_at")?,
                until_tick_at: row.get("until_tick_at")?,
                job: row.get::<Option<i64>>("job_id")?.map(JobId),
                skip_reason: row.get("skip_reason")?,
            })
        };
        let params = values![manifest.0, before, most];
        let items = self.db.read(Query::each(Statement::ListTicks, params, of)).await?;
        let next = next_of(&items, most, |tick| tick.tick_at);
        Ok(Page { items, next })
    }
}
