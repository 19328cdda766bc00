//! Groups: limit, priority and switch that jobs share.

use std::collections::BTreeMap;

use lineclear_model::{GroupSpec, Name};

use crate::db::statements::Statement;
use crate::db::{Column, Row, Session, Value, Verb};
use crate::error::no_answer;
use crate::manifests::declaration;
use crate::manifests::declared_fields::Said;
use crate::manifests::expected_version::ExpectedVersion;
use crate::manifests::merge::merge;
use crate::store::{Store, StoreError, StoreResult};

/// The group whose limit and switch are everybody's.
pub const GLOBAL_GROUP: &str = "*";

/// Rows per statement when a group's waiting jobs get another rank.
pub(crate) const RERANK_MAX: i64 = 5_000;

/// Who speaks: the code, at each start, or a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeSource {
    /// What the code says. Fields that it has not changed since it last spoke keep a person's edits.
    Declaration,
    /// What a person says, now.
    Edit,
}

/// Verb: groups as they shall be. `*` is everybody's.
pub(crate) struct UpsertGroups {
    pub(crate) groups: BTreeMap<String, GroupSpec>,
    pub(crate) voice: ChangeSource,
    pub(crate) advisory_key: i64,
    /// Only if this was seen of it.
    pub(crate) seen: Option<ExpectedVersion>,
}

/// What became of groups that were written.
#[derive(Default)]
pub(crate) struct GroupsWritten {
    /// The versions of all of them.
    pub(crate) versions: BTreeMap<String, i64>,
    /// The priority of some changed: their waiting jobs need another rank.
    pub(crate) repriced: bool,
}

impl Verb for UpsertGroups {
    type Answer = GroupsWritten;

    async fn run(&self, session: &mut Session) -> StoreResult<GroupsWritten> {
        session.rows(Statement::DeclareLock, vec![Value::Int(Some(self.advisory_key))]).await?;
        if let Some(seen) = &self.seen {
            let names = Value::Texts(self.groups.keys().cloned().collect());
            let rows = session.rows(Statement::GroupRead, vec![names]).await?;
            seen.check(rows.first().map(|row| row.get("version")).transpose()?)?;
        }
        upsert(session, &self.groups, self.voice).await
    }
}

/// Writes groups beside what is stored. The caller has the declaration lock.
pub(crate) async fn upsert(
    session: &mut Session,
    groups: &BTreeMap<String, GroupSpec>,
    voice: ChangeSource,
) -> StoreResult<GroupsWritten> {
    let names: Vec<String> = groups.keys().cloned().collect();
    let mut before: BTreeMap<String, Row> = BTreeMap::new();
    for row in session.rows(Statement::GroupRead, vec![Value::Texts(names)]).await? {
        before.insert(row.get("name")?, row);
    }
    let mut written = Vec::new();
    let mut answer = GroupsWritten::default();
    for (name, spec) in groups {
        let row = before.get(name);
        let (spec, declared, changed) = decide(row, spec, voice)?;
        if let Some(row) = row {
            answer.versions.insert(name.clone(), row.get("version")?);
            answer.repriced |= row.get::<u8>("priority")? != spec.priority;
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

/// The group as it shall be, what the code last said of it, and whether that is news.
fn decide(
    before: Option<&Row>,
    spec: &GroupSpec,
    voice: ChangeSource,
) -> StoreResult<(GroupSpec, String, bool)> {
    let said = Said::by(spec);
    let Some(row) = before else {
        let declared = if voice == ChangeSource::Declaration { said.text() } else { Said::default().text() };
        return Ok((spec.clone(), declared, true));
    };
    let current = GroupSpec {
        limit: row.get("max_active")?,
        priority: row.get("priority")?,
        enabled: row.get("enabled")?,
    };
    let declared: String = row.get("declared")?;
    let (next, declared_next) = match voice {
        ChangeSource::Edit => (spec.clone(), declared.clone()),
        ChangeSource::Declaration => {
            let said_before = Said::parse(&declared)?;
            (merge(&said_before, &said, &Said::by(&current)).read()?, said.text())
        }
    };
    let changed = next != current || declared_next != declared;
    Ok((next, declared_next, changed))
}

/// Verb: a batch of waiting jobs gets the rank that the new priority of their group asks for; false if none needs it. The group
/// remembers how far it is, so whoever comes goes on, and to do a batch twice changes nothing.
pub(crate) struct RerankBatch {
    pub(crate) most: i64,
}

impl Verb for RerankBatch {
    type Answer = bool;

    // Jobs are let go before their group is written: locks are taken in one order, and that would be the other one.
    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<bool> {
        let rows = session.rows(Statement::GroupRerankNext, Vec::<Value>::new()).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let int = |number| Value::Int(Some(number));
        let (group, version, after): (i64, i64, i64) =
            (row.get("id")?, row.get("version")?, row.get("restamp_after")?);
        let params = vec![int(group), int(after), int(self.most)];
        let rows = session.rows(Statement::GroupRerank, params).await?;
        let last = rows.first().map_or(Ok(None), |row| row.get("last"))?;
        let params = vec![int(group), int(version), int(after), Value::Int(last)];
        session.rows(Statement::GroupReranked, params).await?;
        Ok(true)
    }
}

/// Checks a group's name: a name, or `*` for everybody.
pub(crate) fn check_name(name: &str) -> StoreResult<()> {
    if name == GLOBAL_GROUP {
        return Ok(());
    }
    Name::new(name).map(drop).map_err(|e| StoreError::refused("group_name", format!("group {name:?}: {e}")))
}

impl Store {
    /// Groups as they shall be, by name; [`GLOBAL_GROUP`](crate::store::GLOBAL_GROUP) is everybody's.
    pub async fn upsert_groups(
        &self,
        groups: BTreeMap<String, GroupSpec>,
        voice: ChangeSource,
    ) -> StoreResult<()> {
        self.write_groups(groups, voice, None).await.map(drop)
    }

    /// A group as a person wants it; returns its version. If the person has seen something of it, only if it is still so; otherwise it
    /// is refused (`changed_since`).
    pub async fn edit_group(
        &self,
        name: &str,
        spec: GroupSpec,
        seen: Option<ExpectedVersion>,
    ) -> StoreResult<i64> {
        let groups = BTreeMap::from([(name.to_owned(), spec)]);
        let versions = self.write_groups(groups, ChangeSource::Edit, seen).await?;
        versions.get(name).copied().ok_or_else(|| no_answer("group_write"))
    }

    async fn write_groups(
        &self,
        groups: BTreeMap<String, GroupSpec>,
        voice: ChangeSource,
        seen: Option<ExpectedVersion>,
    ) -> StoreResult<BTreeMap<String, i64>> {
        declaration::check_groups(&groups)?;
        let advisory_key = self.options.advisory_key("declare");
        let written = self.run(UpsertGroups { groups, voice, advisory_key, seen }).await?;
        if written.repriced {
            self.rerank_soon().await;
        }
        Ok(written.versions)
    }
}
