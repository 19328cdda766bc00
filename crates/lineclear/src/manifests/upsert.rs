//! Writes manifests that code declares or people edit.

use std::collections::{BTreeMap, HashMap};

use lineclear_model::{Manifest, Micros, Name, SkipReason, plan_start};

use crate::db::statements::Statement;
use crate::db::{Session, Verb, values};
use crate::error::no_answer;
use crate::journey::plan::firing;
use crate::manifests::declaration;
use crate::manifests::declared_fields::DeclaredFields;
use crate::manifests::expected_version::ExpectedVersion;
use crate::manifests::groups::ChangeSource;
use crate::manifests::merge::merge;
use crate::manifests::pause::{from_now_on, move_jobs, skipped_until_now};
use crate::manifests::stored::{Stored, lock_states, read};
use crate::manifests::write::{ManifestRow, write, write_parents};
use crate::store::{Store, StoreError, StoreResult};

/// What a write did to a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was created.
    Created,
    /// It was changed.
    Updated,
    /// It was the same before.
    Unchanged,
}

/// The result of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edited {
    /// Whether it was created or changed.
    pub became: Written,
    /// Its new version.
    pub version: i64,
}

/// Writes manifests, all or none.
struct UpsertManifests {
    manifests: BTreeMap<Name, Manifest>,
    source: ChangeSource,
    advisory_key: i64,
    /// The version that the caller expects.
    expected: Option<ExpectedVersion>,
}

/// The result for each manifest, and limit keys that may have free capacity now.
pub(crate) struct Upserted {
    pub(crate) written: BTreeMap<Name, Written>,
    pub(crate) versions: BTreeMap<Name, i64>,
    pub(crate) limit_keys: Vec<String>,
}

impl Verb for UpsertManifests {
    type Answer = Upserted;

    async fn run(&self, session: &mut Session) -> StoreResult<Upserted> {
        session.rows(Statement::DeclareLock, values![self.advisory_key]).await?;
        lock_states(session, self.manifests.keys()).await?;
        let before = read(session, self.manifests.keys()).await?;
        if let Some(expected) = &self.expected {
            let present = before.values().find(|stored| !stored.removed);
            expected.check(present.map(|stored| stored.version))?;
        }
        upsert(session, &self.manifests, self.source, &before).await
    }
}

/// Writes manifests over those that are stored. The caller holds the declaration lock, and `before` is locked.
pub(crate) async fn upsert(
    session: &mut Session,
    manifests: &BTreeMap<Name, Manifest>,
    source: ChangeSource,
    before: &HashMap<Name, Stored>,
) -> StoreResult<Upserted> {
    let rows = session.rows(Statement::Now, values![]).await?;
    let now: Micros = rows.first().ok_or_else(|| no_answer("now"))?.get("now")?;
    let mut written = BTreeMap::new();
    let mut rows = Vec::new();
    let mut skipped = Vec::new();
    let (mut paused, mut resumed) = (Vec::new(), Vec::new());
    for (key, manifest) in manifests {
        let stored = before.get(key);
        let (row, result) = decide(manifest, source, stored, now)?;
        written.insert(key.clone(), result);
        if let (Some(row), Some(stored)) = (&row, stored) {
            skipped.extend(row.skips.and_then(|reason| skipped_until_now(stored, reason)));
            match (stored.enabled, row.manifest.enabled) {
                (true, false) => paused.push(stored.id),
                (false, true) => resumed.push(stored.id),
                _ => {}
            }
        }
        rows.extend(row);
    }
    firing::fire(session, Vec::new(), skipped).await?;
    let mut versions: BTreeMap<Name, i64> =
        before.iter().map(|(key, stored)| (key.clone(), stored.version)).collect();
    versions.extend(write(session, &rows).await?);
    write_parents(session, &rows).await?;
    let mut limit_keys = move_jobs(session, paused, false).await?;
    limit_keys.extend(move_jobs(session, resumed, true).await?);
    Ok(Upserted { written, versions, limit_keys })
}

