//! Manifests: standing orders, declared by code or edited by people.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use lineclear_model::{Manifest, Micros, Name, OnDead, Overlap, Payload, SkipReason, Spec, begin};

use super::circle::circle;
use super::enqueue::{group_ids, millis};
use super::group::Voice;
use super::merge::merge;
use super::said::Said;
use super::seen::Seen;
use super::switch::{from_now_on, move_jobs, skipped_until_now};
use super::turn;
use crate::store::db::{Column, Params, Row, Session, Value, Verb};
use crate::store::sql::Statement;
use crate::store::{StoreError, StoreResult};

/// What became of a manifest that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is new.
    Created,
    /// It is another than before.
    Updated,
    /// It was so before.
    Unchanged,
}

/// Verb: manifests as they shall be, all or none. The answer is in the order of the keys.
pub(crate) struct UpsertManifests {
    pub(crate) manifests: BTreeMap<Name, Manifest>,
    pub(crate) voice: Voice,
    pub(crate) advisory_key: i64,
    /// Only if this was seen of it.
    pub(crate) seen: Option<Seen>,
}

/// What became of each, and limit keys whose jobs may now try.
pub(crate) struct Upserted {
    pub(crate) written: BTreeMap<Name, Written>,
    pub(crate) versions: BTreeMap<Name, i64>,
    pub(crate) limit_keys: Vec<String>,
}

impl Verb for UpsertManifests {
    type Answer = Upserted;

    async fn run(&self, session: &mut Session) -> StoreResult<Upserted> {
        session.rows(Statement::DeclareLock, vec![Value::Int(Some(self.advisory_key))]).await?;
        lock_states(session, self.manifests.keys()).await?;
        let before = read(session, self.manifests.keys()).await?;
        if let Some(seen) = &self.seen {
            let is_there = before.values().find(|stored| !stored.removed);
            seen.check(is_there.map(|stored| stored.version))?;
        }
        upsert(session, &self.manifests, self.voice, &before).await
    }
}

/// Writes manifests beside what is stored. The caller has the declaration lock, and `before` is locked.
pub(crate) async fn upsert(
    session: &mut Session,
    manifests: &BTreeMap<Name, Manifest>,
    voice: Voice,
    before: &HashMap<Name, Stored>,
) -> StoreResult<Upserted> {
    let rows = session.rows(Statement::Now, Vec::<Value>::new()).await?;
    let now: Micros = rows.first().ok_or_else(|| super::no_answer("now"))?.get("now")?;
    let mut written = BTreeMap::new();
    let mut rows = Vec::new();
    let mut skipped = Vec::new();
    let (mut paused, mut resumed) = (Vec::new(), Vec::new());
    for (key, manifest) in manifests {
        let stored = before.get(key);
        let (row, became) = decide(manifest, voice, stored, now)?;
        written.insert(key.clone(), became);
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
    turn::take(session, Vec::new(), skipped).await?;
    let mut versions: BTreeMap<Name, i64> =
        before.iter().map(|(key, stored)| (key.clone(), stored.version)).collect();
    versions.extend(write(session, &rows).await?);
    write_parents(session, &rows).await?;
    let mut limit_keys = move_jobs(session, paused, false).await?;
    limit_keys.extend(move_jobs(session, resumed, true).await?);
    Ok(Upserted { written, versions, limit_keys })
}

/// The row to write, unless it is there already.
fn decide(
    manifest: &Manifest,
    voice: Voice,
    before: Option<&Stored>,
    now: Micros,
) -> StoreResult<(Option<ManifestRow>, Written)> {
    let said = Said::by(manifest);
    let marks = before.map(|before| before.marks.clone()).unwrap_or_default();
    // One that was removed begins anew; only its row, and with it its history, is the same.
    let Some(before) = before.filter(|before| !before.removed) else {
        let (planned_through, next_due_at) = from_now_on(manifest, now);
        let declared = if voice == Voice::Declaration { said.text() } else { Said::default().text() };
        let (id, skips, manifest) = (before.map(|before| before.id), None, manifest.clone());
        let row = ManifestRow { id, manifest, declared, planned_through, next_due_at, skips, marks };
        return Ok((Some(row), Written::Created));
    };
    let was = before.manifest.as_ref().ok();
    let (next, declared) = match voice {
        Voice::Edit => {
            // What nobody can read is as if nothing had been declared; otherwise no declaration would ever be taken again.
            let declared = Said::parse(&before.declared)
                .map_or_else(|_| Said::default().text(), |_| before.declared.clone());
            // As it is stored: then one that is written again is seen to be the same.
            (Manifest { overlap: Some(manifest.overlap()), ..manifest.clone() }, declared)
        }
        Voice::Declaration => {
            let (was, declared) = (before.readable()?, before.declaration()?);
            check_owner(manifest, was, &declared)?;
            let merged = merge(&declared, &said, &Said::by(was)).read()?;
            check_together(&merged)?;
            (merged, said.text())
        }
    };
    let same = was == Some(&next);
    if same && declared == before.declared {
        return Ok((None, Written::Unchanged));
    }
    let written = if same { Written::Unchanged } else { Written::Updated };
    // What another schedule would have had, or what fell into a pause, was not missed: it is skipped, and recorded.
    let skips = if was.is_none_or(|was| next.schedule != was.schedule) {
        Some(SkipReason::Rescheduled)
    } else if next.enabled && !before.enabled {
        Some(SkipReason::Disabled)
    } else {
        None
    };
    let (planned_through, next_due_at) = match skips {
        Some(_) => from_now_on(&next, now),
        None => (before.planned_through, begin(&next.rules(), before.planned_through).next_due_at),
    };
    let id = Some(before.id);
    let row = ManifestRow { id, manifest: next, declared, planned_through, next_due_at, skips, marks };
    Ok((Some(row), written))
}

/// What is declared and what was edited may each be right, and wrong together: an hour of jitter on what is now due every
/// minute. To drop the edit would be to lose it, so it is said.
fn check_together(merged: &Manifest) -> StoreResult<()> {
    merged.check().map_err(|bad| {
        let why = format!(
            "{}: what is declared now does not go with an edit that was made since: {bad}; edit it again, or declare that field, too",
            merged.key
        );
        StoreError::refused("manifest_edit", why).of_manifest(&merged.key, "")
    })
}

/// Code speaks for its own manifests: what another owner declared, or what a person gave to another, is not taken over.
/// A person hands a manifest over by editing its owner; one that is nobody's is anybody's to take.
fn check_owner(now: &Manifest, stored: &Manifest, declared: &Said) -> StoreResult<()> {
    let declared = declared.word("owner");
    let (said, stored) = (now.owner.as_deref(), stored.owner.as_deref());
    if said == stored || said == declared.as_deref() || stored.is_none() {
        return Ok(());
    }
    let of = |owner: Option<&str>| owner.map_or("nobody".to_owned(), |owner| format!("{owner:?}"));
    let why = format!(
        "{} belongs to {}, and is declared for {}; edit its owner to hand it over",
        now.key,
        of(stored),
        of(said)
    );
    Err(StoreError::refused("manifest_owner", why).of_manifest(&now.key, "owner"))
}

/// A manifest as it is stored.
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) key: Name,
    pub(crate) version: i64,
    /// What it says, or why that cannot be read: a person may still pause it, or write it anew.
    pub(crate) manifest: Result<Manifest, String>,
    pub(crate) enabled: bool,
    /// Fields that it marks as secret, or marked once.
    pub(crate) marks: Vec<String>,
    pub(crate) declared: String,
    pub(crate) planned_through: Micros,
    pub(crate) next_due_at: Option<Micros>,
    pub(crate) now: Micros,
    /// A declaration has left it out: only its row is left.
    pub(crate) removed: bool,
}

