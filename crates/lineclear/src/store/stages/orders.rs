//! Stage 1, standing orders: groups and manifests as people and releases want them, and the hint that they have changed.

use std::collections::BTreeMap;

use lineclear_model::{GroupSpec, Manifest, Name};
use tokio::sync::watch;

use crate::store::db::Db;
use crate::store::verbs::{group, manifest, notify, switch};
use crate::store::{Hint, Store, StoreResult, Voice, Written, declare};

impl Store {
    /// Groups as they shall be, by name; [`GLOBAL_GROUP`](crate::store::GLOBAL_GROUP) is everybody's.
    pub async fn upsert_groups(&self, groups: BTreeMap<String, GroupSpec>, voice: Voice) -> StoreResult<()> {
        self.write_groups(groups, voice, None).await
    }

    /// A group as a person wants it. With a version, only if it is still the one that the person has seen; otherwise it is refused
    /// (`changed_since`).
    pub async fn edit_group(&self, name: &str, spec: GroupSpec, seen: Option<i64>) -> StoreResult<()> {
        self.write_groups(BTreeMap::from([(name.to_owned(), spec)]), Voice::Edit, seen).await
    }

    async fn write_groups(
        &self,
        groups: BTreeMap<String, GroupSpec>,
        voice: Voice,
        seen: Option<i64>,
    ) -> StoreResult<()> {
        declare::check_groups(&groups)?;
        let advisory_key = self.options.advisory_key("declare");
        let repriced = self.run(group::UpsertGroups { groups, voice, advisory_key, seen }).await?;
        self.restamp(repriced).await
    }

    /// Manifests as they shall be, all or none, by key.
    pub async fn upsert_manifests(
        &self,
        manifests: impl IntoIterator<Item = Manifest>,
        voice: Voice,
    ) -> StoreResult<BTreeMap<Name, Written>> {
        let manifests = declare::by_key(manifests)?;
        self.upsert(manifests, voice, None).await
    }

    /// A manifest as a person wants it. With a version, only if it is still the one that the person has seen; otherwise it is
    /// refused (`changed_since`).
    pub async fn edit_manifest(&self, manifest: Manifest, seen: Option<i64>) -> StoreResult<Written> {
        let key = manifest.key.clone();
        let written = self.upsert(declare::by_key([manifest])?, Voice::Edit, seen).await?;
        Ok(written.get(&key).copied().unwrap_or(Written::Unchanged))
    }

    async fn upsert(
        &self,
        manifests: BTreeMap<Name, Manifest>,
        voice: Voice,
        seen: Option<i64>,
    ) -> StoreResult<BTreeMap<Name, Written>> {
        let advisory_key = self.options.advisory_key("declare");
        let upserted = self.run(manifest::UpsertManifests { manifests, voice, advisory_key, seen }).await?;
        self.wake_or_warn(upserted.limit_keys).await;
        self.orders_changed().await;
        Ok(upserted.written)
    }

    /// Pauses manifests: no new ticks, and waiting jobs step aside. Returns those that exist.
    pub async fn pause(&self, keys: Vec<Name>) -> StoreResult<Vec<Name>> {
        self.switch(keys, false).await
    }

    /// Resumes manifests. Ticks that fell into the pause are skipped.
    pub async fn resume(&self, keys: Vec<Name>) -> StoreResult<Vec<Name>> {
        self.switch(keys, true).await
    }

    async fn switch(&self, keys: Vec<Name>, enabled: bool) -> StoreResult<Vec<Name>> {
        let switched = self.run(switch::Switch { keys, enabled }).await?;
        self.wake_or_warn(switched.limit_keys).await;
        self.orders_changed().await;
        Ok(switched.found)
    }

    /// Tells planners here and elsewhere that something may be due earlier than they think. Only a hint: who does not
    /// hear it looks by itself.
    pub(in crate::store) async fn orders_changed(&self) {
        self.orders.send_replace(());
        if matches!(self.db, Db::Postgres(_)) {
            let notify = notify::Notify { channel: self.options.channel(), hint: Hint::Orders };
            if let Err(error) = self.run(notify).await {
                tracing::debug!(%error, "planners elsewhere could not be woken; they will look by themselves");
            }
        }
    }

    /// Changes whenever standing orders do.
    pub(crate) fn orders(&self) -> watch::Receiver<()> {
        self.orders.subscribe()
    }
}