/// The row to write, unless it is stored already.
fn decide(
    manifest: &Manifest,
    source: ChangeSource,
    before: Option<&Stored>,
    now: Micros,
) -> StoreResult<(Option<ManifestRow>, Written)> {
    let fields = DeclaredFields::of(manifest);
    let secret_fields = before.map(|before| before.secret_fields.clone()).unwrap_or_default();
    // A removed manifest starts over; it keeps its row and, with it, its history.
    let Some(before) = before.filter(|before| !before.removed) else {
        let (planned_through, next_due_at) = from_now_on(manifest, now);
        let declared = match source {
            ChangeSource::Declaration => fields.text(),
            ChangeSource::Edit => DeclaredFields::default().text(),
        };
        let (id, skips, manifest) = (before.map(|before| before.id), None, manifest.clone());
        let row = ManifestRow { id, manifest, declared, planned_through, next_due_at, skips, secret_fields };
        return Ok((Some(row), Written::Created));
    };
    let was = before.manifest.as_ref().ok();
    let (next, declared) = match source {
        ChangeSource::Edit => {
            // An unreadable declaration counts as none; otherwise every later declaration would be refused.
            let declared = DeclaredFields::parse(&before.declared)
                .map_or_else(|_| DeclaredFields::default().text(), |_| before.declared.clone());
            // In its stored form, so that writing it again changes nothing.
            (Manifest { overlap: Some(manifest.overlap()), ..manifest.clone() }, declared)
        }
        ChangeSource::Declaration => {
            let (was, declared) = (before.readable()?, before.declaration()?);
            check_owner(manifest, was, &declared)?;
            let merged = merge(&declared, &fields, &DeclaredFields::of(was)).read()?;
            check_merged(&merged)?;
            (merged, fields.text())
        }
    };
    let same = was == Some(&next);
    if same && declared == before.declared && before.columns_match(&next) {
        return Ok((None, Written::Unchanged));
    }
    let written = if same { Written::Unchanged } else { Written::Updated };
    // Ticks of the old schedule, or of a pause, are recorded as skipped, not as missed.
    let skips = if was.is_none_or(|was| next.schedule != was.schedule) {
        Some(SkipReason::Rescheduled)
    } else if next.enabled && !before.enabled {
        Some(SkipReason::Disabled)
    } else {
        None
    };
    let (planned_through, next_due_at) = match skips {
        Some(_) => from_now_on(&next, now),
        None => (before.planned_through, plan_start(&next.rules(), before.planned_through).next_due_at),
    };
    let id = Some(before.id);
    let row =
        ManifestRow { id, manifest: next, declared, planned_through, next_due_at, skips, secret_fields };
    Ok((Some(row), written))
}

/// A declaration and an edit may each be valid and conflict: an hour of jitter on a schedule that now fires every minute. The
/// edit must not be lost, so the declaration is refused.
fn check_merged(merged: &Manifest) -> StoreResult<()> {
    merged.check().map_err(|bad| {
        let why = format!(
            "{}: the declaration conflicts with a later edit: {bad}; edit the manifest again, or declare that field, too",
            merged.key
        );
        StoreError::refused("manifest_edit", why).of_manifest(&merged.key, "")
    })
}

/// A declaration changes only manifests of its own owner, and those without one. To hand a manifest over, a person edits its
/// owner.
fn check_owner(now: &Manifest, stored: &Manifest, declared: &DeclaredFields) -> StoreResult<()> {
    let declared = declared.word("owner");
    let (new, stored) = (now.owner.as_deref(), stored.owner.as_deref());
    if new == stored || new == declared.as_deref() || stored.is_none() {
        return Ok(());
    }
    let of = |owner: Option<&str>| owner.map_or("no owner".to_owned(), |owner| format!("{owner:?}"));
    let why = format!(
        "{} belongs to {}, and is declared for {}; edit its owner to hand it over",
        now.key,
        of(stored),
        of(new)
    );
    Err(StoreError::refused("manifest_owner", why).of_manifest(&now.key, "owner"))
}

impl Store {
    /// Writes manifests, all or none.
    pub async fn upsert_manifests(
        &self,
        manifests: impl IntoIterator<Item = Manifest>,
        source: ChangeSource,
    ) -> StoreResult<BTreeMap<Name, Written>> {
        let manifests = declaration::by_key(manifests)?;
        self.upsert(manifests, source, None).await.map(|upserted| upserted.written)
    }

    /// Writes a manifest on behalf of a person. If its version is not an expected one, it is refused (`changed_since`).
    pub async fn edit_manifest(
        &self,
        manifest: Manifest,
        expected: Option<ExpectedVersion>,
    ) -> StoreResult<Edited> {
        let key = manifest.key.clone();
        let upserted = self.upsert(declaration::by_key([manifest])?, ChangeSource::Edit, expected).await?;
        let edited = upserted.written.get(&key).zip(upserted.versions.get(&key));
        let (became, version) = edited.ok_or_else(|| no_answer("manifest_update"))?;
        Ok(Edited { became: *became, version: *version })
    }

    async fn upsert(
        &self,
        manifests: BTreeMap<Name, Manifest>,
        source: ChangeSource,
        expected: Option<ExpectedVersion>,
    ) -> StoreResult<Upserted> {
        let advisory_key = self.options.advisory_key("declare");
        let mut upserted = self.run(UpsertManifests { manifests, source, advisory_key, expected }).await?;
        self.wake_or_warn(std::mem::take(&mut upserted.limit_keys)).await;
        self.notify_manifests_changed().await;
        Ok(upserted)
    }
}
