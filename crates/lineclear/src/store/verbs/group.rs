//! Groups: limit, priority and switch that jobs share.

use std::collections::BTreeMap;

use lineclear_model::secret::without_value;
use lineclear_model::{GroupSpec, Name};
use serde_json::{Map, Value as Json};

use super::merge::merge;
use crate::store::db::{Column, Row, Session, Value, Verb};
use crate::store::sql::Statement;
use crate::store::{StoreError, StoreResult};

/// The group whose limit and switch are everybody's.
pub const GLOBAL_GROUP: &str = "*";

/// Rows per statement when a group's waiting jobs get another rank.
const RESTAMP_MAX: i64 = 5_000;

/// Who speaks: the code, at each start, or a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// What the code says. Fields that it has not changed since it last spoke keep a person's edits.
    Declaration,
    /// What a person says, now.
    Edit,
}

/// Verb: groups as they shall be. `*` is everybody's.
pub(crate) struct UpsertGroups {
    pub(crate) groups: BTreeMap<String, GroupSpec>,
    pub(crate) voice: Voice,
    pub(crate) advisory_key: i64,
    /// Only if those that are there have this version.
    pub(crate) seen: Option<i64>,
}

/// A group whose priority changed: its waiting jobs need another rank.
pub(crate) struct Restamp(pub(crate) i64);

impl Verb for UpsertGroups {
    type Answer = Vec<Restamp>;

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Restamp>> {
        session.rows(Statement::DeclareLock, vec![Value::Int(Some(self.advisory_key))]).await?;
        if let Some(seen) = self.seen {
            let names = Value::Texts(self.groups.keys().cloned().collect());
            let rows = session.rows(Statement::GroupRead, vec![names]).await?;
            if rows.first().map(|row| row.get::<i64>("version")).transpose()? != Some(seen) {
                let why = "it has changed since it was looked at; look again";
                return Err(StoreError::refused("changed_since", why));
            }
        }
        upsert(session, &self.groups, self.voice).await
    }
}

/// Writes groups beside what is stored. The caller has the declaration lock.
pub(crate) async fn upsert(
    session: &mut Session,
    groups: &BTreeMap<String, GroupSpec>,
    voice: Voice,
) -> StoreResult<Vec<Restamp>> {
    let names: Vec<String> = groups.keys().cloned().collect();
    let mut before: BTreeMap<String, Row> = BTreeMap::new();
    for row in session.rows(Statement::GroupRead, vec![Value::Texts(names)]).await? {
        before.insert(row.get("name")?, row);
    }
    let mut written = Vec::new();
    let mut repriced = Vec::new();
    for (name, spec) in groups {
        let (spec, declared, changed) = decide(before.get(name), spec, voice)?;
        if changed {
            if let Some(row) = before.get(name)
                && row.get::<u8>("priority")? != spec.priority
            {
                repriced.push(Restamp(row.get("id")?));
            }
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
        session.rows(Statement::GroupWrite, columns).await?;
    }
    Ok(repriced)
}

/// The group as it shall be, what the code last said of it, and whether that is news.
fn decide(before: Option<&Row>, spec: &GroupSpec, voice: Voice) -> StoreResult<(GroupSpec, String, bool)> {
    let said = object(spec);
    let Some(row) = before else {
        let declared = if voice == Voice::Declaration { text(&said) } else { text(&Map::new()) };
        return Ok((spec.clone(), declared, true));
    };
    let current = GroupSpec {
        limit: row.get("max_active")?,
        priority: row.get("priority")?,
        enabled: row.get("enabled")?,
    };
    let declared: String = row.get("declared")?;
    let (next, declared_next) = match voice {
        Voice::Edit => (spec.clone(), declared.clone()),
        Voice::Declaration => {
            let said_before = parse(&declared)?;
            (from_object(merge(&said_before, &said, &object(&current)))?, text(&said))
        }
    };
    let changed = next != current || declared_next != declared;
    Ok((next, declared_next, changed))
}

fn object(spec: &GroupSpec) -> Map<String, Json> {
    match serde_json::to_value(spec) {
        Ok(Json::Object(map)) => map,
        _ => unreachable!("a struct is an object"),
    }
}

fn from_object(map: Map<String, Json>) -> StoreResult<GroupSpec> {
    serde_json::from_value(Json::Object(map))
        .map_err(|e| StoreError::Corrupt { what: without_value(&e.to_string()) })
}

/// The text of a declaration; keys are sorted, so equal declarations are equal texts.
pub(crate) fn text(map: &Map<String, Json>) -> String {
    serde_json::to_string(map).expect("a map of JSON is JSON")
}

/// A declaration as it was stored.
pub(crate) fn parse(declared: &str) -> StoreResult<Map<String, Json>> {
    let corrupt = |e: serde_json::Error| format!("declared: {}", without_value(&e.to_string()));
    serde_json::from_str(declared).map_err(|e| StoreError::Corrupt { what: corrupt(e) })
}

/// Verb: a batch of a group's waiting jobs gets the rank that its priority asks for; returns where to go on.
pub(crate) struct RestampBatch {
    pub(crate) group: i64,
    pub(crate) after: i64,
}

impl Verb for RestampBatch {
    type Answer = Option<i64>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Option<i64>> {
        let params =
            vec![Value::Int(Some(self.group)), Value::Int(Some(self.after)), Value::Int(Some(RESTAMP_MAX))];
        let rows = session.rows(Statement::GroupRestamp, params).await?;
        rows.first().map_or(Ok(None), |row| row.get("last"))
    }
}

/// Checks a group's name: a name, or `*` for everybody.
pub(crate) fn check_name(name: &str) -> StoreResult<()> {
    if name == GLOBAL_GROUP {
        return Ok(());
    }
    Name::new(name).map(drop).map_err(|e| StoreError::refused("group_name", format!("group {name:?}: {e}")))
}
