//! From a URL to a backend.

use std::sync::Arc;

use crate::backend::Backend;
use crate::error::LockError;
use crate::in_process::InProcess;
use crate::options::LockOptions;

/// The backend that a URL names.
pub fn backend(url: &str, options: &LockOptions) -> Result<Arc<dyn Backend>, LockError> {
    let refused = |why: String| Err(LockError::refused("lock_url", why));
    options.check()?;
    if url == ":memory:" || url == "sqlite::memory:" {
        return Ok(Arc::new(InProcess::new()));
    }
    match url.split_once("://") {
        #[cfg(feature = "sqlite")]
        None | Some(("sqlite", _)) => match sqlite_path(url) {
            "" => refused("it must not be empty; use a path, a URL or :memory:".to_owned()),
            path => Ok(Arc::new(crate::sqlite::Sqlite::new(path))),
        },
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => postgres(url, options),
        #[cfg(feature = "mysql")]
        Some(("mysql" | "mariadb", _)) => Ok(Arc::new(crate::mysql::Mysql::new(url)?)),
        #[cfg(feature = "mssql")]
        Some(("mssql" | "sqlserver", _)) => Ok(Arc::new(crate::mssql::Mssql::new(url)?)),
        #[cfg(feature = "redis")]
        Some(("redis" | "rediss", _)) => Ok(Arc::new(crate::redis::Redis::new(url, options)?)),
        scheme => {
            let scheme = scheme.map(|(scheme, _)| scheme);
            refused(missing_feature(scheme).unwrap_or_else(|| {
                format!(
                    "{}:// is not a store of locks; use postgres://…, mysql://…, mssql://…, redis://…, sqlite:FILE, a path or :memory:",
                    scheme.unwrap_or_default()
                )
            }))
        }
    }
}

#[cfg(feature = "postgres")]
fn postgres(url: &str, options: &LockOptions) -> Result<Arc<dyn Backend>, LockError> {
    let target = crate::postgres::PostgresTarget::new(url)?;
    if target.session {
        return Ok(Arc::new(crate::postgres::PostgresSession::new(target, options)));
    }
    Ok(Arc::new(crate::postgres::PostgresLease::new(target, options)))
}

/// The path in `sqlite://PATH`, `sqlite:PATH` or `PATH`.
#[cfg(feature = "sqlite")]
pub(crate) fn sqlite_path(url: &str) -> &str {
    url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url)
}

/// Which feature this program lacks, if the scheme of a URL (none: a path) belongs to one.
pub(crate) fn missing_feature(scheme: Option<&str>) -> Option<String> {
    let (what, feature) = match scheme {
        None | Some("sqlite") => ("SQLite", "sqlite"),
        Some("postgres" | "postgresql") => ("PostgreSQL", "postgres"),
        Some("mysql" | "mariadb") => ("MySQL", "mysql"),
        Some("mssql" | "sqlserver") => ("SQL Server", "mssql"),
        Some("redis" | "rediss") => ("Redis", "redis"),
        Some(_) => return None,
    };
    Some(format!("this program was built without {what} (feature {feature})"))
}
