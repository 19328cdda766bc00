//! How a PostgreSQL is reached: in the clear, or by TLS, as `sslmode` and `sslrootcert` of its URL say.
//!
//! Who says nothing gets TLS with the server's certificate checked, unless the server is on this machine: a password, and
//! every job's input, would otherwise be read by whoever is on the way.
#![forbid(unsafe_code)]

mod connect_error;
#[cfg(feature = "tls")]
mod encrypted;

use std::net::IpAddr;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

pub use connect_error::{connect_error, with_causes};
#[cfg(feature = "tls")]
pub use encrypted::Connector;
/// What connects.
#[cfg(not(feature = "tls"))]
pub type Connector = tokio_postgres::NoTls;

/// What a URL says about the way to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    mode: Option<Mode>,
    authority: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// In the clear.
    Disable,
    /// Encrypted, to whoever answers.
    Require,
    /// Encrypted, to the server of this name, as an authority says.
    VerifyFull,
}

impl Way {
    /// Takes an option of a URL if it is one of ours; says whether it was, or what is wrong with it.
    pub fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "sslmode" => self.mode = Some(mode(value)?),
            "sslrootcert" if value.is_empty() => return Err("sslrootcert names no file".to_owned()),
            "sslrootcert" => self.authority = Some(PathBuf::from(value)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What connects to the servers of a configuration in this way.
    pub fn connector(&self, config: &mut Config) -> Result<Connector, String> {
        let mode = self.mode.unwrap_or(if self.authority.is_none() && is_here(config) {
            Mode::Disable
        } else {
            Mode::VerifyFull
        });
        config.ssl_mode(if mode == Mode::Disable { SslMode::Disable } else { SslMode::Require });
        self.connector_for(mode, config)
    }

    #[cfg(feature = "tls")]
    fn connector_for(&self, mode: Mode, _: &mut Config) -> Result<Connector, String> {
        match mode {
            Mode::Disable => Connector::never(),
            Mode::Require => Connector::to_anybody(),
            Mode::VerifyFull => Connector::verified(self.authority.as_deref()),
        }
    }

    #[cfg(not(feature = "tls"))]
    fn connector_for(&self, mode: Mode, config: &mut Config) -> Result<Connector, String> {
        // Who asks for it must not go without; who says nothing has built a program that cannot.
        if mode != Mode::Disable && (self.mode.is_some() || self.authority.is_some()) {
            return Err("this program was built without the feature `tls`".to_owned());
        }
        config.ssl_mode(SslMode::Disable);
        Ok(tokio_postgres::NoTls)
    }
}

fn mode(word: &str) -> Result<Mode, String> {
    match word {
        "disable" => Ok(Mode::Disable),
        "require" => Ok(Mode::Require),
        "verify-full" => Ok(Mode::VerifyFull),
        other => Err(format!(
            "sslmode={other} is not known; use verify-full (encrypted, and the server's certificate is checked), require \
             (encrypted, to whoever answers) or disable"
        )),
    }
}

/// Whether all servers are on this machine.
fn is_here(config: &Config) -> bool {
    let here = |host: &Host| match host {
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        _ => true,
    };
    config.get_hosts().iter().all(here) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(url: &str, options: &[(&str, &str)]) -> SslMode {
        let mut way = Way::default();
        for (name, value) in options {
            assert_eq!(way.take(name, value), Ok(true));
        }
        let mut config: Config = url.parse().unwrap();
        way.connector(&mut config).unwrap();
        config.get_ssl_mode()
    }

    #[test]
    fn a_server_on_this_machine_is_reached_in_the_clear_and_every_other_one_is_not() {
        for url in [
            "postgres://localhost/a",
            "postgres://127.0.0.1/a",
            "postgres://[::1]/a",
            "host=/run/pg dbname=a",
        ] {
            assert_eq!(asked(url, &[]), SslMode::Disable, "{url}");
        }
        let by_default = if cfg!(feature = "tls") { SslMode::Require } else { SslMode::Disable };
        for url in ["postgres://db.internal/a", "postgres://10.0.0.1/a", "postgres://localhost,db.internal/a"]
        {
            assert_eq!(asked(url, &[]), by_default, "{url}");
        }
        assert_eq!(asked("postgres://db.internal/a", &[("sslmode", "disable")]), SslMode::Disable);
    }

    #[test]
    #[cfg(feature = "tls")]
    fn who_asks_for_encryption_gets_it_also_on_this_machine() {
        assert_eq!(asked("postgres://localhost/a", &[("sslmode", "require")]), SslMode::Require);
        let mut way = Way::default();
        way.take("sslrootcert", "/nowhere.pem").unwrap();
        let refused = way.connector(&mut "postgres://localhost/a".parse().unwrap()).err().unwrap();
        assert!(refused.contains("/nowhere.pem"), "{refused}");
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn who_asks_for_encryption_does_not_go_without() {
        let mut way = Way::default();
        way.take("sslmode", "require").unwrap();
        assert!(way.connector(&mut "postgres://localhost/a".parse().unwrap()).is_err());
    }

    #[test]
    fn what_is_no_way_is_refused() {
        let mut way = Way::default();
        assert!(
            way.take("sslmode", "prefer").unwrap_err().contains("verify-full"),
            "whoever is on the way says no"
        );
        assert!(way.take("sslrootcert", "").is_err());
        assert_eq!(way.take("schema", "a"), Ok(false));
    }
}
