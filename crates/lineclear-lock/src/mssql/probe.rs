//! Tests at the start whether the locks of the server work.

use std::time::Duration;

use uuid::Uuid;

use super::connection::{Session, connect};
use super::target::MssqlTarget;
use super::{EXTEND, RELEASE, TRY, number};
use crate::error::LockError;

const SCHEMA: &str = include_str!("../../sql/mssql/lock_schema.sql");
/// How often the second connection tries to acquire the lock of the first one after that has ended.
const TRIES: u32 = 100;

/// Creates the table, and refuses a server whose locks do not work.
pub(super) async fn probe(target: &MssqlTarget) -> Result<(), LockError> {
    let one = connect(target).await?;
    table(&one).await?;
    let other = connect(target).await?;
    let key = format!("lineclear.probe.{}", Uuid::new_v4().simple());
    if !locks(one, other, &key).await? {
        let why = "the locks of this server do not belong to a connection: a proxy shares connections, or the server only \
            pretends to have locks; connect to the server itself";
        return Err(LockError::refused("session_locks", why));
    }
    Ok(())
}

async fn table(session: &Session) -> Result<(), LockError> {
    let ask = "select case when databasepropertyex(db_name(), 'Updateability') = 'READ_WRITE' then 1 else 0 end as writable, \
        case when object_id('lock_epoch') is null then 0 else 1 end as made";
    let row = session.query_opt(ask, &[]).await?;
    if number(row.as_ref(), "writable")? == 0 {
        return Err(LockError::refused("read_only", "the database is read-only; locks need the primary"));
    }
    // If the table exists, the right to create it is not needed.
    if number(row.as_ref(), "made")? == 0
        && let Err(error) = session.query_opt(SCHEMA, &[]).await
        && number(session.query_opt(ask, &[]).await?.as_ref(), "made")? == 0
    {
        return Err(error);
    }
    Ok(())
}

/// Whether a lock excludes others, stays with its connection, and ends with it.
async fn locks(one: Session, other: Session, key: &str) -> Result<bool, LockError> {
    let got = async |session: &Session| number(session.query_opt(TRY, &[&key]).await?.as_ref(), "got");
    let holds = async |session: &Session| number(session.query_opt(EXTEND, &[&key]).await?.as_ref(), "held");
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
            let released = other.query_opt(RELEASE, &[&key]).await?;
            return Ok(number(released.as_ref(), "released")? == 0);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(false)
}