impl Stored {
    /// What it says, for those who cannot do without.
    pub(crate) fn readable(&self) -> StoreResult<&Manifest> {
        self.manifest.as_ref().map_err(|why| self.unreadable(why))
    }

    fn declaration(&self) -> StoreResult<Said> {
        Said::parse(&self.declared).map_err(|why| self.unreadable(&why.to_string()))
    }

    fn unreadable(&self, why: &str) -> StoreError {
        let why = format!("what is stored of {} cannot be read, so write it anew: {why}", self.key);
        StoreError::refused("unreadable", why)
    }
}

/// Locks what settling writes about manifests, before they themselves are locked.
pub(crate) async fn lock_states(session: &mut Session, keys: impl Iterator<Item = &Name>) -> StoreResult<()> {
    let keys = keys.map(ToString::to_string).collect();
    session.rows(Statement::StateLock, vec![Value::Texts(keys)]).await.map(drop)
}

/// Reads and locks manifests by key.
pub(crate) async fn read(
    session: &mut Session,
    keys: impl Iterator<Item = &Name>,
) -> StoreResult<HashMap<Name, Stored>> {
    let keys = keys.map(ToString::to_string).collect();
    let rows = session.rows(Statement::ManifestRead, vec![Value::Texts(keys)]).await?;
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
            marks: Spec::marks(&row.get::<String>("spec")?),
            manifest: manifest_of(row).map_err(|error| error.to_string()),
        };
        Ok((stored.key.clone(), stored))
    };
    rows.iter().map(stored).collect()
}

/// A manifest from its columns.
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

struct ManifestRow {
    /// `None`: it is new.
    id: Option<i64>,
    manifest: Manifest,
    declared: String,
    planned_through: Micros,
    next_due_at: Option<Micros>,
    /// Why ticks that are due and not planned will not be.
    skips: Option<SkipReason>,
    /// Fields that were marked as secret before.
    marks: Vec<String>,
}

