//! A program that uses sqlx can use us beside it: both link SQLite, and only one version of it may be linked.

use std::path::Path;
use std::process::{Command, Output};

const MANIFEST: &str = r#"
[package]
name = "user"
version = "0.0.0"
edition = "2024"

[lib]
path = "lib.rs"

[dependencies]
lineclear = { path = "LINECLEAR" }
sqlx = { version = "0.9", default-features = false, features = ["postgres", "sqlite", "runtime-tokio"] }

[workspace]
"#;

fn resolve(folder: &Path, more: &[&str]) -> Output {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.arg("generate-lockfile").args(more).current_dir(folder);
    command.output().unwrap()
}

#[test]
fn a_program_with_sqlx_and_its_sqlite_resolves_beside_us() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("Cargo.toml"),
        MANIFEST.replace("LINECLEAR", env!("CARGO_MANIFEST_DIR")),
    )
    .unwrap();
    std::fs::write(folder.path().join("lib.rs"), "").unwrap();
    // Without the network where that is enough.
    let mut resolved = resolve(folder.path(), &["--offline"]);
    if !resolved.status.success() {
        resolved = resolve(folder.path(), &[]);
    }
    assert!(resolved.status.success(), "{}", String::from_utf8_lossy(&resolved.stderr));
    let lock = std::fs::read_to_string(folder.path().join("Cargo.lock")).unwrap();
    let count = |name: &str| lock.matches(&format!("name = \"{name}\"\n")).count();
    assert_eq!((count("lineclear"), count("sqlx-sqlite"), count("rusqlite")), (1, 1, 1));
    assert_eq!(count("libsqlite3-sys"), 1, "one SQLite for both");
}
