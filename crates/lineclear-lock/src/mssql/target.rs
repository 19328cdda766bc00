//! Which database of which server has the locks, and how to connect.

use std::fmt;

use tiberius::{AuthMethod, Config, EncryptionLevel};

use crate::error::LockError;

/// A database of a SQL Server. Made from a URL: `mssql://user:password@host:port/database?encrypt=on`.
#[derive(Clone)]
pub(crate) struct MssqlTarget {
    pub(super) config: Config,
    /// For people, and as the scope of epochs.
    pub(super) shown: String,
}

impl fmt::Debug for MssqlTarget {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl MssqlTarget {
    pub(crate) fn new(url: &str) -> Result<MssqlTarget, LockError> {
        let (_, rest) = url.split_once("://").ok_or_else(|| refused("it must have a scheme"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, rest) = rest.rsplit_once('@').ok_or_else(|| refused("it must name a user"))?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (address, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match address.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            None => (address, 1433),
            Some((host, port)) => (host, port.parse().map_err(|_| refused("its port must be a number"))?),
        };
        if [user, host, database].contains(&"") {
            return Err(refused("it must name a user, a host and a database"));
        }
        let mut config = Config::new();
        config.host(host);
        config.port(port);
        config.database(decoded(database)?);
        config.authentication(AuthMethod::sql_server(decoded(user)?, decoded(password)?));
        config.application_name("lineclear-lock");
        // Callers limit how long they wait.
        config.command_timeout(None);
        for pair in options.split('&').filter(|pair| !pair.is_empty()) {
            match pair {
                "encrypt=on" => config.encryption(EncryptionLevel::Required),
                "encrypt=strict" => config.encryption(EncryptionLevel::Strict),
                "encrypt=off" => config.encryption(EncryptionLevel::NotSupported),
                "trust_certificate=yes" => config.trust_cert(),
                _ => {
                    let why = format!(
                        "unknown option {pair}; the options are encrypt=on, strict or off, and trust_certificate=yes"
                    );
                    return Err(refused(&why));
                }
            }
        }
        Ok(MssqlTarget { config, shown: format!("mssql://{host}:{port}/{database}") })
    }
}

fn refused(why: &str) -> LockError {
    LockError::refused("lock_url", format!("{why}; use mssql://user:password@host:port/database"))
}

/// Percent-decodes a part of the URL.
fn decoded(text: &str) -> Result<String, LockError> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, others @ ..] = rest {
        rest = others;
        let coded = others.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match (first, coded.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            (b'%', None) => return Err(refused("a % must be followed by two hexadecimal digits")),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).map_err(|_| refused("it must be UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_keeps_the_password_to_itself() {
        let target = MssqlTarget::new("sqlserver://sa:p%40ss%2Fé@db.example/app?encrypt=off").unwrap();
        assert_eq!(format!("{target:?}"), "mssql://db.example:1433/app");
        assert_eq!(target.config.get_addr(), "db.example:1433");
        assert_eq!(MssqlTarget::new("mssql://sa@[::1]:7/app").unwrap().config.get_addr(), "[::1]:7");
        assert_eq!(decoded("p%40ss%2Fé").unwrap(), "p@ss/é");
        let bad =
            ["host/db", "sa@host", "sa@/db", "sa@host:x/db", "@host/db", "s%4@host/db", "sa@host/db?a=b"];
        for bad in bad {
            let error = MssqlTarget::new(&format!("mssql://{bad}")).unwrap_err().to_string();
            assert!(error.starts_with("refused by lock_url: "), "{bad}: {error}");
        }
    }
}
