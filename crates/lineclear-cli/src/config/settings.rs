//! All settings, in one table.

use std::time::Duration;

use lineclear::{NodeOptions, Role};
use lineclear_http::{ListenerLimits, Network, ProxySecret};
use lineclear_model::secret::without_passwords;

/// Prefix of environment variables.
pub(super) const PREFIX: &str = "LINECLEAR_";

/// A setting.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(super) default: fn() -> String,
    pub(super) check: fn(&str) -> Result<(), String>,
}

impl Setting {
    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase())
    }
}

/// All settings.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "db",
        help: "database: postgres://user@host/database, or a SQLite file",
        default: || "lineclear.db".to_owned(),
        check: |text| lineclear::StoreOptions::new(text).map(drop).map_err(|error| error.to_string()),
    },
    Setting {
        name: "bind",
        help: "address to listen on",
        default: || "127.0.0.1".to_owned(),
        check: |text| {
            text.parse::<std::net::IpAddr>().map(drop).map_err(|_| format!("{text:?} is not an IP address"))
        },
    },
    Setting {
        name: "port",
        help: "port to listen on; 0 picks a free one",
        default: || lineclear_http::PORT.to_string(),
        check: |text| number::<u16>(text).map(drop),
    },
    Setting {
        name: "base_path",
        help: "path under which a proxy serves it, such as /lineclear; requests with and without it are served",
        default: String::new,
        check: |text| {
            let http = lineclear_http::HttpOptions { base_path: text.to_owned(), ..Default::default() };
            http.check().map_err(|bad| bad.to_string())
        },
    },
    Setting {
        name: "auth",
        help: "authentication: none (on a loopback address only), token or proxy",
        default: || "none".to_owned(),
        check: |text| match text {
            "none" | "token" | "proxy" => Ok(()),
            other => Err(format!("{other:?} is not none, token or proxy")),
        },
    },
    Setting {
        name: "trusted_proxies",
        help: "comma-separated networks of proxies in front of the server, such as 10.0.0.5 or 10.0.0.0/8; X-Forwarded-For of others is ignored",
        default: String::new,
        check: |text| networks(text).map(drop),
    },
    Setting {
        name: "proxy_secret",
        help: "secret that proxies send as X-Lineclear-Proxy-Secret, in the environment or a file; auth = proxy and proxies on this machine need it",
        default: String::new,
        check: |text| optional(text, |text| ProxySecret::new(text).map(drop)),
    },
    Setting {
        name: "proxy_secret_file",
        help: "file with that secret, which other users cannot read",
        default: String::new,
        check: |_| Ok(()),
    },
    Setting {
        name: "proxy_user_header",
        help: "auth = proxy: header with the name of the user",
        default: || "X-Forwarded-User".to_owned(),
        check: |_| Ok(()),
    },
    Setting {
        name: "proxy_scopes_header",
        help: "auth = proxy: header with comma-separated groups, of which lineclear-read, lineclear-operate and lineclear-admin are scopes",
        default: String::new,
        check: |_| Ok(()),
    },
    Setting {
        name: "proxy_scope",
        help: "auth = proxy: scope of every user if there is no such header",
        default: || "read".to_owned(),
        check: |text| lineclear_model::Scopes::parse(text).map(drop).map_err(|bad| bad.to_string()),
    },
    Setting {
        name: "connections",
        help: "maximum number of connections",
        default: || ListenerLimits::default().connections.to_string(),
        check: |text| at_least_one(text).map(drop),
    },
    Setting {
        name: "connections_per_address",
        help: "maximum number of connections from one address, except this machine and trusted proxies; and of concurrent requests of one client of a proxy",
        default: || ListenerLimits::default().connections_per_address.to_string(),
        check: |text| at_least_one(text).map(drop),
    },
    Setting {
        name: "requests_per_principal",
        help: "maximum number of concurrent requests of one token or user, including streams; not applied if auth is none",
        default: || ListenerLimits::default().requests_per_principal.to_string(),
        check: |text| at_least_one(text).map(drop),
    },
    Setting {
        name: "streams_per_principal",
        help: "maximum number of event streams, and of live pages, of one token or user; not applied if auth is none",
        default: || ListenerLimits::default().streams_per_principal.to_string(),
        check: |text| at_least_one(text).map(drop),
    },
    Setting {
        name: "polls",
        help: "maximum number of requests that wait for work, as far as the limit of open files allows; they count neither as connections nor as requests of their principal",
        default: || ListenerLimits::default().polls.to_string(),
        check: |text| at_least_one(text).map(drop),
    },
    Setting {
        name: "polls_per_principal",
        help: "maximum number of requests of one token or user that wait for work; not applied if auth is none",
        default: || ListenerLimits::default().polls_per_principal.to_string(),
        check: |text| at_least_one(text).map(drop),
    },
    Setting {
        name: "rate",
        help: "maximum requests per second of one address, token or user; 0 is unlimited; not applied if auth is none",
        default: || ListenerLimits::default().rate.to_string(),
        check: |text| number::<u32>(text).map(drop),
    },
    Setting {
        name: "roles",
        help: "comma-separated roles of the node: planner, dispatcher, workers, cleaner",
        default: || "planner,dispatcher,workers,cleaner".to_owned(),
        check: |text| roles(text).map(drop),
    },
    Setting {
        name: "slots",
        help: "maximum number of jobs to run at once",
        default: || NodeOptions::default().slots.to_string(),
        check: |text| number::<u32>(text).map(drop),
    },
    Setting {
        name: "lease",
        help: "hand a job to another node after this time without renewal",
        default: || "30s".to_owned(),
        check: |text| parse_duration(text).map(drop),
    },
    Setting {
        name: "heartbeat",
        help: "interval at which the node reports that it is alive",
        default: || "10s".to_owned(),
        check: |text| parse_duration(text).map(drop),
    },
    Setting {
        name: "poll",
        help: "poll interval when no notification arrives",
        default: || "1s".to_owned(),
        check: |text| parse_duration(text).map(drop),
    },
    Setting {
        name: "shutdown_grace",
        help: "time for running handlers to finish on shutdown",
        default: || "30s".to_owned(),
        check: |text| parse_duration(text).map(drop),
    },
    Setting {
        name: "wait_for_db",
        help: "how long a node that starts waits for a database that is away; 0 exits at once",
        default: || "10m".to_owned(),
        check: |text| wait_for_db(text).map(drop),
    },
    Setting {
        name: "manifests",
        help: "comma-separated manifest files to declare at the start",
        default: String::new,
        check: |_| Ok(()),
    },
    Setting {
        name: "commands",
        help: "comma-separated programs that jobs of the kind command may run, by their absolute path; or a list, in which [\"/bin/sh\", \"-c\", \"date\"] allows exactly this command line",
        default: String::new,
        check: |text| crate::kinds::Allowed::parse(text).map(drop),
    },
    Setting {
        name: "allow_open_commands",
        help: "true: run commands although auth is none, so that every user of this machine can run them as the server's user",
        default: || "false".to_owned(),
        check: boolean,
    },
    Setting {
        name: "command_env",
        help: "comma-separated variables that commands get besides PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_*, TZ and TMPDIR, such as PGHOST or AWS_*",
        default: String::new,
        check: |text| crate::kinds::names(text).map(drop),
    },
    Setting {
        name: "command_user",
        help: "user that runs commands; the server must run as root [default: the server's user]",
        default: String::new,
        check: |_| Ok(()),
    },
    Setting {
        name: "command_limits",
        help: "comma-separated limits of commands, such as cpu=10m,memory=2G,files=256,processes=64,file_size=1G; those not named are the server's",
        default: String::new,
        check: |text| crate::kinds::limits(text).map(drop),
    },
    Setting {
        name: "http_networks",
        help: "comma-separated networks that jobs of the kind http may call besides public ones, such as 10.0.0.0/8",
        default: String::new,
        check: |text| networks(text).map(drop),
    },
    Setting {
        name: "http_ports",
        help: "comma-separated ports that jobs of the kind http may call besides 443",
        default: String::new,
        check: |text| crate::kinds::ports(text).map(drop),
    },
    Setting {
        name: "http_plain",
        help: "true: jobs of the kind http may also call http:// and port 80",
        default: || "false".to_owned(),
        check: boolean,
    },
    Setting {
        name: "http_secrets",
        help: "comma-separated secrets that sign calls, such as hooks.example.com=whsec_…; a host may have two during rotation",
        default: String::new,
        check: |text| crate::kinds::secrets(text).map(drop),
    },
    Setting {
        name: "secrets_dir",
        help: "folder of secrets that inputs name as {\"$secret\": \"name\"}, one file each; besides, LINECLEAR_SECRET_NAME",
        default: || std::env::var("CREDENTIALS_DIRECTORY").unwrap_or_default(),
        check: |text| match text {
            "" => Ok(()),
            folder if std::path::Path::new(folder).is_dir() => Ok(()),
            folder => Err(format!("{folder:?} is not a folder")),
        },
    },
    Setting {
        name: "secrets",
        help: "which hosts and programs may get which secret, such as {\"api-token\": {\"hosts\": [\"api.example.com\"]}}",
        default: String::new,
        check: |text| crate::kinds::SecretRules::parse(text).map(drop),
    },
    Setting {
        name: "submitter",
        help: "where jobs of which kinds go instead of the handlers of this server, such as {\"python\": {\"type\": \"pull\", \"kinds\": [\"transcribe\"]}}; in a file, [submitter.python]",
        default: String::new,
        check: |text| crate::submitters::Submitters::parse(text).map(drop),
    },
    Setting {
        name: "outbox",
        help: "outboxes of the database that this server delivers, such as {\"main\": {\"sink\": \"jobs\"}}; in a file, [outbox.main]",
        default: String::new,
        check: |text| crate::outboxes::Outboxes::parse(text).map(drop),
    },
    Setting {
        name: "log",
        help: "log level: error, warn, info, debug, trace or off",
        default: || "info".to_owned(),
        check: |text| {
            text.parse::<tracing::level_filters::LevelFilter>()
                .map(drop)
                .map_err(|_| format!("{text:?} is not a log level"))
        },
    },
    Setting {
        name: "log_format",
        help: "log format: text or json",
        default: || "text".to_owned(),
        check: |text| match text {
            "text" | "json" => Ok(()),
            other => Err(format!("{other:?} is not text or json")),
        },
    },
    Setting {
        name: "otlp",
        help: "URL of an OTLP collector (HTTP) that gets traces; empty for none",
        default: String::new,
        check: |text| match text {
            "" => Ok(()),
            url if url.strip_prefix("http://").is_some_and(|rest| !rest.is_empty()) => Ok(()),
            other => {
                Err(format!("{:?} is not a URL such as http://127.0.0.1:4318", without_passwords(other)))
            }
        },
    },
];

