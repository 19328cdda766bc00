//! Configuration files: flat TOML, in which a word that we do not know is an error.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{SETTINGS, nearest};
use crate::failure::Failure;

/// The file beside which the server is started.
const HERE: &str = "lineclear.toml";
/// Most bytes of a file.
const BYTES_MAX: u64 = 1024 * 1024;

type Values = BTreeMap<String, String>;

/// The named file; or, if none is named, those that are there of ours and the user's.
pub(super) fn read_all(named: Option<PathBuf>) -> Result<Vec<(PathBuf, Values)>, Failure> {
    if let Some(path) = named {
        let values =
            read(&path)?.ok_or_else(|| Failure::usage(format!("there is no file {}", path.display())))?;
        return Ok(vec![(path, values)]);
    }
    let mut files = Vec::new();
    for path in [Some(PathBuf::from(HERE)), users_own()].into_iter().flatten() {
        if let Some(values) = read(&path)? {
            files.push((path, values));
        }
    }
    Ok(files)
}

fn users_own() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?;
    let file = base.join("lineclear").join("config.toml");
    // HOME may be somebody else's (`su -m`, a container): what lies in a folder that is closed to us is not ours.
    let closed = std::fs::metadata(&file).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    (!closed).then_some(file)
}

/// `None`: there is no such file.
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
    table.into_iter().map(|(key, value)| one(path, key, value)).collect::<Result<_, _>>().map(Some)
}

fn one(path: &Path, key: String, value: toml::Value) -> Result<(String, String), Failure> {
    if !SETTINGS.iter().any(|setting| setting.name == key) {
        let failure = Failure::usage(format!("{}: there is no setting {key:?}", path.display()));
        return Err(match nearest(&key) {
            Some(setting) => failure.hint(format!("did you mean {}?", setting.name)),
            None => failure.hint("`lineclear config show` lists all settings"),
        });
    }
    if key == "commands" && matches!(&value, toml::Value::Array(_)) {
        // Words of a command may have commas in them.
        return Ok((key, serde_json::to_string(&value).unwrap_or_default()));
    }
    let words = |list: Vec<toml::Value>| {
        list.into_iter().map(word).collect::<Option<Vec<_>>>().map(|all| all.join(","))
    };
    let text = match value {
        toml::Value::Array(list) => words(list),
        other => word(other),
    };
    match text {
        Some(text) => Ok((key, text)),
        None => Err(Failure::usage(format!(
            "{}: {key} must be a word, a number or a list of words",
            path.display()
        ))),
    }
}

fn word(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(yes) => Some(yes.to_string()),
        _ => None,
    }
}
