//! Tests at the start whether the locks of the server work.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use uuid::Uuid;

use super::session::{Session, classify};
use crate::error::LockError;

const SCHEMA: &str = include_str!("../../sql/mysql/lock_schema.sql");

/// Creates the table, and refuses a server whose locks do not work.
pub(super) async fn probe(opts: &Opts) -> Result<(), LockError> {
    let mut one = Session::connect(opts).await.map_err(classify)?;
    one_server(one.connection()).await?;
    table(one.connection()).await?;
    let mut other = Session::connect(opts).await.map_err(classify)?;
    let key = format!("lineclear.probe.{}", Uuid::new_v4().simple());
    if !locks(&mut one, &mut other, &key).await? {
        let why = "the locks of this server do not belong to a connection: a proxy shares connections, or the server only \
            pretends to have locks; connect to the server itself";
        return Err(LockError::refused("session_locks", why));
    }
    Ok(())
}

/// Named locks are local to a server: on a multi-primary cluster, they exclude nothing.
async fn one_server(connection: &mut Conn) -> Result<(), LockError> {
    let ask = "show global variables where variable_name in ('wsrep_on', 'wsrep_provider', 'read_only')";
    let settings: Vec<(String, String)> = connection.query(ask).await.map_err(classify)?;
    let is = |name: &str, off: &[&str]| {
        let value = settings.iter().find(|(setting, _)| setting == name).map(|(_, value)| value.as_str());
        !off.contains(&value.unwrap_or_default().to_ascii_lowercase().as_str())
    };
    if is("wsrep_on", &["", "off", "0"]) || is("wsrep_provider", &["", "none"]) {
        let why =
            "this is a Galera cluster, where GET_LOCK works on one server only; use another store for locks";
        return Err(LockError::refused("galera", why));
    }
    if is("read_only", &["", "off", "0"]) {
        return Err(LockError::refused("read_only", "the server is read-only; locks need the primary"));
    }
    Ok(())
}

async fn table(connection: &mut Conn) -> Result<(), LockError> {
    let ask = "select lower(engine) from information_schema.tables \
        where table_schema = database() and table_name = 'lock_epoch'";
    let mut engine: Option<Option<String>> = connection.query_first(ask).await.map_err(classify)?;
    // If the table exists, the right to create it is not needed.
    if engine.is_none() {
        connection.query_drop(SCHEMA).await.map_err(classify)?;
        engine = connection.query_first(ask).await.map_err(classify)?;
    }
    let engine = engine.flatten().unwrap_or_default();
    if engine != "innodb" {
        let why = format!("table lock_epoch must use InnoDB, which keeps epochs safely, not {engine}");
        return Err(LockError::refused("engine", why));
    }
    Ok(())
}

/// Whether a lock excludes others and stays with its connection.
async fn locks(one: &mut Session, other: &mut Session, key: &str) -> Result<bool, LockError> {
    let Ok(true) = one.get_lock(key).await else { return Ok(false) };
    if other.get_lock(key).await.map_err(classify)? || one.id == other.id {
        return Ok(false);
    }
    for _ in 0..3 {
        if !one.holds(key).await.map_err(classify)? || other.holds(key).await.map_err(classify)? {
            return Ok(false);
        }
    }
    let released = one.release(key).await.map_err(classify)?;
    Ok(released && !other.release(key).await.map_err(classify)?)
}
