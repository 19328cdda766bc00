//! Tries at the start whether the server does what locks need.

use std::time::Duration;

use uuid::Uuid;

use super::connection::{Wire, connect};
use super::target::Place;
use super::{EXTEND, RELEASE, TRY, number};
use crate::error::LockError;

const SCHEMA: &str = include_str!("../../sql/mssql/lock_schema.sql");
/// How often the second connection asks for the lock of the first, after that has ended.
const TRIES: u32 = 100;

/// Makes the table, and refuses a server whose locks are not what they seem.
pub(super) async fn probe(place: &Place) -> Result<(), LockError> {
    let one = connect(place).await?;
    table(&one).await?;
    let other = connect(place).await?;
    let key = format!("lineclear.probe.{}", Uuid::new_v4().simple());
    if !locks(one, other, &key).await? {
        let why = "the locks of this server do not belong to a connection: something that shares connections is in \
            between, or they are only pretended; connect to the server itself";
        return Err(LockError::refused("session_locks", why));
    }
    Ok(())
}

async fn table(wire: &Wire) -> Result<(), LockError> {
    let ask = "select case when databasepropertyex(db_name(), 'Updateability') = 'READ_WRITE' then 1 else 0 end as writable, \
        case when object_id('lock_epoch') is null then 0 else 1 end as made";
    let row = wire.ask(ask, &[]).await?;
    if number(row.as_ref(), "writable")? == 0 {
        return Err(LockError::refused(
            "read_only",
            "this database can only be read; locks need the primary",
        ));
    }
    // Whoever finds the table there need not be allowed to make one.
    if number(row.as_ref(), "made")? == 0
        && let Err(error) = wire.ask(SCHEMA, &[]).await
        && number(wire.ask(ask, &[]).await?.as_ref(), "made")? == 0
    {
        return Err(error);
    }
    Ok(())
}

/// Whether a lock keeps others out, stays with its connection, and ends with it.
async fn locks(one: Wire, other: Wire, key: &str) -> Result<bool, LockError> {
    let got = async |wire: &Wire| number(wire.ask(TRY, &[&key]).await?.as_ref(), "got");
    let holds = async |wire: &Wire| number(wire.ask(EXTEND, &[&key]).await?.as_ref(), "held");
    if got(&one).await? < 0 || got(&other).await? >= 0 {
        return Ok(false);
    }
    for _ in 0..3 {
        if holds(&one).await? != 1 || holds(&other).await? != 0 {
            return Ok(false);
        }
    }
    drop(one);
    for _ in 0..TRIES {
        if got(&other).await? >= 0 {
            let released = other.ask(RELEASE, &[&key]).await?;
            return Ok(number(released.as_ref(), "released")? == 0);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(false)
}
