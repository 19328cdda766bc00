//! Finds out by trying whether connections are sessions of our own, and whether their locks are locks.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::classify;
use super::connection::{Purpose, Wire, connect};
use super::target::PostgresTarget;
use crate::error::LockError;

/// How often the second connection asks for the lock of the first, after that has ended.
const TRIES: u32 = 100;

/// `Some(why)`: session locks cannot be relied upon here.
pub(super) async fn unfit(place: &PostgresTarget) -> Result<Option<String>, LockError> {
    let one = connect(place, Purpose::Statements).await?;
    let other = connect(place, Purpose::Statements).await?;
    if let Some(why) = shares_backends(&one, &other).await? {
        return Ok(Some(why));
    }
    let key = one.beacon;
    if !ask(&one, "select pg_try_advisory_lock($1)", key).await? {
        return Ok(Some("a session lock that nobody has was refused".to_owned()));
    }
    if ask(&other, "select pg_try_advisory_lock($1)", key).await? {
        ask(&other, "select pg_advisory_unlock($1)", key).await?;
        ask(&one, "select pg_advisory_unlock($1)", key).await?;
        return Ok(Some("two connections were granted one session lock".to_owned()));
    }
    drop(one);
    for _ in 0..TRIES {
        if ask(&other, "select pg_try_advisory_lock($1)", key).await? {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Some("a session lock was not released when its connection ended".to_owned()))
}

/// A transaction pooler gives a connection another backend for each transaction: while one is inside a transaction, the other
/// cannot have the backend that it had.
async fn shares_backends(one: &Wire, other: &Wire) -> Result<Option<String>, LockError> {
    const WHY: &str = "connections share their sessions: there is a transaction pooler in between";
    let before = backend(one).await?;
    other.client.batch_execute("begin").await.map_err(classify)?;
    let (inside, meanwhile) = (backend(other).await?, backend(one).await?);
    other.client.batch_execute("rollback").await.map_err(classify)?;
    let after = backend(one).await?;
    let changes = before == inside || before != meanwhile || before != after;
    Ok(changes.then(|| WHY.to_owned()))
}

async fn backend(wire: &Wire) -> Result<i32, LockError> {
    let row = wire.client.query_typed_one("select pg_backend_pid()", &[]).await.map_err(classify)?;
    Ok(row.get(0))
}

async fn ask(wire: &Wire, sql: &str, key: i64) -> Result<bool, LockError> {
    let row = wire.client.query_typed_one(sql, &[(&key, Type::INT8)]).await.map_err(classify)?;
    Ok(row.get(0))
}
