//! Indexes on tables that can be large: PostgreSQL builds them while others write to the table, outside of a transaction.
//!
//! The session that migrates stays in its transaction, and so keeps others from migrating, while another connection builds. A
//! build that failed leaves an invalid index, which is dropped before the next try.

use std::time::{Duration, Instant};

use super::blockers::watch_and;
use super::{Migration, MigrationEvent, Observer, next_report};
use crate::db::{Postgres, Session};
use crate::store::{StoreError, StoreOptions, StoreResult};

/// How long the build waits before it reports for what.
const REPORT_AFTER: Duration = Duration::from_secs(2);

/// Its SQL for a transaction: on a new database the tables are empty.
pub(super) fn in_a_transaction(migration: &Migration) -> String {
    match migration.is_concurrent() {
        true => migration.sql().replace("index concurrently", "index"),
        false => migration.sql().to_owned(),
    }
}

/// Builds the index, unless it is there and valid. It waits for transactions that are older than itself, and blocks neither readers
/// nor writers meanwhile.
pub(super) async fn build(
    session: &mut Session,
    db: &Postgres,
    options: &StoreOptions,
    migration: &Migration,
    observer: &Observer,
) -> StoreResult<()> {
    let index = format!("{}.{}", options.schema_quoted(), index_name(migration)?);
    let sql =
        format!("select i.indisvalid as valid from pg_index i where i.indexrelid = to_regclass('{index}')");
    let found = session.query(&sql).await?;
    let is_valid: Option<bool> = found.first().map(|row| row.get("valid")).transpose()?;
    if is_valid == Some(true) {
        return Ok(());
    }
    // As long as the build takes. It is also the last statement before the build, and sent in the simple way: the snapshot of one
    // sent otherwise would stay, and the build would wait for it.
    session.batch("set local idle_in_transaction_session_timeout = 0").await?;
    let (builder, pid) = db.connect_to_build().await?;
    let build = async {
        if is_valid == Some(false) {
            builder.run(&format!("drop index concurrently if exists {index}")).await?;
        }
        builder.run(migration.sql()).await
    };
    let (begun, mut report_at) = (Instant::now(), REPORT_AFTER);
    watch_and(db, pid, build, |blockers| {
        let waited = begun.elapsed();
        if waited >= report_at {
            report_at = next_report(waited);
            observer(MigrationEvent::Waiting { name: Some(migration.name), waited, blockers });
        }
    })
    .await
}

/// The word after `index concurrently`.
fn index_name(migration: &Migration) -> StoreResult<&str> {
    let code = migration.sql().lines().filter(|line| !line.starts_with("--"));
    let mut words = code.flat_map(str::split_whitespace).skip_while(|word| *word != "concurrently").skip(1);
    let name = words.find(|word| !["if", "not", "exists"].contains(word));
    name.ok_or_else(|| StoreError::Corrupt { what: format!("{} builds no index", migration.name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_index_and_the_sql_for_a_new_database_come_from_the_file() {
        let sql = "-- 0040_x · finds by kind\n-- built concurrently\ncreate unique index concurrently execution_kind on t (kind);\n";
        let migration = Migration { number: 40, name: "0040_x", sql: sql.to_owned() };
        assert_eq!(index_name(&migration).expect("a name"), "execution_kind");
        assert!(in_a_transaction(&migration).ends_with("create unique index execution_kind on t (kind);\n"));
    }
}