fn boolean(text: &str) -> Result<(), String> {
    match text {
        "true" | "false" => Ok(()),
        other => Err(format!("{other:?} is not true or false")),
    }
}

pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a valid number"))
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    number(text)
        .and_then(|number| if number == 0 { Err("must be at least 1".to_owned()) } else { Ok(number) })
}

/// Empty, or valid.
fn optional(text: &str, check: fn(&str) -> Result<(), String>) -> Result<(), String> {
    if text.is_empty() { Ok(()) } else { check(text) }
}

/// `10.0.0.5,10.1.0.0/16`
pub(crate) fn networks(text: &str) -> Result<Vec<Network>, String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::parse).collect()
}

/// `90s`, `5m`, `1h30m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    lineclear_model::duration::parse(text).map_err(|error| format!("{text:?}: {error}"))
}

/// Like [`parse_duration`]; `0` is no wait.
pub(crate) fn wait_for_db(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_duration(text) }
}

pub(crate) fn roles(text: &str) -> Result<Vec<Role>, String> {
    let role = |word: &str| match word.trim() {
        "planner" => Ok(Role::Planner),
        "dispatcher" => Ok(Role::Dispatcher),
        "workers" => Ok(Role::Workers),
        "cleaner" => Ok(Role::Cleaner),
        other => Err(format!("{other:?} is not a role: planner, dispatcher, workers or cleaner")),
    };
    text.split(',').filter(|word| !word.trim().is_empty()).map(role).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_in_the_documentation() {
        let page = include_str!("../../../../docs/options.md");
        for Setting { name, .. } in SETTINGS {
            assert!(page.contains(&format!("| `{name}` |")), "docs/options.md does not say what {name} is");
        }
    }
}
