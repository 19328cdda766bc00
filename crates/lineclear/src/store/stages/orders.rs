//! Stage 1, standing orders: groups and manifests as people and releases want them, and the hint that they have changed.

use std::collections::BTreeMap;

use lineclear_model::{GroupSpec, Manifest, Name};
use tokio::sync::watch;

use crate::store::db::Db;
use crate::store::verbs::{group, manifest, no_answer, notify, remove, switch};
use crate::store::{Hint, Seen, Store, StoreResult, Voice, Written, declare, door};

/// What became of a manifest that a person wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edited {
    /// Whether it is new, or another.
    pub became: Written,
    /// What it can be seen by from now on.
    pub version: i64,
}

impl Store {
    /// Groups as they shall be, by name; [`GLOBAL_GROUP`](crate::store::GLOBAL_GROUP) is everybody's.
    pub async fn upsert_groups(&self, groups: BTreeMap<String, GroupSpec>, voice: Voice) -> StoreResult<()> {
        self.write_groups(groups, voice, None).await.map(drop)
    }

    /// A group as a person wants it; returns its version. If the person has seen something of it, only if it is still so; otherwise it
    /// is refused (`changed_since`).
    pub async fn edit_group(&self, name: &str, spec: GroupSpec, seen: Option<Seen>) -> StoreResult<i64> {
        let groups = BTreeMap::from([(name.to_owned(), spec)]);
        let versions = self.write_groups(groups, Voice::Edit, seen).await?;
        versions.get(name).copied().ok_or_else(|| no_answer("group_write"))
    }

    async fn write_groups(
        &self,
        groups: BTreeMap<String, GroupSpec>,
        voice: Voice,
        seen: Option<Seen>,
    ) -> StoreResult<BTreeMap<String, i64>> {
        declare::check_groups(&groups)?;
        let advisory_key = self.options.advisory_key("declare");
        let written = self.run(group::UpsertGroups { groups, voice, advisory_key, seen }).await?;
        if written.repriced {
            self.restamp_soon().await;
        }
        Ok(written.versions)
    }

    /// Manifests as they shall be, all or none, by key.
    pub async fn upsert_manifests(
        &self,
        manifests: impl IntoIterator<Item = Manifest>,
        voice: Voice,
    ) -> StoreResult<BTreeMap<Name, Written>> {
        let manifests = declare::by_key(manifests)?;
        self.upsert(manifests, voice, None).await.map(|upserted| upserted.written)
    }

    /// A manifest as a person wants it. If the person has seen something of it, only if it is still so; otherwise it is refused
    /// (`changed_since`).
    pub async fn edit_manifest(&self, manifest: Manifest, seen: Option<Seen>) -> StoreResult<Edited> {
        let key = manifest.key.clone();
        let upserted = self.upsert(declare::by_key([manifest])?, Voice::Edit, seen).await?;
        let edited = upserted.written.get(&key).zip(upserted.versions.get(&key));
        let (became, version) = edited.ok_or_else(|| no_answer("manifest_update"))?;
        Ok(Edited { became: *became, version: *version })
    }

    /// A person removes a manifest; false if there is none. Waiting jobs that were planned for it are cancelled; its running jobs
    /// finish, and its history, ledger and dead letters stay. One that others wait for is refused (`manifest_has_dependents`). Code
    /// that declares it again makes it anew.
    pub async fn remove_manifest(&self, key: Name, seen: Option<Seen>, by: &str) -> StoreResult<bool> {
        door::check_text(by)?;
        let advisory_key = self.options.advisory_key("declare");
        let removed = self.run(remove::RemoveManifest { key, by: by.to_owned(), advisory_key, seen }).await?;
        let Some(limit_keys) = removed else { return Ok(false) };
        self.wake_or_warn(limit_keys).await;
        self.orders_changed().await;
        Ok(true)
    }

    async fn upsert(
        &self,
        manifests: BTreeMap<Name, Manifest>,
        voice: Voice,
        seen: Option<Seen>,
    ) -> StoreResult<manifest::Upserted> {
        let advisory_key = self.options.advisory_key("declare");
        let mut upserted =
            self.run(manifest::UpsertManifests { manifests, voice, advisory_key, seen }).await?;
        self.wake_or_warn(std::mem::take(&mut upserted.limit_keys)).await;
        self.orders_changed().await;
        Ok(upserted)
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
