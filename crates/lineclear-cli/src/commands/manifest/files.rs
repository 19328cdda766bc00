//! Files of manifests, as one declaration.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;

/// Which files, and whose.
#[derive(Args)]
pub(super) struct Files {
    /// A TOML file, or a folder of them; may be said more than once
    #[arg(short, long = "file", required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Whose these are
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Removes manifests of the owner that are in no file
    #[arg(long, requires = "owner")]
    prune: bool,
}

impl Files {
    /// Whether something may be removed.
    pub(super) fn prunes(&self) -> bool {
        self.prune
    }

    /// All files as one declaration.
    pub(super) fn declaration(&self, dry_run: bool) -> Result<Value, Failure> {
        let (mut groups, mut manifests) = (serde_json::Map::new(), Vec::new());
        let mut paths = Vec::new();
        for path in &self.files {
            paths.extend(below(path)?);
        }
        for path in &paths {
            let cannot = |why: String| Failure::usage(format!("{}: {why}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
            // Looked at here, because only here lines have numbers.
            lineclear_model::ManifestFile::from_toml(&text).map_err(|bad| cannot(bad.to_string()))?;
            let table: toml::Table =
                text.parse().map_err(|error: toml::de::Error| cannot(error.to_string()))?;
            let Value::Object(mut file) = as_json(toml::Value::Table(table)) else { continue };
            if let Some(Value::Object(more)) = file.remove("group") {
                for (name, group) in more {
                    if groups.insert(name.clone(), group).is_some() {
                        return Err(cannot(format!("group {name} is in another file, too")));
                    }
                }
            }
            if let Some(Value::Array(more)) = file.remove("manifest") {
                manifests.extend(more);
            }
        }
        Ok(json!({
            "group": groups, "manifest": manifests, "owner": self.owner, "prune": self.prune, "dry_run": dry_run
        }))
    }
}

/// The same in JSON, which has no dates: they are texts there.
fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::Datetime(date) => date.to_string().into(),
        toml::Value::Array(all) => all.into_iter().map(as_json).collect(),
        toml::Value::Table(all) => all.into_iter().map(|(name, value)| (name, as_json(value))).collect(),
        plain => json!(plain),
    }
}

/// The file, or the TOML files of the folder, in order.
fn below(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let cannot = |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(cannot)? {
        let file = entry.map_err(cannot)?.path();
        if file.is_dir() {
            files.extend(below(&file)?);
        } else if file.extension().is_some_and(|ending| ending == "toml") {
            files.push(file);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(Failure::usage(format!("there is no .toml in {}", path.display()))),
        false => Ok(files),
    }
}
