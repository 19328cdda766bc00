//! Compares our tables with those that the migrations make. Tables and columns that users have added are ignored.

mod sequences;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Check, CheckName, a_few, many};
pub use sequences::{Sequence, sequences};

/// Everything that the migrations make, in a form that can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Columns of tables, in their order.
    pub columns: Vec<Column>,
    /// Named constraints: keys and checks.
    pub rules: Vec<Rule>,
    /// Indexes that do not belong to a constraint.
    pub indexes: Vec<Index>,
    /// Views, functions and sequences.
    pub others: Vec<Other>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Its type, as the database writes it.
    pub kind: String,
    /// It is not nullable.
    pub required: bool,
    /// Its default.
    pub default: Option<String>,
    /// How the database generates its values: `generated always as identity`.
    pub given: Option<String>,
}

/// A constraint of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// As the database writes it.
    pub definition: String,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// As the database writes it, with `{schema}` for the name of our schema.
    pub definition: String,
    /// It can be used: its build did not fail.
    pub valid: bool,
    /// It is being built right now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub building: bool,
}

/// A view, a function, a sequence, a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// Which of these.
    pub what: String,
    /// Its name.
    pub name: String,
    /// The SQL that makes it, with `{schema}` for the name of our schema.
    pub definition: String,
}

/// How SQL is written.
#[derive(Clone, Debug)]
pub enum Dialect {
    /// PostgreSQL, with the quoted name of our schema, and its version: each version writes views differently.
    Postgres {
        /// Quoted.
        schema: String,
        /// Such as 15.
        major: i64,
    },
    /// SQLite.
    Sqlite,
}

impl Dialect {
    fn table(&self, name: &str) -> String {
        match self {
            Dialect::Postgres { schema, .. } => format!("{schema}.{name}"),
            Dialect::Sqlite => name.to_owned(),
        }
    }

    fn filled(&self, definition: &str) -> String {
        match self {
            Dialect::Postgres { schema, .. } => definition.replace("{schema}", schema),
            Dialect::Sqlite => definition.to_owned(),
        }
    }

    /// Builds it concurrently, so that nodes can work meanwhile.
    fn index(&self, definition: &str) -> String {
        let filled = self.filled(definition);
        match self {
            Dialect::Postgres { .. } => filled.replacen(" INDEX ", " INDEX CONCURRENTLY ", 1),
            Dialect::Sqlite => filled,
        }
    }

    fn drop_index(&self, name: &str) -> String {
        match self {
            Dialect::Postgres { schema, .. } => format!("DROP INDEX CONCURRENTLY {schema}.{name};"),
            Dialect::Sqlite => format!("DROP INDEX {name};"),
        }
    }
}

/// An empty table, or a sequence that starts again, would be worse than none: ids would be used twice, and jobs mixed up.
const BACKUP: &str = "stop the nodes, and restore a backup: the data is gone, and no SQL brings it back";

/// For differences in the definition of a SQLite table.
const REBUILD: &str = "stop the nodes, and restore a backup from before the table was rebuilt: SQLite cannot change this in \
                       an existing table";

/// The version of PostgreSQL whose way of writing views we expect.
const VIEWS_OF: i64 = 15;

/// The differences, and the SQL that fixes them.
#[derive(Default)]
struct Drift {
    /// Part of a table's definition differs, and SQLite cannot change it.
    fixed: bool,
    /// Indexes that are being built, which is no problem.
    coming: Vec<String>,
    what: Vec<String>,
    sql: Vec<String>,
    /// Something is missing that no SQL can bring back.
    beyond: bool,
}

impl Drift {
    fn found(&mut self, what: String, sql: String) {
        self.what.push(what);
        self.sql.push(sql);
    }

    /// A difference that SQLite cannot change.
    fn fixed(&mut self, what: String) {
        self.what.push(what);
        self.fixed = true;
    }

    /// A difference that SQL cannot fix.
    fn gone(&mut self, what: String) {
        self.what.push(what);
        self.beyond = true;
    }
}

/// Checks of tables and indexes.
pub fn drift(expected: &Schema, found: &Schema, dialect: &Dialect) -> Vec<Check> {
    let mut tables = Drift::default();
    let missing = missing_tables(expected, found, &mut tables);
    columns(expected, found, dialect, &missing, &mut tables);
    rules(expected, found, dialect, &missing, &mut tables);
    others(expected, found, dialect, &mut tables);
    let mut indexes = Drift::default();
    indexed(expected, found, dialect, &missing, &mut indexes);
    let counted: BTreeSet<&str> = expected.columns.iter().map(|column| column.table.as_str()).collect();
    let tables_ok = format!("{} as the migrations make them", many(counted.len() as u64, 0, "table"));
    let indexes_ok = format!(
        "{} there and valid",
        many(expected.indexes.len() as u64, 0, "index").replace("indexs", "indexes are")
    );
    vec![check(CheckName::Tables, tables, tables_ok), check(CheckName::Indexes, indexes, indexes_ok)]
}

