//! TLS to PostgreSQL, as `sslmode` and `sslrootcert` of its URL configure it.
//!
//! The default is `verify-full`, unless the server is on this machine: without TLS, anyone on the network path can read passwords
//! and job inputs.
#![forbid(unsafe_code)]

mod connect_error;
mod refusal;
#[cfg(feature = "tls")]
mod encrypted;

use std::net::IpAddr;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

pub use connect_error::{connect_error, with_causes};
#[cfg(feature = "tls")]
pub use encrypted::Connector;
pub use refusal::is_tls_refused;
/// Opens connections, with or without TLS.
#[cfg(not(feature = "tls"))]
pub type Connector = tokio_postgres::NoTls;

/// The TLS options of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    mode: Option<Mode>,
    authority: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// No encryption.
    Disable,
    /// Encrypted; the server's certificate is not checked.
    Require,
    /// Encrypted; an authority vouches for the server's certificate and host name.
    VerifyFull,
}

impl TlsOptions {
    /// Sets an option of a URL. `false`: it is not a TLS option. The error says why its value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "sslmode" => self.mode = Some(mode(value)?),
            "sslrootcert" if value.is_empty() => return Err("`sslrootcert` must name a file".to_owned()),
            "sslrootcert" => self.authority = Some(PathBuf::from(value)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The connector for the servers of a configuration.
    pub fn connector(&self, config: &mut Config) -> Result<Connector, String> {
        let mode = self.mode.unwrap_or(if self.authority.is_none() && is_local(config) {
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
            Mode::Disable => Connector::disabled(),
            Mode::Require => Connector::unverified(),
            Mode::VerifyFull => Connector::verified(self.authority.as_deref()),
        }
    }

    #[cfg(not(feature = "tls"))]
    fn connector_for(&self, mode: Mode, config: &mut Config) -> Result<Connector, String> {
        // An explicit request for TLS must not be ignored; the default falls back to no encryption.
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
            "`sslmode` must be verify-full (encrypted, with the server's certificate checked), require (encrypted, without \
             checking it) or disable, not {other:?}"
        )),
    }
}

/// Whether all servers are on this machine.
fn is_local(config: &Config) -> bool {
    let local = |host: &Host| match host {
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        _ => true,
    };
    config.get_hosts().iter().all(local) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(url: &str, options: &[(&str, &str)]) -> SslMode {
        let mut tls = TlsOptions::default();
        for (name, value) in options {
            assert_eq!(tls.set(name, value), Ok(true));
        }
        let mut config: Config = url.parse().unwrap();
        tls.connector(&mut config).unwrap();
        config.get_ssl_mode()
    }

    #[test]
    fn tls_is_the_default_except_for_servers_on_this_machine() {
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
    fn an_explicit_sslmode_also_applies_to_servers_on_this_machine() {
        assert_eq!(asked("postgres://localhost/a", &[("sslmode", "require")]), SslMode::Require);
        let mut options = TlsOptions::default();
        options.set("sslrootcert", "/nowhere.pem").unwrap();
        let refused = options.connector(&mut "postgres://localhost/a".parse().unwrap()).err().unwrap();
        assert!(refused.contains("/nowhere.pem"), "{refused}");
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn an_explicit_sslmode_is_refused_without_the_feature() {
        let mut options = TlsOptions::default();
        options.set("sslmode", "require").unwrap();
        assert!(options.connector(&mut "postgres://localhost/a".parse().unwrap()).is_err());
    }

    #[test]
    fn invalid_options_are_refused() {
        let mut options = TlsOptions::default();
        // `prefer` lets an attacker on the network path turn encryption off.
        assert!(options.set("sslmode", "prefer").unwrap_err().contains("verify-full"));
        assert!(options.set("sslrootcert", "").is_err());
        assert_eq!(options.set("schema", "a"), Ok(false));
    }
}
