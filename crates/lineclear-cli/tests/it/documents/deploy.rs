//! The files for production: what they name exists, and the unit gives the service only the rights that it needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::command;

fn read(file: &str) -> String {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(file)).unwrap()
}

/// The unit, with the binary of this build in it.
fn unit(dir: &Path) -> PathBuf {
    let text = read("deploy/lineclear.service");
    let place = "/usr/local/bin/lineclear";
    assert!(text.contains(place));
    let path = dir.join("lineclear.service");
    std::fs::write(&path, text.replace(place, env!("CARGO_BIN_EXE_lineclear"))).unwrap();
    path
}

#[test]
fn systemd_understands_every_line_of_the_unit() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("systemd-analyze").arg("verify").arg(unit(dir.path())).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("lineclear.service"), "{said}");
}

#[test]
fn the_unit_is_sandboxed() {
    let dir = tempfile::tempdir().unwrap();
    // 2.0 of 10; a plain service has 9.6.
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=20"])
        .arg(unit(dir.path()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_files_name_commands_and_settings_that_exist() {
    for of in ["serve", "health"] {
        assert!(command(&[of, "--help"]).output().unwrap().status.success());
    }
    let known = command(&["config", "show", "--json"]).output().unwrap();
    let known = String::from_utf8(known.stdout).unwrap();
    let mut seen = 0;
    for file in ["Containerfile", "deploy/lineclear.service", "docs/deploy.md"] {
        let text = read(file);
        for name in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            if let Some(setting) = name.strip_prefix("LINECLEAR_").filter(|setting| !setting.is_empty()) {
                let setting = setting.to_lowercase();
                assert!(known.contains(&format!("\"{setting}\"")), "{file}: {name} is no setting");
                seen += 1;
            }
        }
    }
    assert!(seen > 3, "only {seen}");
}

#[test]
fn the_container_is_built_with_the_required_version_of_rust() {
    let toml = read("Cargo.toml");
    let version = toml.split("rust-version = \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(read("Containerfile").contains(&format!("rust:{version}-slim")), "{version}");
}
