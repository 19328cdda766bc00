//! Stage 1, standing orders: groups and manifests as people and releases want them, and the hint that they have changed.

use std::collections::BTreeMap;

use lineclear_model::{Manifest, Name};
use tokio::sync::watch;

use crate::db::Db;
use crate::error::no_answer;
use crate::manifests::{declaration, upsert};
use crate::node::notify;
use crate::store::{ChangeSource, ExpectedVersion, Hint, Store, StoreResult, Written};

/// What became of a manifest that a person wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edited {
    /// Whether it is new, or another.
    pub became: Written,
    /// What it can be seen by from now on.
    pub version: i64,
}

impl Store {
    /// Manifests as they shall be, all or none, by key.
    pub async fn upsert_manifests(
        &self,
        manifests: impl IntoIterator<Item = Manifest>,
        voice: ChangeSource,
    ) -> StoreResult<BTreeMap<Name, Written>> {
        let manifests = declaration::by_key(manifests)?;
        self.upsert(manifests, voice, None).await.map(|upserted| upserted.written)
    }

    /// A manifest as a person wants it. If the person has seen something of it, only if it is still so; otherwise it is refused
    /// (`changed_since`).
    pub async fn edit_manifest(
        &self,
        manifest: Manifest,
        seen: Option<ExpectedVersion>,
    ) -> StoreResult<Edited> {
        let key = manifest.key.clone();
        let upserted = self.upsert(declaration::by_key([manifest])?, ChangeSource::Edit, seen).await?;
        let edited = upserted.written.get(&key).zip(upserted.versions.get(&key));
        let (became, version) = edited.ok_or_else(|| no_answer("manifest_update"))?;
        Ok(Edited { became: *became, version: *version })
    }

    async fn upsert(
        &self,
        manifests: BTreeMap<Name, Manifest>,
        voice: ChangeSource,
        seen: Option<ExpectedVersion>,
    ) -> StoreResult<upsert::Upserted> {
        let advisory_key = self.options.advisory_key("declare");
        let mut upserted = self.run(upsert::UpsertManifests { manifests, voice, advisory_key, seen }).await?;
        self.wake_or_warn(std::mem::take(&mut upserted.limit_keys)).await;
        self.orders_changed().await;
        Ok(upserted)
    }

    /// Tells planners here and elsewhere that something may be due earlier than they think. Only a hint: who does not
    /// hear it looks by itself.
    pub(crate) async fn orders_changed(&self) {
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
