//! Which schema of which database has the locks, and how to connect.

use std::fmt;
use std::time::Duration;

use lineclear_tls::{Connector, TlsOptions};
use tokio_postgres::Config;

use crate::error::LockError;

/// A schema of a PostgreSQL database that holds locks. Made from a URL:
/// `postgres://user@host/database?schema=lineclear&pooler=transaction&lock=session`.
#[derive(Clone)]
pub struct PostgresTarget {
    pub(super) config: Config,
    pub(super) connector: Connector,
    pub(super) schema: String,
    /// Whether a transaction pooler is known to be in between.
    pub(super) pooler: bool,
    /// Whether to use session locks.
    pub(crate) session: bool,
    /// Whether to notice the crash of a holder at once.
    pub(super) beacon: bool,
}

impl fmt::Debug for PostgresTarget {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PostgreSQL database {:?}, schema {}",
            self.config.get_dbname().unwrap_or_default(),
            self.schema
        )
    }
}

impl PostgresTarget {
    /// Reads a URL. Its own options are `schema` (`lineclear`), `pooler` (`none`, `transaction`), `lock` (`lease`, `session`),
    /// `beacon` (`on`, `off`), `sslmode` (`verify-full`, `require`, `disable`) and `sslrootcert` (a file); the rest is the driver's.
    pub fn new(url: &str) -> Result<PostgresTarget, LockError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut tls) = ("lineclear".to_owned(), TlsOptions::default());
        let (mut pooler, mut session, mut beacon) = (false, false, true);
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("schema", name) => schema = checked(name)?,
                ("pooler", word) => pooler = one_of("pooler", word, ["none", "transaction"])?,
                ("lock", word) => session = one_of("lock", word, ["lease", "session"])?,
                ("beacon", word) => beacon = !one_of("beacon", word, ["on", "off"])?,
                // Parameters of the job store, whose URL may name the locks, too.
                ("connections" | "deadline", _) => {}
                (name, value) => {
                    if !tls.set(name, value).map_err(|why| LockError::refused("lock_url", why))? {
                        kept.push(pair);
                    }
                }
            }
        }
        let rest = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            let why =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            LockError::refused("lock_url", format!("invalid PostgreSQL URL: {why}"))
        })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_application_name().is_none() {
            config.application_name("lineclear-lock");
        }
        let connector = tls.connector(&mut config).map_err(|why| LockError::refused("lock_url", why))?;
        Ok(PostgresTarget { config, connector, schema, pooler, session, beacon })
    }

    /// The schema that holds the locks.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Connects, for statements of the program that the locks belong to. A task of the current runtime drives the connection.
    pub async fn connect(&self, application_name: &str) -> Result<tokio_postgres::Client, LockError> {
        let mut config = self.config.clone();
        config.application_name(application_name);
        let connected = config.connect(self.connector.clone()).await;
        let (client, connection) = connected.map_err(|error| match error.as_db_error() {
            Some(_) => super::classify(error),
            None => LockError::unavailable(lineclear_tls::connect_error(&config, &error)),
        })?;
        // Its error is that of the statement that waits for it.
        tokio::spawn(async { drop(connection.await) });
        Ok(client)
    }

    /// A statement for this schema.
    pub(crate) fn sql(&self, text: &str) -> String {
        sql(text, &self.schema)
    }
}

pub(super) fn sql(text: &str, schema: &str) -> String {
    text.replace("{schema}", &format!("\"{schema}\""))
}

/// Whether an option has the second of two values.
fn one_of(option: &str, word: &str, [first, second]: [&str; 2]) -> Result<bool, LockError> {
    if word != first && word != second {
        let why = format!("`{option}` must be {first} or {second}, not {word:?}");
        return Err(LockError::refused("lock_url", why));
    }
    Ok(word == second)
}

pub(super) fn checked(name: &str) -> Result<String, LockError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > 48 || !name.chars().all(fits) || name.starts_with("pg_") {
        let why = format!(
            "`schema` must be 1 to 48 characters of a-z, 0-9 and _, and must not begin with pg_; {name:?} is not"
        );
        return Err(LockError::refused("lock_url", why));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_of_which_kind() {
        let url = "postgres://me:secret@host/db?schema=mine&lock=session&connect_timeout=3&beacon=off";
        let target = PostgresTarget::new(url).unwrap();
        assert_eq!(
            (target.schema.as_str(), target.session, target.beacon, target.pooler),
            ("mine", true, false, false)
        );
        assert!(!format!("{target:?}").contains("secret"));
        assert!(
            PostgresTarget::new("postgres://host/db?connections=8&deadline=30s").is_ok(),
            "the store's URL"
        );
        for bad in ["schema=A", "schema=", "schema=a%22", "lock=row", "pooler=yes", "beacon=", "nonsense=1"] {
            let error = PostgresTarget::new(&format!("postgres://host/db?{bad}")).unwrap_err().to_string();
            assert!(error.starts_with("refused by lock_url"), "{bad}: {error}");
        }
    }
}