fn check(name: CheckName, drift: Drift, ok: String) -> Check {
    if drift.what.is_empty() && !drift.coming.is_empty() {
        let message = format!("being built right now: {}", a_few(&drift.coming));
        return Check::warning(
            name,
            message,
            "wait until it is done, and try again; until then nodes are slow",
        );
    }
    if drift.what.is_empty() {
        return Check::ok(name, ok);
    }
    let message = format!("differs from the migrations: {}", a_few(&drift.what));
    if drift.sql.is_empty() {
        return Check::failure(name, message, if drift.beyond { BACKUP } else { REBUILD });
    }
    let backup = format!("{BACKUP}. This fixes the rest:");
    let rebuild = format!("{REBUILD}. This fixes the rest:");
    let remedy = match (name, drift.beyond) {
        (_, true) => backup.as_str(),
        _ if drift.fixed => rebuild.as_str(),
        (CheckName::Indexes, _) => {
            "nodes get slow, or do twice what a unique index forbids; run this, one statement after the other:"
        }
        _ => "it was changed by hand; stop the nodes, make a backup and run this:",
    };
    Check::failure(name, message, remedy).with_sql(drift.sql.join("\n"))
}

fn missing_tables<'a>(expected: &'a Schema, found: &Schema, drift: &mut Drift) -> BTreeSet<&'a str> {
    let there: BTreeSet<&str> = found.columns.iter().map(|column| column.table.as_str()).collect();
    let wanted = expected.columns.iter().map(|column| column.table.as_str());
    let missing: BTreeSet<&str> = wanted.filter(|table| !there.contains(table)).collect();
    for table in &missing {
        drift.gone(format!("table {table} is missing"));
    }
    missing
}

fn declared(column: &Column) -> String {
    let mut text = format!("{} {}", column.name, column.kind);
    if let Some(given) = &column.given {
        text.push_str(&format!(" {given}"));
    }
    if let Some(default) = &column.default {
        text.push_str(&format!(" DEFAULT {default}"));
    }
    if column.required {
        text.push_str(" NOT NULL");
    }
    text
}

fn columns(
    expected: &Schema,
    found: &Schema,
    dialect: &Dialect,
    missing: &BTreeSet<&str>,
    drift: &mut Drift,
) {
    for column in expected.columns.iter().filter(|column| !missing.contains(column.table.as_str())) {
        let (table, name) = (dialect.table(&column.table), &column.name);
        let is = found.columns.iter().find(|is| is.table == column.table && is.name == *name);
        let Some(is) = is else {
            let what = format!("column {}.{name} is missing", column.table);
            match column.required {
                // A claim number that starts again would let stale claims through.
                true => drift.gone(what),
                false => drift.found(what, format!("ALTER TABLE {table} ADD COLUMN {};", declared(column))),
            }
            continue;
        };
        let Dialect::Postgres { .. } = dialect else {
            if (&is.kind, is.required, &is.default) != (&column.kind, column.required, &column.default) {
                drift.fixed(format!(
                    "column {}.{name} is {} and should be {}",
                    column.table,
                    declared(is),
                    declared(column)
                ));
            }
            continue;
        };
        let alter = |what: String| format!("ALTER TABLE {table} ALTER COLUMN {name} {what};");
        if is.kind != column.kind {
            let what = format!("column {}.{name} is {} and should be {}", column.table, is.kind, column.kind);
            let plain = column.kind.split(" COLLATE ").next().unwrap_or(&column.kind);
            drift.found(what, alter(format!("TYPE {} USING {name}::{plain}", column.kind)));
        }
        if is.required != column.required {
            let (word, what) = if column.required {
                ("may be null", "SET NOT NULL")
            } else {
                ("may not be null", "DROP NOT NULL")
            };
            drift.found(format!("column {}.{name} {word}", column.table), alter(what.to_owned()));
        }
        identity(is, column, &alter, drift);
        if is.default != column.default {
            let what = column
                .default
                .as_ref()
                .map_or("DROP DEFAULT".to_owned(), |text| format!("SET DEFAULT {text}"));
            drift.found(format!("column {}.{name} has another default", column.table), alter(what));
        }
    }
}

/// Compares how the database generates a column's values. If it does not any more, the last value is unknown.
fn identity(is: &Column, column: &Column, alter: &dyn Fn(String) -> String, drift: &mut Drift) {
    if is.given == column.given {
        return;
    }
    let what = format!("column {}.{}", column.table, column.name);
    match (&is.given, &column.given) {
        (None, _) => drift.gone(format!("{what} does not generate numbers any more")),
        (Some(_), None) => {
            drift.found(format!("{what} generates numbers"), alter("DROP IDENTITY".to_owned()))
        }
        (Some(_), Some(given)) => {
            let given = given.trim_end_matches(" AS IDENTITY");
            drift.found(format!("{what} generates numbers in another way"), alter(format!("SET {given}")));
        }
    }
}

