//! Settings of a server: flag > `LINECLEAR_*` > `./lineclear.toml` > the user's own file > default, each with its origin.

mod environment;
mod file;
mod private_file;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::failure::Failure;
use file::SettingsFile;

pub(crate) use private_file::read_private;
pub(crate) use settings::{SETTINGS, Setting, at_least_one, networks, parse_duration, roles, wait_for_db};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment(String),
    File(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A setting's value, as text.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) origin: Origin,
    /// Why another user could have written it.
    distrust: Option<String>,
}

/// All settings, each with its value.
#[derive(Debug)]
pub(crate) struct Config(BTreeMap<&'static str, Value>);

/// Settings of the command line, by name.
pub(crate) type Flags = BTreeMap<&'static str, String>;

impl Config {
    /// Merges all sources. `file` replaces `./lineclear.toml` and the user's file.
    pub(crate) fn read(flags: &Flags, file: Option<PathBuf>) -> Result<Config, Failure> {
        environment::check()?;
        let files = file::read_all(file)?;
        let mut values = BTreeMap::new();
        for setting in SETTINGS {
            values.insert(setting.name, resolve(setting, flags, &files)?);
        }
        let config = Config(values);
        for setting in SETTINGS {
            (setting.check)(config.text(setting.name)).map_err(|why| config.bad(setting.name, &why))?;
        }
        Ok(config)
    }

    /// The value of a setting.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value.text.as_str())
    }

    /// Where the server listens.
    pub(crate) fn address(&self) -> Result<SocketAddr, Failure> {
        let ip: IpAddr = self.text("bind").parse().map_err(|_| self.bad("bind", "not an IP address"))?;
        let port: u16 = self.text("port").parse().map_err(|_| self.bad("port", "not a port"))?;
        Ok(SocketAddr::new(ip, port))
    }

    /// Fails if another user could have said where a token goes: in a file, or by listening on the default port.
    pub(crate) fn check_token_target(&self) -> Result<(), Failure> {
        const NAMES: [&str; 2] = ["bind", "port"];
        let is_default = |name: &&str| self.0.get(name).is_none_or(|value| value.origin == Origin::Default);
        if NAMES.iter().all(is_default) {
            let why = "the token is not sent: nothing names the server, and another user may listen on its default port";
            return Err(Failure::usage(why).hint(
                "name the server, with --server, LINECLEAR_SERVER, or `port` in a file of settings of your own",
            ));
        }
        let found = NAMES.iter().find_map(|name| {
            let value = self.0.get(name)?;
            value.distrust.as_ref().map(|why| (name, &value.origin, why))
        });
        let Some((name, origin, why)) = found else { return Ok(()) };
        let why = format!("the token is not sent: `{name}` comes from {origin}, {why}");
        Err(Failure::usage(why).hint("name the server yourself, with --server or LINECLEAR_SERVER; or make the file and its folder your own, writable by no one else"))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// The failure of an invalid setting, with its origin.
    pub(crate) fn bad(&self, name: &str, why: &str) -> Failure {
        let origin = self.0.get(name).map_or(Origin::Default, |value| value.origin.clone());
        Failure::usage(format!("{name} ({origin}): {why}"))
    }
}

fn resolve(setting: &Setting, flags: &Flags, files: &[SettingsFile]) -> Result<Value, Failure> {
    let of = |text: String, origin: Origin| Value { text, origin, distrust: None };
    if let Some(text) = flags.get(setting.name) {
        return Ok(of(text.clone(), Origin::Flag));
    }
    if let Some(text) = environment::read(setting)? {
        return Ok(of(text, Origin::Environment(setting.variable())));
    }
    let found = files.iter().find_map(|file| Some((file, file.values.get(setting.name)?)));
    Ok(match found {
        Some((file, text)) => {
            Value { distrust: file.distrust.clone(), ..of(text.clone(), Origin::File(file.path.clone())) }
        }
        None => of((setting.default)(), Origin::Default),
    })
}

/// Settings that had another name.
const RENAMED: [(&str, &str); 1] = [("proxy_peers", "trusted_proxies")];

/// The setting that was probably meant.
fn nearest(word: &str) -> Option<&'static Setting> {
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == word) {
        return SETTINGS.iter().find(|setting| setting.name == *new);
    }
    let near = |name: &str| strsim::damerau_levenshtein(word, name);
    let best = SETTINGS.iter().min_by_key(|setting| near(setting.name))?;
    (near(best.name) <= 1 + best.name.len() / 3).then_some(best)
}
