//! `--file`: manifest files, merged into one declaration.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;

/// Manifest files and their owner.
#[derive(Args)]
pub(super) struct Files {
    /// TOML file, or a folder of TOML files; may be repeated
    #[arg(short, long = "file", required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Owner of these manifests
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Remove manifests of the owner that are in no file
    #[arg(long, requires = "owner")]
    prune: bool,
}

impl Files {
    /// Whether manifests may be removed.
    pub(super) fn prunes(&self) -> bool {
        self.prune
    }

    /// Merges all files into one declaration.
    pub(super) fn declaration(&self, dry_run: bool) -> Result<Value, Failure> {
        let (mut groups, mut manifests) = (serde_json::Map::new(), Vec::new());
        let mut paths = Vec::new();
        for path in &self.files {
            paths.extend(toml_files(path)?);
        }
        for path in &paths {
            let cannot = |why: String| Failure::usage(format!("{}: {why}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
            // Checked here, where errors have line numbers.
            lineclear_model::ManifestFile::from_toml(&text).map_err(|bad| cannot(bad.to_string()))?;
            let table: toml::Table =
                text.parse().map_err(|error: toml::de::Error| cannot(error.to_string()))?;
            let Value::Object(mut file) = as_json(toml::Value::Table(table)) else { continue };
            if let Some(Value::Object(more)) = file.remove("group") {
                for (name, group) in more {
                    if groups.insert(name.clone(), group).is_some() {
                        return Err(cannot(format!("group {name} is also in another file")));
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

/// TOML as JSON. Dates become strings.
fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::Datetime(date) => date.to_string().into(),
        toml::Value::Array(all) => all.into_iter().map(as_json).collect(),
        toml::Value::Table(all) => all.into_iter().map(|(name, value)| (name, as_json(value))).collect(),
        plain => json!(plain),
    }
}

/// The file itself, or the TOML files of a folder, sorted.
fn toml_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let cannot = |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(cannot)? {
        let file = entry.map_err(cannot)?.path();
        if file.is_dir() {
            files.extend(toml_files(&file)?);
        } else if file.extension().is_some_and(|ending| ending == "toml") {
            files.push(file);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(Failure::usage(format!("folder {} has no .toml file", path.display()))),
        false => Ok(files),
    }
}