fn rules(expected: &Schema, found: &Schema, dialect: &Dialect, missing: &BTreeSet<&str>, drift: &mut Drift) {
    for rule in expected.rules.iter().filter(|rule| !missing.contains(rule.table.as_str())) {
        let is = found.rules.iter().find(|is| is.table == rule.table && is.name == rule.name);
        if is.is_some_and(|is| is.definition == rule.definition) {
            continue;
        }
        let (table, name) = (dialect.table(&rule.table), &rule.name);
        if let Dialect::Sqlite = dialect {
            drift.fixed(match is {
                None => format!("{} has no {name}", rule.table),
                Some(is) => {
                    format!("{} has {} and should have {}", rule.table, is.definition, rule.definition)
                }
            });
            continue;
        }
        let add = format!("ALTER TABLE {table} ADD CONSTRAINT {name} {};", rule.definition);
        match is {
            None => drift.found(format!("rule {name} of {} is missing", rule.table), add),
            Some(_) => {
                let sql = format!("ALTER TABLE {table} DROP CONSTRAINT {name};\n{add}");
                drift.found(format!("rule {name} of {} differs", rule.table), sql);
            }
        }
    }
}

fn others(expected: &Schema, found: &Schema, dialect: &Dialect, drift: &mut Drift) {
    for other in expected.others.iter().filter(|other| other.what != "table") {
        // Whether the definition names our schema depends on the session's search_path.
        let text = |other: &Other| other.definition.replace("{schema}.", "");
        let mut there =
            found.others.iter().filter(|is| is.what == other.what && is.name == other.name).peekable();
        if there.peek().is_some() {
            let compared = match (other.what.as_str(), dialect) {
                ("view", Dialect::Postgres { major, .. }) => *major == VIEWS_OF,
                ("function", _) | (_, Dialect::Sqlite) => true,
                _ => false,
            };
            if compared && !there.any(|is| text(is) == text(other)) {
                let definition = dialect.filled(other.definition.trim_end().trim_end_matches(';'));
                let drop = match other.what.as_str() {
                    "function" => String::new(),
                    what => format!("DROP {} {};\n", what.to_uppercase(), dialect.table(&other.name)),
                };
                drift.found(format!("{} {} differs", other.what, other.name), format!("{drop}{definition};"));
            }
            continue;
        }
        let what = format!("{} {} is missing", other.what, other.name);
        match other.what.as_str() {
            "sequence" => drift.gone(what),
            _ => {
                let definition = other.definition.trim_end().trim_end_matches(';');
                drift.found(what, format!("{};", dialect.filled(definition)));
            }
        }
    }
}

fn indexed(
    expected: &Schema,
    found: &Schema,
    dialect: &Dialect,
    missing: &BTreeSet<&str>,
    drift: &mut Drift,
) {
    for index in expected.indexes.iter().filter(|index| !missing.contains(index.table.as_str())) {
        let name = &index.name;
        let make = format!("{};", dialect.index(&index.definition));
        let again = || format!("{}\n{make}", dialect.drop_index(name));
        match found.indexes.iter().find(|is| is.name == *name && is.table == index.table) {
            None => drift.found(format!("index {name} of {} is missing", index.table), make),
            Some(is) if !is.valid && is.building => {
                drift.coming.push(format!("index {name} of {}", index.table));
            }
            Some(is) if !is.valid => {
                drift.found(
                    format!("index {name} of {} is invalid: building it failed", index.table),
                    again(),
                );
            }
            Some(is) if is.definition != index.definition => {
                drift.found(format!("index {name} of {} differs", index.table), again());
            }
            Some(_) => {}
        }
    }
}

/// Whether all migrations are applied, and whether there are `newer` ones, which this program does not know and can work with.
pub fn migrations(applied: u32, pending: &[String], newer: &[String]) -> Check {
    match pending {
        [] if !newer.is_empty() => Check::warning(
            CheckName::Migrations,
            format!(
                "the schema is {} newer than this program, and compatible: {}",
                many(newer.len() as u64, 0, "migration"),
                a_few(newer)
            ),
            "finish the upgrade: install the newer version here, too; after a rollback, leave the schema as it is",
        ),
        [] => Check::ok(CheckName::Migrations, format!("all {applied} migrations are applied")),
        some => Check::failure(
            CheckName::Migrations,
            format!(
                "{} not applied: {}",
                many(some.len() as u64, 0, "migration").replace("migrations", "migrations are"),
                a_few(some)
            ),
            "lineclear db plan shows their SQL; apply them: lineclear db migrate (a node does so when it starts)",
        ),
    }
}
