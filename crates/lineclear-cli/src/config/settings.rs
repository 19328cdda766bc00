//! The settings there are, in one table.

use std::time::Duration;

use lineclear::{NodeOptions, Role};
use lineclear_http::{Limits, Network};
use lineclear_model::secret::without_passwords;

/// How variables of ours begin.
pub(super) const PREFIX: &str = "LINECLEAR_";

/// One setting.
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

/// All of them.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "db",
        help: "the database: postgres://user@host/database, or a SQLite file",
        default: || "lineclear.db".to_owned(),
        check: |text| lineclear::StoreOptions::new(text).map(drop).map_err(|error| error.to_string()),
    },
    Setting {
        name: "bind",
        help: "the address the server listens on",
        default: || "127.0.0.1".to_owned(),
        check: |text| {
            text.parse::<std::net::IpAddr>().map(drop).map_err(|_| format!("{text:?} is no IP address"))
        },
    },
    Setting {
        name: "port",
        help: "its port; 0 takes a free one",
        default: || lineclear_http::PORT.to_string(),
        check: |text| number::<u16>(text).map(drop),
    },
    Setting {
        name: "base_path",
        help: "the path that a proxy has the server under, such as /lineclear; paths with and without it are answered",
        default: String::new,
        check: |text| {
            let http = lineclear_http::HttpOptions { base_path: text.to_owned(), ..Default::default() };
            http.check().map_err(|bad| bad.to_string())
        },
    },
    Setting {
        name: "auth",
        help: "how it knows who asks: none (on a loopback address only), token, or proxy",
        default: || "none".to_owned(),
        check: |text| match text {
            "none" | "token" | "proxy" => Ok(()),
            other => Err(format!("{other:?} is neither none, token nor proxy")),
        },
    },
    Setting {
        name: "proxy_peers",
        help: "auth = proxy: networks of the proxy that is believed, such as 10.0.0.5 or 10.0.0.0/8, with commas between them",
        default: String::new,
        check: |text| networks(text).map(drop),
    },
    Setting {
        name: "proxy_user_header",
        help: "auth = proxy: the header in which it names the user",
        default: || "X-Forwarded-User".to_owned(),
        check: |_| Ok(()),
    },
    Setting {
        name: "proxy_scopes_header",
        help: "auth = proxy: the header in which it says what the user may do: lineclear-read, lineclear-operate, lineclear-admin",
        default: String::new,
        check: |_| Ok(()),
    },
    Setting {
        name: "proxy_scope",
        help: "auth = proxy: what every user may do if there is no such header",
        default: || "read".to_owned(),
        check: |text| lineclear_model::Scopes::parse(text).map(drop).map_err(|bad| bad.to_string()),
    },
    Setting {
        name: "connections",
        help: "connections at once",
        default: || Limits::default().connections.to_string(),
        check: |text| at_least_one(text).map(drop),
    },
    Setting {
        name: "connections_per_address",
        help: "connections of one address at once; not for this machine itself, nor for a proxy that is believed",
        default: || Limits::default().connections_per_address.to_string(),
        check: |text| at_least_one(text).map(drop),
    },
    Setting {
        name: "rate",
        help: "requests of one address, and of one token or user, in a second; 0 is any number; nobody is counted where auth is none",
        default: || Limits::default().rate.to_string(),
        check: |text| number::<u32>(text).map(drop),
    },
    Setting {
        name: "roles",
        help: "what the node does: planner, dispatcher, workers, cleaner, with commas between them",
        default: || "planner,dispatcher,workers,cleaner".to_owned(),
        check: |text| roles(text).map(drop),
    },
    Setting {
        name: "slots",
        help: "jobs it runs at once",
        default: || NodeOptions::default().slots.to_string(),
        check: |text| number::<u32>(text).map(drop),
    },
    Setting {
        name: "lease",
        help: "after this time without renewal, a job is given to another node",
        default: || "30s".to_owned(),
        check: |text| span(text).map(drop),
    },
    Setting {
        name: "heartbeat",
        help: "how often the node says that it is alive",
        default: || "10s".to_owned(),
        check: |text| span(text).map(drop),
    },
    Setting {
        name: "poll",
        help: "how often it looks for work when nobody nudges it",
        default: || "1s".to_owned(),
        check: |text| span(text).map(drop),
    },
    Setting {
        name: "shutdown_grace",
        help: "how long handlers may go on when it stops",
        default: || "30s".to_owned(),
        check: |text| span(text).map(drop),
    },
    Setting {
        name: "manifests",
        help: "files with manifests to declare at the start, with commas between them",
        default: String::new,
        check: |_| Ok(()),
    },
    Setting {
        name: "commands",
        help: "programs that jobs of the kind command may run, by their whole path, with commas between them; or a list in which [\"/bin/sh\", \"-c\", \"date\"] is just that",
        default: String::new,
        check: |text| crate::kinds::Allowed::parse(text).map(drop),
    },
    Setting {
        name: "http_networks",
        help: "networks beside the public ones that jobs of the kind http may call, such as 10.0.0.0/8, with commas between them",
        default: String::new,
        check: |text| networks(text).map(drop),
    },
    Setting {
        name: "http_ports",
        help: "ports beside 443 that they may call, with commas between them",
        default: String::new,
        check: |text| crate::kinds::ports(text).map(drop),
    },
    Setting {
        name: "http_plain",
        help: "true: they may call http:// and port 80, too",
        default: || "false".to_owned(),
        check: |text| match text {
            "true" | "false" => Ok(()),
            other => Err(format!("{other:?} is neither true nor false")),
        },
    },
    Setting {
        name: "http_secrets",
        help: "hooks.example.com=whsec_…: secrets by which those that are called know that it is us; two of one host while it is changed; with commas between them",
        default: String::new,
        check: |text| crate::kinds::secrets(text).map(drop),
    },
    Setting {
        name: "log",
        help: "what is logged: error, warn, info, debug, trace or off",
        default: || "info".to_owned(),
        check: |text| {
            text.parse::<tracing::level_filters::LevelFilter>()
                .map(drop)
                .map_err(|_| format!("{text:?} is no level"))
        },
    },
    Setting {
        name: "log_format",
        help: "text for people, or json",
        default: || "text".to_owned(),
        check: |text| match text {
            "text" | "json" => Ok(()),
            other => Err(format!("{other:?} is neither text nor json")),
        },
    },
    Setting {
        name: "otlp",
        help: "a collector of traces: spans go there by OTLP over HTTP; nothing: no traces",
        default: String::new,
        check: |text| match text {
            "" => Ok(()),
            url if url.strip_prefix("http://").is_some_and(|rest| !rest.is_empty()) => Ok(()),
            other => Err(format!("{:?} is no URL like http://127.0.0.1:4318", without_passwords(other))),
        },
    },
];

pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number that fits here"))
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    number(text)
        .and_then(|number| if number == 0 { Err("it needs one at least".to_owned()) } else { Ok(number) })
}

/// `10.0.0.5,10.1.0.0/16`
pub(crate) fn networks(text: &str) -> Result<Vec<Network>, String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::parse).collect()
}

/// `90s`, `5m`, `1h30m`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    lineclear_model::duration::parse(text).map_err(|error| format!("{text:?}: {error}"))
}

pub(crate) fn roles(text: &str) -> Result<Vec<Role>, String> {
    let role = |word: &str| match word.trim() {
        "planner" => Ok(Role::Planner),
        "dispatcher" => Ok(Role::Dispatcher),
        "workers" => Ok(Role::Workers),
        "cleaner" => Ok(Role::Cleaner),
        other => Err(format!("{other:?} is no role; there are planner, dispatcher, workers and cleaner")),
    };
    text.split(',').filter(|word| !word.trim().is_empty()).map(role).collect()
}
