//! Parses the URL of a database.

use std::path::PathBuf;
use std::time::Duration;

use lineclear_model::duration;

use crate::db::options::Database;
use crate::store::{StoreError, StoreOptions};

/// Most connections that a URL may set.
const CONNECTIONS_MAX: usize = 1_000;
/// The bounds of a deadline in a URL.
const DEADLINES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60 * 60)];

fn refused(why: impl Into<String>) -> StoreError {
    StoreError::refused("store_url", why)
}

impl StoreOptions {
    /// Parses a URL or path.
    pub fn new(url: &str) -> Result<StoreOptions, StoreError> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return postgres(url);
        }
        if let Some((scheme, _)) = url.split_once("://")
            && scheme != "sqlite"
        {
            let why =
                format!("{scheme}:// is not a store; use postgres://…, sqlite:FILE, a path or :memory:");
            return Err(refused(why));
        }
        let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or(url);
        if path.is_empty() {
            return Err(refused("the URL is empty; use a path or :memory:"));
        }
        if path.contains("?connections=") || path.contains("?deadline=") {
            return Err(refused("`connections` and `deadline` apply to PostgreSQL only"));
        }
        Ok(StoreOptions::of(Database::Sqlite((path != ":memory:").then(|| PathBuf::from(path)))))
    }

    /// Applies `schema`, `pooler`, `connections`, `deadline`, `sslmode` or `sslrootcert`; false if the parameter is another one.
    fn set_own_param(&mut self, name: &str, value: &str) -> Result<bool, StoreError> {
        match (name, value) {
            ("schema", schema) => self.schema = checked_schema(schema)?,
            ("pooler", "transaction") => self.pooler = true,
            ("pooler", "none") => self.pooler = false,
            ("pooler", other) => {
                return Err(refused(format!("`pooler` must be transaction or none, not {other:?}")));
            }
            ("connections", number) => *self = self.clone().connections(checked_connections(number)?),
            ("deadline", length) => *self = self.clone().deadline(checked_deadline(length)?),
            _ => return self.tls.set(name, value).map_err(refused),
        }
        Ok(true)
    }
}

fn postgres(url: &str) -> Result<StoreOptions, StoreError> {
    let mut options = StoreOptions::of(Database::Sqlite(None));
    let rest = split_own_params(url, &mut options)?;
    let config = rest.parse().map_err(|error: tokio_postgres::Error| {
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        refused(format!("the PostgreSQL URL cannot be parsed: {why}"))
    })?;
    options.database = Database::Postgres(Box::new(config));
    Ok(options)
}

/// Applies the parameters that are Lineclear's own; returns the URL without them, because the driver refuses unknown ones.
fn split_own_params(url: &str, options: &mut StoreOptions) -> Result<String, StoreError> {
    let Some((base, query)) = url.split_once('?') else { return Ok(url.to_owned()) };
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !options.set_own_param(name, value)? {
            rest.push(pair);
        }
    }
    Ok(if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) })
}

fn checked_schema(name: &str) -> Result<String, StoreError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > 48 || !name.chars().all(fits) || name.starts_with("pg_") {
        let why = format!(
            "`schema` must have 1 to 48 characters of a-z, 0-9 and _, and not begin with pg_, not {name:?}"
        );
        return Err(refused(why));
    }
    Ok(name.to_owned())
}

fn checked_connections(number: &str) -> Result<usize, StoreError> {
    let valid = number.parse().ok().filter(|number| (1..=CONNECTIONS_MAX).contains(number));
    let why = || format!("`connections` must be a whole number from 1 to {CONNECTIONS_MAX}, not {number:?}");
    valid.ok_or_else(|| refused(why()))
}

fn checked_deadline(length: &str) -> Result<Duration, StoreError> {
    let deadline = duration::parse(length).map_err(|bad| refused(format!("`deadline`: {bad}")))?;
    let [least, most] = DEADLINES;
    if deadline < least || deadline > most {
        return Err(refused(format!("`deadline` must be between 1s and 1h, not {length}")));
    }
    Ok(deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let pg =
            StoreOptions::new("postgres://me@db/app?schema=jobs&sslmode=disable&pooler=transaction").unwrap();
        assert!(pg.is_postgres() && pg.behind_pooler());
        assert_eq!(pg.schema(), "jobs");
        for path in ["jobs.db", "sqlite:jobs.db", "sqlite://jobs.db"] {
            let Database::Sqlite(Some(file)) = StoreOptions::new(path).unwrap().database() else {
                panic!("{path}")
            };
            assert_eq!(file, PathBuf::from("jobs.db"));
        }
        assert!(matches!(StoreOptions::new(":memory:").unwrap().database(), Database::Sqlite(None)));
    }

    #[test]
    fn bad_urls_are_refused_with_the_reason() {
        for (url, says) in [
            ("mysql://x", "mysql:// is not a store"),
            ("", "the URL is empty"),
            ("postgres://db/app?schema=Drop\"", "`schema` must"),
            ("postgres://db/app?pooler=session", "`pooler` must be"),
            ("postgres://db/app?nonsense=1", "cannot be parsed"),
            ("postgres://db/app?sslmode=prefer", "verify-full"),
            ("postgres://db/app?connections=0", "`connections` must be a whole number from 1 to 1000"),
            ("postgres://db/app?connections=many", "`connections` must be"),
            ("postgres://db/app?connections=1001", "`connections` must be"),
            ("postgres://db/app?deadline=30", "`deadline`: \"30\" is not a length of time"),
            ("postgres://db/app?deadline=10ms", "`deadline` must be between 1s and 1h"),
            ("postgres://db/app?deadline=2h", "`deadline` must be between 1s and 1h"),
            ("sqlite:jobs.db?deadline=30s", "apply to PostgreSQL only"),
        ] {
            let error = StoreOptions::new(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
    }

    #[test]
    fn connections_and_deadline_are_set_in_the_url() {
        let defaults = StoreOptions::new("postgres://db/app").unwrap();
        assert_eq!((defaults.connections_max(), defaults.verb_deadline()), (8, Duration::from_secs(30)));
        let set = StoreOptions::new("postgres://db/app?connections=3&deadline=1m30s&schema=jobs").unwrap();
        assert_eq!((set.connections_max(), set.verb_deadline()), (3, Duration::from_secs(90)));
        assert_eq!(set.schema(), "jobs");
        let in_code = set.connections(5).deadline(Duration::from_secs(1));
        assert_eq!((in_code.connections_max(), in_code.verb_deadline()), (5, Duration::from_secs(1)));
    }

    #[test]
    fn a_password_is_not_shown() {
        let options = StoreOptions::new("postgres://me:hunter2@db/app").unwrap();
        assert_eq!(format!("{options:?}"), "PostgreSQL database app on db:5432, schema lineclear");
    }
}
