//! Writes manifests and their dependencies.

use std::collections::{HashMap, HashSet};

use lineclear_model::{Manifest, Micros, Name, SkipReason, tag};

use crate::db::statements::Statement;
use crate::db::{Column, Params, Row, Session, values};
use crate::journey::enqueue::insert::{group_ids, millis};
use crate::manifests::dependency_cycle::find_cycle;
use crate::store::{StoreError, StoreResult};

/// A manifest to insert or update.
pub(crate) struct ManifestRow {
    /// `None`: it is new.
    pub(crate) id: Option<i64>,
    pub(crate) manifest: Manifest,
    pub(crate) declared: String,
    pub(crate) planned_through: Micros,
    pub(crate) next_due_at: Option<Micros>,
    /// Why ticks that are due and not planned are skipped.
    pub(crate) skips: Option<SkipReason>,
    /// Fields that were marked as secret before.
    pub(crate) secret_fields: Vec<String>,
}

/// Inserts and updates manifests; returns the version of each.
pub(crate) async fn write(session: &mut Session, rows: &[ManifestRow]) -> StoreResult<Vec<(Name, i64)>> {
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

/// The columns that insert and update share, in the order of the statements.
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
        texts(|row| row.manifest.spec().with_past_secrets(&row.secret_fields).to_json()),
        texts(|row| row.manifest.overlap().as_str().to_owned()),
        ints(|row| i64::from(row.manifest.priority)),
        Column::Ints(rows.iter().map(|row| row.manifest.retries.map(i64::from)).collect()),
        Column::Ints(rows.iter().map(|row| row.manifest.timeout.map(millis)).collect()),
        Column::Bools(rows.iter().map(|row| row.manifest.enabled).collect()),
        Column::Times(rows.iter().map(|row| row.next_due_at).collect()),
        Column::Times(rows.iter().map(|row| Some(row.planned_through)).collect()),
        texts(|row| row.declared.clone()),
        texts(|row| row.manifest.on_dead.as_str().to_owned()),
        Column::Texts(rows.iter().map(|row| backoff_text(&row.manifest)).collect()),
        Column::Texts(rows.iter().map(|row| tag::text(&row.manifest.tags)).collect()),
    ]
}

/// The waits between tries, as a claim reads them.
fn backoff_text(manifest: &Manifest) -> Option<String> {
    manifest.retry.map(|backoff| serde_json::to_string(&backoff).expect("it has only text and numbers"))
}

/// Writes the dependencies of manifests, and refuses cycles.
pub(crate) async fn write_parents(session: &mut Session, rows: &[ManifestRow]) -> StoreResult<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut keys: HashSet<&Name> = rows.iter().map(|row| &row.manifest.key).collect();
    keys.extend(rows.iter().flat_map(|row| row.manifest.schedule.parents()));
    let keys: Vec<String> = keys.into_iter().map(ToString::to_string).collect();
    let mut ids: HashMap<String, i64> = HashMap::new();
    for row in session.rows(Statement::ManifestIds, values![keys]).await? {
        ids.insert(row.get("key")?, row.get("id")?);
    }
    let mut children = Vec::new();
    let (mut of_parent, mut of_child) = (Vec::new(), Vec::new());
    for row in rows {
        let child = ids[row.manifest.key.as_str()];
        children.push(child);
        for parent in row.manifest.schedule.parents() {
            let id = ids.get(parent.as_str()).copied().ok_or_else(|| {
                let why = format!("{} depends on {parent}, and there is no such manifest", row.manifest.key);
                StoreError::refused("parent_unknown", why).of_manifest(&row.manifest.key, "schedule.after")
            })?;
            of_parent.push(Some(id));
            of_child.push(Some(child));
        }
    }
    let params = Params {
        values: values![children.clone()],
        batch: vec![Column::Ints(of_parent), Column::Ints(of_child)],
    };
    session.rows(Statement::ManifestParents, params).await?;
    let rows = session.rows(Statement::ManifestCycle, values![children]).await?;
    let mut edges: Vec<(i64, i64)> = Vec::with_capacity(rows.len());
    let mut keys: HashMap<i64, String> = HashMap::new();
    for row in &rows {
        let child: i64 = row.get("child_id")?;
        edges.push((child, row.get("parent_id")?));
        keys.insert(child, row.get("key")?);
    }
    // The smallest key, so that the error is always the same.
    match find_cycle(&edges).into_iter().filter_map(|id| keys.remove(&id)).min() {
        Some(key) => {
            let why = format!("{key} depends on itself through its parents");
            let error = StoreError::refused("manifest_cycle", why);
            Err(match Name::new(&key) {
                Ok(key) => error.of_manifest(&key, "schedule.after"),
                Err(_) => error,
            })
        }
        None => Ok(()),
    }
}
