//! Tests whether connections are sessions of their own, and whether session locks work.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::classify;
use super::connection::{Purpose, Session, connect};
use super::target::PostgresTarget;
use crate::error::LockError;

/// How often the second connection tries to acquire the lock of the first one after that has ended.
const TRIES: u32 = 100;

/// `Some(why)`: session locks do not work here.
pub(super) async fn unfit(target: &PostgresTarget) -> Result<Option<String>, LockError> {
    let one = connect(target, Purpose::Statements).await?;
    let other = connect(target, Purpose::Statements).await?;
    if let Some(why) = shares_backends(&one, &other).await? {
        return Ok(Some(why));
    }
    let key = one.beacon;
    if !query_bool(&one, "select pg_try_advisory_lock($1)", key).await? {
        return Ok(Some("a free session lock was refused".to_owned()));
    }
    if query_bool(&other, "select pg_try_advisory_lock($1)", key).await? {
        query_bool(&other, "select pg_advisory_unlock($1)", key).await?;
        query_bool(&one, "select pg_advisory_unlock($1)", key).await?;
        return Ok(Some("two connections were granted one session lock".to_owned()));
    }
    drop(one);
    for _ in 0..TRIES {
        if query_bool(&other, "select pg_try_advisory_lock($1)", key).await? {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Some("a session lock was not released when its connection ended".to_owned()))
}

/// A transaction pooler assigns a backend to each transaction: while one connection is in a transaction, the other cannot get the same
/// backend.
async fn shares_backends(one: &Session, other: &Session) -> Result<Option<String>, LockError> {
    const WHY: &str = "connections share their sessions: there is a transaction pooler in between";
    let before = backend(one).await?;
    other.client.batch_execute("begin").await.map_err(classify)?;
    let (inside, meanwhile) = (backend(other).await?, backend(one).await?);
    other.client.batch_execute("rollback").await.map_err(classify)?;
    let after = backend(one).await?;
    let changes = before == inside || before != meanwhile || before != after;
    Ok(changes.then(|| WHY.to_owned()))
}

async fn backend(session: &Session) -> Result<i32, LockError> {
    let row = session.client.query_typed_one("select pg_backend_pid()", &[]).await.map_err(classify)?;
    Ok(row.get(0))
}

async fn query_bool(session: &Session, sql: &str, key: i64) -> Result<bool, LockError> {
    let row = session.client.query_typed_one(sql, &[(&key, Type::INT8)]).await.map_err(classify)?;
    Ok(row.get(0))
}
