//! Makes our table. It needs no migrations of others, and no rights once it is there.

use super::classify;
use super::connection::Call;
use super::target::PostgresTarget;
use crate::error::LockError;

const TABLE: &str = include_str!("../../sql/postgres/lock_schema.sql");
const BEACON: &str = include_str!("../../sql/postgres/lock_beacon.sql");

/// Makes schema, table and function unless they are there, and sees that the server can be written to.
pub(super) async fn prepare(place: &PostgresTarget, call: Call) -> Result<(), LockError> {
    let client = &call.wire().client;
    let there = format!(
        "select pg_is_in_recovery() as standby, to_regnamespace('{0}') is not null as schema, \
         to_regclass('\"{0}\".lock_epoch') is not null and to_regprocedure('\"{0}\".lock_beacon_lives(bigint)') is not null as made",
        place.schema
    );
    let row = client.query_typed_one(&there, &[]).await.map_err(classify)?;
    if row.get("standby") {
        return Err(LockError::refused("postgres", "the server is a standby: locks need the primary"));
    }
    if row.get("made") {
        return call.answer(Ok(()));
    }
    let schema = if row.get("schema") { "" } else { "create schema if not exists {schema};" };
    // One at a time; a number of our own, `lclk`.
    let make = format!("begin; select pg_advisory_xact_lock(1818520683); {schema} {TABLE}; {BEACON}; commit");
    let made = client.batch_execute(&place.sql(&make)).await;
    if made.is_err() {
        // A pooled connection must not be given back in a broken transaction.
        client.batch_execute("rollback").await.map_err(classify)?;
    }
    call.answer(made)
}
