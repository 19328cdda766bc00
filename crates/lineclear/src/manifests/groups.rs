//! Groups: a limit, a priority and a switch that jobs share.

use std::collections::BTreeMap;

use lineclear_model::{GroupSpec, Name};

use crate::db::statements::Statement;
use crate::db::{Column, Row, Session, Verb, values};
use crate::error::no_answer;
use crate::manifests::declaration;
use crate::manifests::declared_fields::DeclaredFields;
use crate::manifests::expected_version::ExpectedVersion;
use crate::manifests::merge::merge;
use crate::store::{Store, StoreError, StoreResult};

/// The group whose limit and switch apply to all jobs.
pub const GLOBAL_GROUP: &str = "*";

/// Where a change comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeSource {
    /// A declaration of the code, at each start. Fields that it has not changed since its last declaration keep edits.
    Declaration,
    /// An edit by a person.
    Edit,
}

/// Writes groups, all or none.
pub(crate) struct UpsertGroups {
    pub(crate) groups: BTreeMap<String, GroupSpec>,
    pub(crate) source: ChangeSource,
    pub(crate) advisory_key: i64,
    /// The version that the caller expects.
    pub(crate) expected: Option<ExpectedVersion>,
}

/// The result of writing groups.
#[derive(Default)]
pub(crate) struct GroupsWritten {
    /// Their versions.
    pub(crate) versions: BTreeMap<String, i64>,
    /// A priority changed: waiting jobs need another rank.
    pub(crate) priority_changed: bool,
}

impl Verb for UpsertGroups {
    type Answer = GroupsWritten;

    async fn run(&self, session: &mut Session) -> StoreResult<GroupsWritten> {
        session.rows(Statement::DeclareLock, values![self.advisory_key]).await?;
        if let Some(expected) = &self.expected {
            let names: Vec<String> = self.groups.keys().cloned().collect();
            let rows = session.rows(Statement::GroupRead, values![names]).await?;
            expected.check(rows.first().map(|row| row.get("version")).transpose()?)?;
        }
        upsert(session, &self.groups, self.source).await
    }
}

/// Writes groups over those that are stored. The caller holds the declaration lock.
pub(crate) async fn upsert(
    session: &mut Session,
    groups: &BTreeMap<String, GroupSpec>,
    source: ChangeSource,
) -> StoreResult<GroupsWritten> {
    let names: Vec<String> = groups.keys().cloned().collect();
    let mut before: BTreeMap<String, Row> = BTreeMap::new();
    for row in session.rows(Statement::GroupRead, values![names]).await? {
        before.insert(row.get("name")?, row);
    }
    let mut written = Vec::new();
    let mut answer = GroupsWritten::default();
    for (name, spec) in groups {
        let row = before.get(name);
        let (spec, declared, changed) = decide(row, spec, source)?;
        if let Some(row) = row {
            answer.versions.insert(name.clone(), row.get("version")?);
            answer.priority_changed |= row.get::<u8>("priority")? != spec.priority;
        }
        if changed {
            written.push((name.clone(), spec, declared));
        }
    }
    if !written.is_empty() {
        let columns = vec![
            Column::Texts(written.iter().map(|w| Some(w.0.clone())).collect()),
            Column::Ints(written.iter().map(|w| w.1.limit.map(i64::from)).collect()),
            Column::Ints(written.iter().map(|w| Some(i64::from(w.1.priority))).collect()),
            Column::Bools(written.iter().map(|w| w.1.enabled).collect()),
            Column::Texts(written.iter().map(|w| Some(w.2.clone())).collect()),
        ];
        for row in session.rows(Statement::GroupWrite, columns).await? {
            answer.versions.insert(row.get("name")?, row.get("version")?);
        }
    }
    Ok(answer)
}

/// The group to store, its last declaration, and whether either has changed.
fn decide(
    before: Option<&Row>,
    spec: &GroupSpec,
    source: ChangeSource,
) -> StoreResult<(GroupSpec, String, bool)> {
    let fields = DeclaredFields::of(spec);
    let Some(row) = before else {
        let declared = match source {
            ChangeSource::Declaration => fields.text(),
            ChangeSource::Edit => DeclaredFields::default().text(),
        };
        return Ok((spec.clone(), declared, true));
    };
    let current = GroupSpec {
        limit: row.get("max_active")?,
        priority: row.get("priority")?,
        enabled: row.get("enabled")?,
    };
    let declared: String = row.get("declared")?;
    let (next, declared_next) = match source {
        ChangeSource::Edit => (spec.clone(), declared.clone()),
        ChangeSource::Declaration => {
            let declared_before = DeclaredFields::parse(&declared)?;
            (merge(&declared_before, &fields, &DeclaredFields::of(&current)).read()?, fields.text())
        }
    };
    let changed = next != current || declared_next != declared;
    Ok((next, declared_next, changed))
}

/// Checks a group's name: a name, or `*` for the global group.
pub(crate) fn check_name(name: &str) -> StoreResult<()> {
    if name == GLOBAL_GROUP {
        return Ok(());
    }
    Name::new(name).map(drop).map_err(|e| StoreError::refused("group_name", format!("group {name:?}: {e}")))
}

impl Store {
    /// Writes groups by name; [`GLOBAL_GROUP`] applies to all jobs.
    pub async fn upsert_groups(
        &self,
        groups: BTreeMap<String, GroupSpec>,
        source: ChangeSource,
    ) -> StoreResult<()> {
        self.write_groups(groups, source, None).await.map(drop)
    }

    /// Writes a group on behalf of a person; returns its version. If its version is not an expected one, it is refused
    /// (`changed_since`).
    pub async fn edit_group(
        &self,
        name: &str,
        spec: GroupSpec,
        expected: Option<ExpectedVersion>,
    ) -> StoreResult<i64> {
        let groups = BTreeMap::from([(name.to_owned(), spec)]);
        let versions = self.write_groups(groups, ChangeSource::Edit, expected).await?;
        versions.get(name).copied().ok_or_else(|| no_answer("group_write"))
    }

    async fn write_groups(
        &self,
        groups: BTreeMap<String, GroupSpec>,
        source: ChangeSource,
        expected: Option<ExpectedVersion>,
    ) -> StoreResult<BTreeMap<String, i64>> {
        declaration::check_groups(&groups)?;
        let advisory_key = self.options.advisory_key("declare");
        let written = self.run(UpsertGroups { groups, source, advisory_key, expected }).await?;
        if written.priority_changed {
            self.rerank_soon().await;
        }
        Ok(written.versions)
    }
}
