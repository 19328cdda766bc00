//! Errors of the driver as text. The driver's own text names neither the server nor the cause.

use std::error::Error;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The port of PostgreSQL.
const PORT: u16 = 5432;

/// An error while connecting: the hosts, and the error with its causes.
pub fn connect_error(config: &Config, error: &(dyn Error + 'static)) -> String {
    format!("{}: {}", hosts(config), with_causes(error))
}

/// An error with its causes, without repetitions.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(&format!(": {more}"));
        }
        cause = error.source();
    }
    text
}

fn hosts(config: &Config) -> String {
    let ports = config.get_ports();
    let host = |(at, host): (usize, &Host)| {
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
        match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        }
    };
    config.get_hosts().iter().enumerate().map(host).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_hosts_and_each_cause_once() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("error connecting to server")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = Outer(std::io::Error::other("Connection refused"));
        for (url, hosts) in [
            ("postgres://u:hunter2@db.internal/app", "db.internal:5432"),
            ("postgres://u@a:1,b:2/app", "a:1, b:2"),
            ("postgres://u@[::1]:7/app", "[::1]:7"),
            ("host=/run/postgresql user=u", "/run/postgresql:5432"),
        ] {
            let text = connect_error(&url.parse().unwrap(), &error);
            assert_eq!(text, format!("{hosts}: error connecting to server: Connection refused"));
        }
        assert_eq!(with_causes(&std::io::Error::other("x")), "x");
    }
}