/// Writes them; returns the version of each.
async fn write(session: &mut Session, rows: &[ManifestRow]) -> StoreResult<Vec<(Name, i64)>> {
    let names: HashSet<Name> = rows.iter().filter_map(|row| row.manifest.group.clone()).collect();
    let groups = group_ids(session, &names.iter().cloned().collect::<Vec<_>>()).await?;
    if let Some(unknown) = names.iter().find(|name| !groups.contains_key(*name)) {
        let of =
            rows.iter().find(|row| row.manifest.group.as_ref() == Some(unknown)).map(|row| &row.manifest.key);
        let key = of.map(|key| format!("{key}: ")).unwrap_or_default();
        let why = format!("{key}there is no group {unknown}; declare it before manifests use it");
        let error = StoreError::refused("group_unknown", why);
        return Err(match of {
            Some(key) => error.of_manifest(key, "group"),
            None => error,
        });
    }
    let (new, old): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.id.is_none());
    let mut written = Vec::new();
    if !new.is_empty() {
        let mut columns = columns(&new, &groups);
        columns.insert(0, Column::Texts(new.iter().map(|row| Some(row.manifest.key.to_string())).collect()));
        written.extend(session.rows(Statement::ManifestInsert, columns).await?);
    }
    if !old.is_empty() {
        let mut columns = columns(&old, &groups);
        columns.insert(0, Column::Ints(old.iter().map(|row| row.id).collect()));
        written.extend(session.rows(Statement::ManifestUpdate, columns).await?);
    }
    let version = |row: &Row| Ok((row.word("key", |key| Name::new(key).ok())?, row.get("version")?));
    written.iter().map(version).collect()
}

/// What inserting and updating share, in the order of the statements.
fn columns(rows: &[&ManifestRow], groups: &HashMap<Name, i64>) -> Vec<Column> {
    let texts =
        |of: fn(&ManifestRow) -> String| Column::Texts(rows.iter().map(|row| Some(of(row))).collect());
    let ints = |of: fn(&ManifestRow) -> i64| Column::Ints(rows.iter().map(|row| Some(of(row))).collect());
    vec![
        texts(|row| row.manifest.owner.clone().unwrap_or_default()),
        texts(|row| row.manifest.kind.to_string()),
        texts(|row| row.manifest.route.to_string()),
        texts(|row| row.manifest.input.as_str().to_owned()),
        Column::Ints(rows.iter().map(|row| row.manifest.group.as_ref().map(|group| groups[group])).collect()),
        texts(|row| row.manifest.spec().after(&row.marks).to_json()),
        texts(|row| row.manifest.overlap().as_str().to_owned()),
        ints(|row| i64::from(row.manifest.priority)),
        Column::Ints(rows.iter().map(|row| row.manifest.retries.map(i64::from)).collect()),
        Column::Ints(rows.iter().map(|row| row.manifest.timeout.map(millis)).collect()),
        Column::Bools(rows.iter().map(|row| row.manifest.enabled).collect()),
        Column::Times(rows.iter().map(|row| row.next_due_at).collect()),
        Column::Times(rows.iter().map(|row| Some(row.planned_through)).collect()),
        texts(|row| row.declared.clone()),
        texts(|row| row.manifest.on_dead.as_str().to_owned()),
    ]
}

/// Writes who waits for whom, and refuses circles.
async fn write_parents(session: &mut Session, rows: &[ManifestRow]) -> StoreResult<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut keys: HashSet<&Name> = rows.iter().map(|row| &row.manifest.key).collect();
    keys.extend(rows.iter().flat_map(|row| row.manifest.schedule.parents()));
    let keys = keys.into_iter().map(ToString::to_string).collect();
    let mut ids: HashMap<String, i64> = HashMap::new();
    for row in session.rows(Statement::ManifestIds, vec![Value::Texts(keys)]).await? {
        ids.insert(row.get("key")?, row.get("id")?);
    }
    let mut children = Vec::new();
    let (mut of_parent, mut of_child) = (Vec::new(), Vec::new());
    for row in rows {
        let child = ids[row.manifest.key.as_str()];
        children.push(child);
        for parent in row.manifest.schedule.parents() {
            let id = ids.get(parent.as_str()).copied().ok_or_else(|| {
                let why = format!("{} waits for {parent}, and there is no such manifest", row.manifest.key);
                StoreError::refused("parent_unknown", why).of_manifest(&row.manifest.key, "schedule.after")
            })?;
            of_parent.push(Some(id));
            of_child.push(Some(child));
        }
    }
    let params = Params {
        values: vec![Value::Ints(children.clone())],
        batch: vec![Column::Ints(of_parent), Column::Ints(of_child)],
    };
    session.rows(Statement::ManifestParents, params).await?;
    let rows = session.rows(Statement::ManifestCycle, vec![Value::Ints(children)]).await?;
    let mut waits: Vec<(i64, i64)> = Vec::with_capacity(rows.len());
    let mut keys: HashMap<i64, String> = HashMap::new();
    for row in &rows {
        let child: i64 = row.get("child_id")?;
        waits.push((child, row.get("parent_id")?));
        keys.insert(child, row.get("key")?);
    }
    // The same one every time it is asked.
    match circle(&waits).into_iter().filter_map(|id| keys.remove(&id)).min() {
        Some(key) => {
            let why = format!("{key} would wait for itself, over its parents");
            let error = StoreError::refused("manifest_cycle", why);
            Err(match Name::new(&key) {
                Ok(key) => error.of_manifest(&key, "schedule.after"),
                Err(_) => error,
            })
        }
        None => Ok(()),
    }
}
