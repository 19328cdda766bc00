//! Compares the tables with those that the migrations create. On SQLite, a migrated database in memory is the reference; on
//! PostgreSQL, `postgres.json` is, which a test keeps up to date.

use lineclear_model::doctor::schema::{self, Column, Dialect, Index, Other, Rule, Schema};
use lineclear_model::doctor::{Check, CheckName};

use crate::db::statements::Statement;
use crate::db::{Row, values};
use crate::operate::doctor::failed;
use crate::store::{MigrationStatus, Store, StoreError, StoreOptions, StoreResult};

/// The schema that the migrations create on PostgreSQL.
const POSTGRES: &str = include_str!("postgres.json");

/// The state of the migrations, or why it is unknown.
pub(crate) fn migrations(status: StoreResult<MigrationStatus>) -> Check {
    let name = CheckName::Migrations;
    match status {
        Ok(status) => {
            let pending: Vec<String> =
                status.pending.iter().map(|migration| migration.name.to_owned()).collect();
            schema::migrations(status.applied, &pending, &status.newer)
        }
        Err(StoreError::Refused { why, .. }) => {
            let remedy = "an old version must not write to it: install the newer one here, or restore the backup from before the upgrade";
            Check::failure(name, why, remedy)
        }
        Err(StoreError::Corrupt { what }) => {
            let remedy = "is it the right database, and was it migrated by a release? lineclear db status";
            Check::failure(name, what, remedy)
        }
        Err(error @ StoreError::CannotWrite { .. }) => {
            let remedy = "the database answers, but this role may not read the schema: grant it what a server needs (docs/database.md, roles)";
            Check::failure(name, error.to_string(), remedy)
        }
        Err(error) => failed(name, &error),
    }
}

impl Store {
    /// Whether the schema is what this program needs.
    pub async fn check_migrations(&self) -> Check {
        migrations(self.migration_status().await)
    }

    pub(crate) async fn schema_checks(&self) -> Vec<Check> {
        match self.compared().await {
            Ok(checks) => checks,
            Err(error) => vec![failed(CheckName::Tables, &error)],
        }
    }

    async fn compared(&self) -> StoreResult<Vec<Check>> {
        let found = self.schema_found().await?;
        if self.options.is_postgres() {
            let expected = serde_json::from_str(POSTGRES).map_err(|error| StoreError::Corrupt {
                what: format!("the schema in this program: {error}"),
            })?;
            let number: i64 = self.one(Statement::Server, values![]).await?.get("number")?;
            let dialect = Dialect::Postgres { schema: self.options.schema_quoted(), major: number / 10_000 };
            return Ok(schema::drift(&expected, &found, &dialect));
        }
        let memory = Store::open(StoreOptions::new(":memory:")?).await?;
        Ok(schema::drift(&memory.schema_found().await?, &found, &Dialect::Sqlite))
    }

    /// Everything in the schema, including objects of others.
    pub(crate) async fn schema_found(&self) -> StoreResult<Schema> {
        let all = async |statement| self.bounded(statement, values![self.options.schema()]).await;
        let column = |row: &Row| {
            Ok(Column {
                table: row.get("table_name")?,
                name: row.get("name")?,
                kind: row.get("kind")?,
                required: row.get("required")?,
                default: row.get("fallback")?,
                given: row.get("given")?,
            })
        };
        let rule = |row: &Row| {
            Ok(Rule {
                table: row.get("table_name")?,
                name: row.get("name")?,
                definition: row.get("definition")?,
            })
        };
        let index = |row: &Row| {
            Ok(Index {
                table: row.get("table_name")?,
                name: row.get("name")?,
                definition: row.get("definition")?,
                valid: row.get("valid")?,
                building: row.get("building")?,
            })
        };
        // Replaces the name of the schema, as migrations and as PostgreSQL write it, by a placeholder.
        let (quoted, plain) =
            (format!("\"{}\".", self.options.schema()), format!(" {}.", self.options.schema()));
        let other = |row: &Row| {
            let definition: String = row.get("definition")?;
            let definition = definition.replace(&quoted, "{schema}.").replace(&plain, " {schema}.");
            Ok(Other { what: row.get("what")?, name: row.get("name")?, definition })
        };
        Ok(Schema {
            columns: all(Statement::SchemaColumns).await?.iter().map(column).collect::<StoreResult<_>>()?,
            rules: all(Statement::SchemaRules).await?.iter().map(rule).collect::<StoreResult<_>>()?,
            indexes: all(Statement::SchemaIndexes).await?.iter().map(index).collect::<StoreResult<_>>()?,
            others: all(Statement::SchemaOthers).await?.iter().map(other).collect::<StoreResult<_>>()?,
        })
    }
}
