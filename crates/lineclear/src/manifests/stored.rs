//! Manifests as they are stored: lock, read, decode.

use std::collections::HashMap;
use std::time::Duration;

use lineclear_model::{Backoff, Manifest, Micros, Name, OnDead, Overlap, Payload, Spec, tag};

use crate::db::statements::Statement;
use crate::db::{Row, Session, values};
use crate::journey::claim::Claim;
use crate::manifests::declared_fields::DeclaredFields;
use crate::store::{StoreError, StoreResult};

/// A manifest as it is stored.
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) key: Name,
    pub(crate) version: i64,
    /// The manifest, or why it cannot be read: a person may still pause or replace it.
    pub(crate) manifest: Result<Manifest, String>,
    pub(crate) enabled: bool,
    /// The waits between tries, as claims read them.
    backoff: Option<Backoff>,
    /// The tags, as new jobs get them.
    tags: Option<String>,
    /// Fields that it marks or once marked as secret.
    pub(crate) secret_fields: Vec<String>,
    pub(crate) declared: String,
    pub(crate) planned_through: Micros,
    pub(crate) next_due_at: Option<Micros>,
    pub(crate) now: Micros,
    /// It was removed; its row stays for the history.
    pub(crate) removed: bool,
}

impl Stored {
    /// The manifest; refused if it cannot be read.
    pub(crate) fn readable(&self) -> StoreResult<&Manifest> {
        self.manifest.as_ref().map_err(|why| self.unreadable(why))
    }

    /// Whether the columns that repeat a part of the spec agree with it. A node of an older version writes the spec alone.
    pub(crate) fn columns_match(&self, manifest: &Manifest) -> bool {
        self.backoff == manifest.retry && self.tags == tag::text(&manifest.tags)
    }

    /// The fields of its last declaration; refused if they cannot be read.
    pub(crate) fn declaration(&self) -> StoreResult<DeclaredFields> {
        DeclaredFields::parse(&self.declared).map_err(|why| self.unreadable(&why.to_string()))
    }

    fn unreadable(&self, why: &str) -> StoreError {
        let why = format!("the stored manifest {} cannot be read; write it again: {why}", self.key);
        StoreError::refused("unreadable", why)
    }
}

/// Locks the state rows of manifests. They come before the manifests in the lock order.
pub(crate) async fn lock_states(session: &mut Session, keys: impl Iterator<Item = &Name>) -> StoreResult<()> {
    let keys: Vec<String> = keys.map(ToString::to_string).collect();
    session.rows(Statement::StateLock, values![keys]).await.map(drop)
}

/// Reads and locks manifests by key.
pub(crate) async fn read(
    session: &mut Session,
    keys: impl Iterator<Item = &Name>,
) -> StoreResult<HashMap<Name, Stored>> {
    let keys: Vec<String> = keys.map(ToString::to_string).collect();
    let rows = session.rows(Statement::ManifestRead, values![keys]).await?;
    let stored = |row: &Row| {
        let stored = Stored {
            id: row.get("id")?,
            key: row.word("key", |key| Name::new(key).ok())?,
            version: row.get("version")?,
            declared: row.get("declared")?,
            planned_through: row.get("planned_through")?,
            next_due_at: row.get("next_due_at")?,
            now: row.get("now")?,
            removed: row.get("removed")?,
            enabled: row.get("enabled")?,
            backoff: Claim::backoff(row)?,
            tags: row.get("tags")?,
            secret_fields: Spec::secret_fields(&row.get::<String>("spec")?),
            manifest: manifest_of(row).map_err(|error| error.to_string()),
        };
        Ok((stored.key.clone(), stored))
    };
    rows.iter().map(stored).collect()
}

/// Decodes a manifest.
pub(crate) fn manifest_of(row: &Row) -> StoreResult<Manifest> {
    let name = |column| row.word(column, |text| Name::new(text).ok());
    let spec: Spec = row.word("spec", |text| Spec::from_json(text).ok())?;
    let group: Option<String> = row.get("group_name")?;
    let owner: String = row.get("owner")?;
    Ok(Manifest {
        key: name("key")?,
        owner: (!owner.is_empty()).then_some(owner),
        kind: name("kind")?,
        route: name("route")?,
        group: group.map(|_| name("group_name")).transpose()?,
        input: row.word("input", |text| Payload::parse(text).ok())?,
        schedule: spec.schedule,
        misfire: spec.misfire,
        overlap: Some(row.word("overlap", Overlap::from_word)?),
        exclude: spec.exclude,
        excluded: spec.excluded,
        jitter: spec.jitter,
        retries: row.get("retries")?,
        retry: spec.retry,
        timeout: row.get::<Option<u64>>("timeout_ms")?.map(Duration::from_millis),
        on_dead: row.word("on_dead", OnDead::from_word)?,
        priority: row.get("priority")?,
        enabled: row.get("enabled")?,
        tags: spec.tags,
        secret: spec.secret,
    })
}
