//! The tables of the lease registry in the made-up server: a SQLite in memory, and the statements of SQLite in place of ours.

use std::time::{SystemTime, UNIX_EPOCH};

use mssql_mock_tds::{ColumnDefinition, ColumnValue, QueryResponse, Row, SqlDataType};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::packets::Statement;

const SCHEMA: &str = include_str!("../../../migrations/sqlite/0012_lock_lease.sql");
/// The statement of SQLite for each of ours, and the kinds of our parameters, which have the same names there: `b` are names, as bytes; `t` is
/// text; `n` are numbers.
const RUNNERS: &str = include_str!("../../../migrations/sqlite/0034_lock_runner.sql");
const STATEMENTS: [(&str, &str, &[&str]); 14] = [
    ("lease_current", include_str!("../../../sql/sqlite/lease_current.sql"), &["b:name", "b:store"]),
    (
        "lease_write",
        include_str!("../../../sql/sqlite/lease_write.sql"),
        &[
            "b:name",
            "b:store",
            "t:node",
            "t:machine",
            "n:pid",
            "t:incarnation",
            "t:kind",
            "n:epoch",
            "n:since_ago",
            "n:acquired_ago",
            "n:ended_ago",
            "n:renew_ms",
            "n:taken",
            "n:changed",
        ],
    ),
    (
        "event_write",
        include_str!("../../../sql/sqlite/event_write.sql"),
        &["b:name", "b:store", "t:what", "n:ago", "t:holder", "n:epoch", "t:before", "t:by", "t:why"],
    ),
    (
        "lease_contend",
        include_str!("../../../sql/sqlite/lease_contend.sql"),
        &["b:name", "b:store", "n:busy"],
    ),
    (
        "lease_end",
        include_str!("../../../sql/sqlite/lease_end.sql"),
        &["b:name", "b:store", "n:epoch", "t:incarnation"],
    ),
    (
        "lease_list",
        include_str!("../../../sql/sqlite/lease_list.sql"),
        &["b:name", "b:after", "b:after_store", "n:quiet", "n:limit"],
    ),
    (
        "lease_vanished",
        include_str!("../../../sql/sqlite/lease_vanished.sql"),
        &["b:name", "b:store", "t:incarnation", "n:epoch", "n:quiet"],
    ),
    ("lease_remove", include_str!("../../../sql/sqlite/lease_remove.sql"), &["b:name", "b:store"]),
    ("lease_clean", include_str!("../../../sql/sqlite/lease_clean.sql"), &["n:keep", "n:limit"]),
    ("event_clean", include_str!("../../../sql/sqlite/event_clean.sql"), &["n:keep", "n:limit"]),
    (
        "runner_write",
        include_str!("../../../sql/sqlite/runner_write.sql"),
        &[
            "t:id",
            "b:name",
            "b:store",
            "t:node",
            "t:machine",
            "n:pid",
            "t:incarnation",
            "t:kind",
            "t:state",
            "n:since_ago",
            "n:epoch",
            "n:failures",
            "t:error",
            "n:failed_ago",
            "n:renew_ms",
        ],
    ),
    ("runner_list", include_str!("../../../sql/sqlite/runner_list.sql"), &["n:limit"]),
    ("runner_clean", include_str!("../../../sql/sqlite/runner_clean.sql"), &["n:keep", "n:limit"]),
    ("event_list", include_str!("../../../sql/sqlite/event_list.sql"), &["b:name", "n:before", "n:limit"]),
];

pub(crate) struct Tables(Connection);

impl Default for Tables {
    fn default() -> Tables {
        Tables(Connection::open_in_memory().unwrap())
    }
}

