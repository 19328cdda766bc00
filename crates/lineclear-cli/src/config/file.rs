//! Configuration files: flat TOML. An unknown key is an error.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{SETTINGS, nearest};
use crate::failure::Failure;

/// The file in the current folder.
const LOCAL_FILE: &str = "lineclear.toml";
/// Largest file.
const BYTES_MAX: u64 = 1024 * 1024;

type Values = BTreeMap<String, String>;

/// Reads the named file; without one, `./lineclear.toml` and the user's file, if they exist.
pub(super) fn read_all(named: Option<PathBuf>) -> Result<Vec<(PathBuf, Values)>, Failure> {
    if let Some(path) = named {
        let values =
            read(&path)?.ok_or_else(|| Failure::usage(format!("file {} does not exist", path.display())))?;
        return Ok(vec![(path, values)]);
    }
    let mut files = Vec::new();
    for path in [Some(PathBuf::from(LOCAL_FILE)), user_file()].into_iter().flatten() {
        if let Some(values) = read(&path)? {
            files.push((path, values));
        }
    }
    Ok(files)
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
fn read(path: &Path) -> Result<Option<Values>, Failure> {
    let cannot = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(error)),
        Ok(found) if found.len() > BYTES_MAX => {
            return Err(Failure::usage(format!("{} has more than {BYTES_MAX} bytes", path.display())));
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        Failure::usage(format!("{}: {error}", path.display()).trim_end().to_owned())
    })?;
    table.into_iter().map(|(key, value)| read_setting(path, key, value)).collect::<Result<_, _>>().map(Some)
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
        toml::Value::Table(_) => key == "secrets",
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
