//! The manifest file: TOML, or JSON of the same shape.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{BadField, Manifest, check_priority, dependency_cycle, location};
use crate::Name;

/// Longest manifest file.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Manifests and their groups, as one file declares them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManifestFile {
    /// Groups by name. `*` is the limit of everything together.
    pub group: BTreeMap<String, GroupSpec>,
    /// The manifests, in the order of the file.
    pub manifest: Vec<Manifest>,
}

/// The settings that the manifests of a group share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupSpec {
    /// How many of its jobs may be active at once; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// 0 to 31, added to each manifest's own.
    pub priority: u8,
    /// Whether its manifests fire.
    pub enabled: bool,
}

impl Default for GroupSpec {
    fn default() -> GroupSpec {
        GroupSpec { limit: None, priority: 0, enabled: true }
    }
}

/// What is wrong with a manifest file, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadManifest {
    /// The key of the manifest, if the error is in one and it has a key.
    pub manifest: Option<String>,
    /// The field, such as `schedule` or `retry.factor`.
    pub field: Option<String>,
    /// The line of the file, from 1.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for BadManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(key) = &self.manifest {
            write!(f, "manifest {key:?}: ")?;
        }
        match &self.field {
            // Checked fields already say `schedule.cron: …` or `cron: …` themselves.
            Some(field) if !self.message.starts_with(field.as_str()) => {
                write!(f, "{field}: {}", self.message)
            }
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for BadManifest {}

impl ManifestFile {
    /// Reads and checks a TOML file.
    pub fn from_toml(text: &str) -> Result<ManifestFile, BadManifest> {
        check_size(text)?;
        let file: ManifestFile =
            toml::from_str(text).map_err(|error| location::of_toml_error(text, &error))?;
        file.check().map_err(|bad| location::add_line(text, bad))?;
        Ok(file)
    }

    /// Reads and checks JSON of the same shape.
    pub fn from_json(text: &str) -> Result<ManifestFile, BadManifest> {
        check_size(text)?;
        let file: ManifestFile =
            serde_json::from_str(text).map_err(|error| location::of_json_error(text, &error))?;
        file.check()?;
        Ok(file)
    }

    /// Checks what the types cannot express.
    pub fn check(&self) -> Result<(), BadManifest> {
        for (name, group) in &self.group {
            group.check(name).map_err(|BadField { field, message }| BadManifest {
                field: Some(format!("group.{name}.{field}")),
                message,
                ..BadManifest::default()
            })?;
        }
        let mut seen = BTreeMap::new();
        for (at, manifest) in self.manifest.iter().enumerate() {
            let bad = |field: &str, message: String| BadManifest {
                manifest: Some(manifest.key.to_string()),
                field: Some(field.to_owned()),
                message,
                line: None,
            };
            manifest.check().map_err(|error| bad(error.field, error.message))?;
            if seen.insert(&manifest.key, at).is_some() {
                return Err(bad("key", "must be unique; two manifests have this key".into()));
            }
        }
        match dependency_cycle::find(&self.manifest) {
            Some(round) => {
                let names: Vec<&str> = round.iter().chain(round.first()).map(Name::as_str).collect();
                Err(BadManifest {
                    manifest: round.first().map(Name::to_string),
                    field: Some("schedule.after".into()),
                    message: format!("manifests wait for each other and never fire: {}", names.join(" → ")),
                    line: None,
                })
            }
            None => Ok(()),
        }
    }
}

impl GroupSpec {
    fn check(&self, name: &str) -> Result<(), BadField> {
        if name != "*" {
            Name::new(name).map_err(|error| BadField::new("name", error.to_string()))?;
        }
        if self.limit == Some(0) {
            let message = "must be at least 1; to stop a group write enabled = false";
            return Err(BadField::new("limit", message));
        }
        check_priority(self.priority)
    }
}

fn check_size(text: &str) -> Result<(), BadManifest> {
    if text.len() <= FILE_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the file must have at most {FILE_BYTES_MAX} bytes, not {}", text.len());
    Err(BadManifest { message, ..BadManifest::default() })
}
