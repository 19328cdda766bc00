//! Creates tables in the schema of the target. The right to do so is needed once.

use super::classify;
use super::connection::Call;
use super::target::PostgresTarget;
use crate::error::LockError;

const TABLE: &str = include_str!("../../sql/postgres/lock_schema.sql");
const BEACON: &str = include_str!("../../sql/postgres/lock_beacon.sql");

/// Creates the table of the locks and its function unless they exist, and checks that the server can be written to.
pub(super) async fn prepare(target: &PostgresTarget, call: Call) -> Result<(), LockError> {
    let sql = "select pg_is_in_recovery() as standby, to_regclass('{schema}.lock_epoch') is not null \
         and to_regprocedure('{schema}.lock_beacon_lives(bigint)') is not null as made";
    let client = &call.session().client;
    let row = client.query_typed_one(&target.sql(sql), &[]).await.map_err(classify)?;
    if row.get("standby") {
        return Err(LockError::refused("postgres", "the server is a standby; locks need the primary"));
    }
    if row.get("made") {
        return call.answer(Ok(()));
    }
    create(target, call, &format!("{TABLE}; {BEACON}")).await
}

/// Creates what `sql` says, and the schema unless it exists.
pub(crate) async fn create(target: &PostgresTarget, call: Call, sql: &str) -> Result<(), LockError> {
    let client = &call.session().client;
    let exists = format!("select to_regnamespace('{}') is not null", target.schema());
    let row = client.query_typed_one(&exists, &[]).await.map_err(classify)?;
    let schema = if row.get(0) { "" } else { "create schema if not exists {schema};" };
    // One process at a time, under a number that the migrations of the scheduler use, too: `lclk`.
    let sql = format!("begin; select pg_advisory_xact_lock(1818520683); {schema} {sql}; commit");
    let created = client.batch_execute(&target.sql(&sql)).await;
    if created.is_err() {
        // A pooled connection must not be returned in a failed transaction.
        client.batch_execute("rollback").await.map_err(classify)?;
    }
    call.answer(created)
}
