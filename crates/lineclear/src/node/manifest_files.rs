//! Manifest files: their manifests and groups are declared together with those of the code.

use std::path::PathBuf;

use lineclear_model::ManifestFile;

use crate::builder::StartError;
use crate::store::Declaration;

/// A manifest file.
pub(crate) enum Source {
    /// A file, read when the node starts.
    File(PathBuf),
    /// Text that is compiled into the program.
    Text(String),
}

/// Adds the contents of the files to a declaration; returns the groups that it already had.
pub(crate) fn read(files: Vec<Source>, declaration: &mut Declaration) -> Result<Vec<String>, StartError> {
    let mut twice = Vec::new();
    for source in files {
        let (file, text) = match source {
            Source::File(path) => {
                let file = path.display().to_string();
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| StartError::Manifests { file: file.clone(), why: error.to_string() })?;
                (file, text)
            }
            Source::Text(text) => ("the given text".to_owned(), text),
        };
        let parsed = ManifestFile::from_toml(&text)
            .map_err(|bad| StartError::Manifests { file, why: bad.to_string() })?;
        for (name, spec) in parsed.group {
            if declaration.groups.insert(name.clone(), spec).is_some() {
                twice.push(name);
            }
        }
        declaration.manifests.extend(parsed.manifest);
    }
    Ok(twice)
}