impl Tables {
    /// Runs SQL past the locks.
    pub(crate) fn run(&self, sql: &str) {
        self.0.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// `None`: it is no statement of the registry.
    pub(crate) fn answer(&self, said: &Statement) -> Option<Result<QueryResponse, u32>> {
        let nothing = || Some(Ok(QueryResponse::new(Vec::new(), Vec::new())));
        match said.name() {
            // The first of the three makes all; the others find them there.
            "registry_schema" => {
                let made = self.0.execute_batch(&SCHEMA.replace(" if not exists", ""));
                return if made.is_ok() { nothing() } else { Some(Err(2714)) };
            }
            "runner_schema" => {
                let made = self.0.execute_batch(&RUNNERS.replace(" if not exists", ""));
                return if made.is_ok() { nothing() } else { Some(Err(2714)) };
            }
            "registry_events" | "registry_view" => return Some(Err(2714)),
            "begin transaction" | "commit transaction" => return nothing(),
            "registry_exists" => {
                let there = self.0.table_exists(None, "lock_lease").unwrap();
                return Some(Ok(response(&[("made", vec![Value::Integer(there.into())])])));
            }
            "runner_exists" => {
                let there = self.0.table_exists(None, "lock_runner").unwrap();
                return Some(Ok(response(&[("made", vec![Value::Integer(there.into())])])));
            }
            _ => {}
        }
        let (_, sql, names) = STATEMENTS.iter().find(|(name, ..)| *name == said.name())?;
        Some(self.execute(sql, names, said).map_err(|_| 208))
    }

    fn execute(&self, sql: &str, names: &[&str], said: &Statement) -> rusqlite::Result<QueryResponse> {
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap();
        let mut statement = self.0.prepare(sql)?;
        let mut bind = |name: &str, value: Value| -> rusqlite::Result<()> {
            match statement.parameter_index(name)? {
                Some(index) => statement.raw_bind_parameter(index, value),
                None => Ok(()),
            }
        };
        bind(":now", Value::Integer(now))?;
        for (no, name) in names.iter().enumerate() {
            let (kind, name) = name.split_at(1);
            let value = match kind {
                "b" => said.maybe_bytes(no + 1).map(|bytes| Value::Text(String::from_utf8(bytes).unwrap())),
                "t" => said.text(no + 1).map(Value::Text),
                _ => said.maybe_number(no + 1).map(Value::Integer),
            };
            bind(name, value.unwrap_or(Value::Null))?;
        }
        let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        let mut answer: Vec<(&str, Vec<Value>)> =
            columns.iter().map(|name| (name.as_str(), Vec::new())).collect();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            for (no, (_, values)) in answer.iter_mut().enumerate() {
                values.push(row.get(no)?);
            }
        }
        Ok(response(&answer))
    }
}

/// Columns by their names, as a server would give them.
fn response(columns: &[(&str, Vec<Value>)]) -> QueryResponse {
    let kind = |name: &str| match name {
        "lock_name" | "store" => SqlDataType::VarBinaryMax,
        "id" if columns.len() > 12 => SqlDataType::NVarCharMax,
        "state" | "last_error" | "incarnation" | "holder" | "node" | "machine" | "kind" | "what"
        | "before" | "by_whom" | "why" => SqlDataType::NVarCharMax,
        _ => SqlDataType::BigInt,
    };
    let cell = |name: &str, value: &Value| match (kind(name), value) {
        (SqlDataType::VarBinaryMax, Value::Text(text)) => {
            ColumnValue::VarBinaryMax(vec![text.clone().into_bytes()])
        }
        (SqlDataType::NVarCharMax, Value::Text(text)) => {
            ColumnValue::NVarCharMax(vec![text.encode_utf16().collect()])
        }
        (SqlDataType::NVarCharMax, Value::Null) => ColumnValue::NVarCharMaxNull,
        (SqlDataType::BigInt, Value::Integer(number)) => ColumnValue::BigInt(*number),
        (SqlDataType::BigInt, Value::Null) => ColumnValue::Null,
        (_, value) => panic!("{name} is {value:?}"),
    };
    let length = columns.first().map_or(0, |(_, values)| values.len());
    let rows = (0..length)
        .map(|row| Row::new(columns.iter().map(|(name, values)| cell(name, &values[row])).collect()));
    let definitions = columns.iter().map(|(name, _)| ColumnDefinition::new(*name, kind(name)));
    QueryResponse::new(definitions.collect(), rows.collect())
}
