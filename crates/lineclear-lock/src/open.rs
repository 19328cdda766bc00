//! From a URL to a backend.

use std::sync::Arc;

use crate::backend::Backend;
use crate::error::LockError;
use crate::in_process::InProcess;
use crate::options::LockOptions;

/// The backend that a URL names.
pub fn backend(url: &str, options: &LockOptions) -> Result<Arc<dyn Backend>, LockError> {
    options.check()?;
    if url == ":memory:" || url == "sqlite::memory:" {
        return Ok(Arc::new(InProcess::new()));
    }
    match url.split_once("://") {
        None | Some(("sqlite", _)) => sqlite(url),
        Some(("postgres" | "postgresql", _)) => postgres(url, options),
        Some(("mysql" | "mariadb", _)) => mysql(url),
        Some(("mssql" | "sqlserver", _)) => mssql(url),
        Some(("redis" | "rediss", _)) => redis(url, options),
        Some((scheme, _)) => {
            let why = format!(
                "{scheme}:// is no store of locks; use postgres://…, mysql://…, mssql://…, redis://…, sqlite:FILE, a path or :memory:"
            );
            Err(LockError::refused("lock_url", why))
        }
    }
}

#[cfg(feature = "redis")]
fn redis(url: &str, options: &LockOptions) -> Result<Arc<dyn Backend>, LockError> {
    Ok(Arc::new(crate::redis::Redis::new(url, options)?))
}

#[cfg(not(feature = "redis"))]
fn redis(_url: &str, _options: &LockOptions) -> Result<Arc<dyn Backend>, LockError> {
    Err(LockError::refused("lock_url", "this program was built without Redis (feature redis)"))
}

#[cfg(feature = "sqlite")]
fn sqlite(url: &str) -> Result<Arc<dyn Backend>, LockError> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
    if path.is_empty() {
        return Err(LockError::refused("lock_url", "no store was named; use a path or :memory:"));
    }
    Ok(Arc::new(crate::sqlite::Sqlite::new(path)))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_url: &str) -> Result<Arc<dyn Backend>, LockError> {
    Err(LockError::refused("lock_url", "this program was built without SQLite (feature sqlite)"))
}

#[cfg(feature = "postgres")]
fn postgres(url: &str, options: &LockOptions) -> Result<Arc<dyn Backend>, LockError> {
    let place = crate::postgres::PostgresTarget::new(url)?;
    if place.session {
        return Ok(Arc::new(crate::postgres::PostgresSession::new(place, options)));
    }
    Ok(Arc::new(crate::postgres::PostgresLease::new(place, options)))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_url: &str, _options: &LockOptions) -> Result<Arc<dyn Backend>, LockError> {
    Err(LockError::refused("lock_url", "this program was built without PostgreSQL (feature postgres)"))
}

#[cfg(feature = "mysql")]
fn mysql(url: &str) -> Result<Arc<dyn Backend>, LockError> {
    Ok(Arc::new(crate::mysql::Mysql::new(&url.replacen("mariadb://", "mysql://", 1))?))
}

#[cfg(not(feature = "mysql"))]
fn mysql(_url: &str) -> Result<Arc<dyn Backend>, LockError> {
    Err(LockError::refused("lock_url", "this program was built without MySQL (feature mysql)"))
}

#[cfg(feature = "mssql")]
fn mssql(url: &str) -> Result<Arc<dyn Backend>, LockError> {
    Ok(Arc::new(crate::mssql::Mssql::new(url)?))
}

#[cfg(not(feature = "mssql"))]
fn mssql(_url: &str) -> Result<Arc<dyn Backend>, LockError> {
    Err(LockError::refused("lock_url", "this program was built without SQL Server (feature mssql)"))
}
