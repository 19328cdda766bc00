//! Configuration files: flat TOML. An unknown key is an error.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{SETTINGS, nearest};
use crate::failure::Failure;

/// The file in the current folder.
const LOCAL_FILE: &str = "lineclear.toml";
/// Largest file.
const BYTES_MAX: u64 = 1024 * 1024;

/// A file that was read.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) values: BTreeMap<String, String>,
    /// Why another user could have written it.
    pub(super) distrust: Option<String>,
}

/// Reads the named file; without one, `./lineclear.toml` and the user's file, if they exist.
pub(super) fn read_all(named: Option<PathBuf>) -> Result<Vec<SettingsFile>, Failure> {
    if let Some(path) = named {
        let missing = Failure::usage(format!("file {} does not exist", path.display()));
        return Ok(vec![read(path)?.ok_or(missing)?]);
    }
    let both = [Some(PathBuf::from(LOCAL_FILE)), user_file()].into_iter().flatten();
    both.filter_map(|path| read(path).transpose()).collect()
}

fn user_file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?;
    let file = base.join("lineclear").join("config.toml");
    // HOME may be another user's (`su -m`, containers): a folder without permission is ignored.
    let is_denied = std::fs::metadata(&file).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    (!is_denied).then_some(file)
}

/// `None` if the file does not exist.
fn read(path: PathBuf) -> Result<Option<SettingsFile>, Failure> {
    let cannot = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    // Without waiting: opening a pipe lasts until another process writes to it.
    let mut options = File::options();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = match options.open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(cannot)?,
    };
    let found = file.metadata().map_err(cannot)?;
    if !found.is_file() {
        let why = "must be a regular file, not a folder, a pipe or a device";
        return Err(Failure::usage(format!("{} {why}", path.display())));
    }
    let mut text = String::new();
    // The length of a file does not say how much can be read: it may grow, or be one of /proc.
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(Failure::usage(format!("{} has more than {BYTES_MAX} bytes", path.display())));
    }
    let table: toml::Table = text.parse().map_err(|error| syntax_error(&path, &text, &error))?;
    let values = table.into_iter().map(|(key, value)| read_setting(&path, key, value));
    let values = values.collect::<Result<_, _>>()?;
    let distrust = distrust(&path, &found);
    Ok(Some(SettingsFile { path, values, distrust }))
}

/// Why a user other than this one and root could have written the file.
fn distrust(path: &Path, file: &Metadata) -> Option<String> {
    let is_foreign = |found: &Metadata| ![0, rustix::process::geteuid().as_raw()].contains(&found.uid());
    if is_foreign(file) {
        return Some(format!("which belongs to another user (uid {})", file.uid()));
    }
    if file.mode() & 0o022 != 0 {
        return Some(format!("which other users can write to (mode {:o})", file.mode() & 0o777));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(folder) {
        Ok(folder) if is_foreign(&folder) => Some("which is in a folder of another user".to_owned()),
        Ok(folder) if folder.mode() & 0o002 != 0 => {
            Some("which is in a folder that every user can write to".to_owned())
        }
        Ok(_) => None,
        Err(error) => Some(format!("whose folder cannot be read: {error}")),
    }
}

/// Where the syntax is wrong, without the line itself: it may contain a password.
fn syntax_error(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let before = &text.as_bytes()[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    let key = text.lines().nth(line).and_then(|line| line.split_once('=')).map_or("", |(key, _)| key.trim());
    let key = SETTINGS.iter().find(|setting| setting.name == key);
    let key = key.map(|setting| format!(" (`{}`)", setting.name)).unwrap_or_default();
    // The parser's message names what it expected, and nothing of the text.
    let why = error.message();
    Failure::usage(format!("{}: line {}, column {column}{key}: {why}", path.display(), line + 1))
}

fn read_setting(path: &Path, key: String, value: toml::Value) -> Result<(String, String), Failure> {
    if !SETTINGS.iter().any(|setting| setting.name == key) {
        let failure = Failure::usage(format!("{}: unknown setting {key:?}", path.display()));
        return Err(match nearest(&key) {
            Some(setting) => failure.hint(format!("did you mean {}?", setting.name)),
            None => failure.hint("`lineclear config show` lists all settings"),
        });
    }
    let is_structured = match &value {
        // Arguments of a command may contain commas.
        toml::Value::Array(_) => key == "commands",
        toml::Value::Table(_) => matches!(key.as_str(), "secrets" | "submitter" | "outbox"),
        _ => false,
    };
    if is_structured {
        return Ok((key, serde_json::to_string(&value).unwrap_or_default()));
    }
    let joined = |list: Vec<toml::Value>| {
        list.into_iter().map(scalar).collect::<Option<Vec<_>>>().map(|all| all.join(","))
    };
    let text = match value {
        toml::Value::Array(list) => joined(list),
        other => scalar(other),
    };
    match text {
        Some(text) => Ok((key, text)),
        None => Err(Failure::usage(format!(
            "{}: `{key}` must be a string, a number, a boolean or a list of these",
            path.display()
        ))),
    }
}

fn scalar(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(yes) => Some(yes.to_string()),
        _ => None,
    }
}
