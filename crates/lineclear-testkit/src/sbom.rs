//! `lineclear-testkit sbom`: the crates that are linked into the binary, as a CycloneDX document.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    env, fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

const BINARY: &str = "lineclear-cli";
/// A tab before each field: depth, package, licence, repository.
const FORMAT: &str = "\t{p}\t{l}\t{r}";

/// Writes the document.
pub(crate) fn write(path: &Path) -> Result<ExitCode> {
    let document = document(&tree()?, &checksums(&fs::read_to_string(lock_file())?))?;
    fs::write(path, format!("{document:#}\n")).with_context(|| format!("writing {}", path.display()))?;
    println!("{} components in {}", document["components"].as_array().map_or(0, Vec::len), path.display());
    Ok(ExitCode::SUCCESS)
}

fn lock_file() -> String {
    format!("{}/../../Cargo.lock", env!("CARGO_MANIFEST_DIR"))
}

/// What cargo links into the binary for this system, with its default features.
fn tree() -> Result<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "-p", BINARY, "-e", "normal,no-proc-macro"])
        .args(["--prefix", "depth", "--format", FORMAT])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("running cargo")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// SHA-256 by name and version, from `Cargo.lock`.
fn checksums(lock: &str) -> HashMap<(String, String), String> {
    let field = |package: &str, name: &str| {
        let start = format!("{name} = \"");
        let line = package.lines().find_map(|line| line.strip_prefix(&start))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let key = (field(package, "name")?, field(package, "version")?);
            Some((key, field(package, "checksum")?))
        })
        .collect()
}

fn document(tree: &str, checksums: &HashMap<(String, String), String>) -> Result<Value> {
    let mut components: BTreeMap<String, Value> = BTreeMap::new();
    let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // The packages from the root to the current line.
    let mut above: Vec<String> = Vec::new();
    let lines = tree.lines().filter(|line| !line.trim().is_empty());
    for line in lines {
        let fields: Vec<&str> = line.trim_end_matches(" (*)").split('\t').collect();
        let [depth, package, license, repository] = fields[..] else { anyhow::bail!("cargo tree: {line:?}") };
        let mut words = package.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let version = version.trim_start_matches('v');
        let id = format!("pkg:cargo/{name}@{version}");
        above.truncate(depth.parse().with_context(|| format!("cargo tree: {line:?}"))?);
        if let Some(parent) = above.last() {
            dependencies.entry(parent.clone()).or_default().insert(id.clone());
        }
        dependencies.entry(id.clone()).or_default();
        above.push(id.clone());
        let checksum = checksums.get(&(name.to_owned(), version.to_owned()));
        components
            .entry(id.clone())
            .or_insert_with(|| component(&id, name, version, license, repository, checksum));
    }
    let root = dependencies.keys().find(|id| id.starts_with(&format!("pkg:cargo/{BINARY}@")));
    let mut root = root.and_then(|id| components.remove(id)).context("the binary is not in its own tree")?;
    root["type"] = json!("application");
    let edges = dependencies.into_iter().map(|(id, on)| json!({"ref": id, "dependsOn": on}));
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": root},
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": edges.collect::<Vec<_>>(),
    }))
}

fn component(
    id: &str,
    name: &str,
    version: &str,
    license: &str,
    repository: &str,
    checksum: Option<&String>,
) -> Value {
    let mut component =
        json!({"type": "library", "bom-ref": id, "name": name, "version": version, "purl": id});
    if !license.is_empty() {
        // The way in which licences were once written.
        let words: Vec<&str> = license.split('/').map(str::trim).collect();
        component["licenses"] = json!([{"expression": words.join(" OR ")}]);
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if repository.starts_with("https://") {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_what_is_linked_into_the_binary() {
        let lock = fs::read_to_string(lock_file()).unwrap();
        let document = document(&tree().unwrap(), &checksums(&lock)).unwrap();
        assert_eq!((&document["bomFormat"], &document["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
        assert_eq!(document["metadata"]["component"]["name"], BINARY);
        let components = document["components"].as_array().unwrap();
        let text = |component: &Value, name: &str| component[name].as_str().unwrap().to_owned();
        let names: BTreeSet<String> = components.iter().map(|component| text(component, "name")).collect();
        for linked in ["tokio", "rusqlite", "libsqlite3-sys", "rustls", "lineclear-http"] {
            assert!(names.contains(linked), "{linked}");
        }
        for not_linked in ["serde_derive", "lineclear-testkit", "proptest", "cc"] {
            assert!(!names.contains(not_linked), "{not_linked}");
        }
        for component in components {
            let is_ours = text(component, "name").starts_with("lineclear");
            assert!(
                is_ours || component["hashes"][0]["content"].as_str().is_some_and(|hash| hash.len() == 64),
                "{component}"
            );
            assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        }
        let mut ids: BTreeSet<String> =
            components.iter().map(|component| text(component, "bom-ref")).collect();
        assert_eq!(ids.len(), components.len(), "each is there once");
        ids.insert(text(&document["metadata"]["component"], "bom-ref"));
        let edges = document["dependencies"].as_array().unwrap();
        assert_eq!(edges.len(), ids.len());
        for edge in edges {
            let on = edge["dependsOn"].as_array().unwrap().iter().map(|id| id.as_str().unwrap());
            assert!(on.chain(edge["ref"].as_str()).all(|id| ids.contains(id)), "{edge}");
        }
    }

    #[test]
    fn children_belong_to_the_package_above_them() {
        let tree = "0\tlineclear-cli v1.0.0 (/x)\tMIT\t\n1\ta v1.0.0\tMIT/Apache-2.0\thttps://a\n2\tb v2.0.0\tMIT\t\n1\tb v2.0.0\tMIT\t (*)\n";
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n";
        let document = document(tree, &checksums(lock)).unwrap();
        let a = &document["components"][0];
        assert_eq!(
            (&a["licenses"][0]["expression"], &a["hashes"][0]["content"]),
            (&json!("MIT OR Apache-2.0"), &json!("00ff"))
        );
        assert_eq!(
            document["dependencies"][0],
            json!({"ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@2.0.0"]})
        );
        let root = json!({"ref": "pkg:cargo/lineclear-cli@1.0.0", "dependsOn": ["pkg:cargo/a@1.0.0", "pkg:cargo/b@2.0.0"]});
        assert_eq!(document["dependencies"][2], root);
        assert!(super::document("x", &HashMap::new()).is_err());
    }
}
