//! `lineclear manifest apply`: what files say becomes so.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::api::At;
use crate::cmd::ask::asking;
use crate::failure::Failure;
use crate::output::{plain, print, print_json};

const EXAMPLES: &str = "Examples:
  lineclear manifest apply -f jobs.toml --dry-run
  lineclear manifest apply -f manifests/ --owner billing --prune
  lineclear manifest apply -f jobs.toml --db lineclear.db

+ is new, ~ changes, - is removed. With --prune, manifests that the same owner applied before and that are in no file any more are
removed. All of it becomes so, or nothing.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Apply {
    /// A TOML file, or a folder of them; may be said more than once
    #[arg(short, long = "file", required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Whose these are
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Removes manifests of the owner that are in no file
    #[arg(long, requires = "owner")]
    prune: bool,
    /// Only says what it would do
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    at: At,
}

impl Apply {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let body = self.body()?;
        asking(&self.at, async |api| {
            let plan = api.post("manifests:apply", body).await?;
            if self.at.json {
                print_json(&plan)?;
            } else {
                print(&told(&plan))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    /// All files as one declaration.
    fn body(&self) -> Result<Value, Failure> {
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
            let Value::Object(mut file) = json!(table) else { continue };
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
            "group": groups, "manifest": manifests, "owner": self.owner, "prune": self.prune, "dry_run": self.dry_run
        }))
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

/// `+ ~ -`, and how much stays as it is.
fn told(plan: &Value) -> String {
    let mut text = String::new();
    let mut same = 0;
    for (what, word) in [("groups", "group"), ("manifests", "manifest")] {
        let Some(changes) = plan.get(what) else { continue };
        let all = |name: &str| changes.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        same += all("unchanged").len();
        for (sign, name) in [("+", "created"), ("~", "changed"), ("-", "removed")] {
            for one in all(name) {
                let key =
                    one.as_str().or_else(|| one.get("key")?.as_str()).or_else(|| one.get("name")?.as_str());
                text.push_str(&format!("{sign} {word} {}\n", plain(key.unwrap_or_default())));
            }
        }
    }
    if text.is_empty() {
        return format!("all is as it should be ({same} unchanged)\n");
    }
    let dry = plan.get("dry_run").and_then(Value::as_bool) == Some(true);
    text + &format!(
        "{same} unchanged{}\n",
        if dry { "; nothing was changed: this was a dry run" } else { "" }
    )
}
