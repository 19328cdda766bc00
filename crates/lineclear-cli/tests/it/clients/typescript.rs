//! The tests of `clients/typescript`. They need Node, and npm's registry when the compiler is not installed yet.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles the client and its tests, once for all tests; returns the folder. Nothing is written to the checkout.
fn built() -> PathBuf {
    let output = Command::new(root().join("scripts/build-typescript"))
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript"))
        .output()
        .expect("bash starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
}

/// Runs one of its files to the end; prints what it says if a test fails.
fn passes(suite: &str) {
    let output = Command::new("node")
        .args(["--test", "--test-reporter=tap", &format!("build/{suite}.test.js")])
        .current_dir(built())
        .env("LINECLEAR_BIN", env!("CARGO_BIN_EXE_lineclear"))
        .output()
        .expect("node starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let count = |what: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("# {what} ")));
        line.and_then(|count| count.parse::<u32>().ok()).unwrap_or_else(|| panic!("no `{what}`: {said}"))
    };
    let not_run = ["fail", "cancelled", "skipped", "todo"].map(count);
    assert!(count("pass") > 0 && not_run == [0; 4], "{said}");
}

#[test]
fn a_typescript_client_enqueues_waits_and_manages_manifests() {
    passes("client");
}

#[test]
fn a_typescript_worker_runs_handlers() {
    passes("worker");
}

#[test]
fn a_typescript_worker_that_is_stopped_or_killed_costs_no_job() {
    passes("leases");
}

#[test]
fn answers_lost_by_typescript_lose_nothing_and_double_nothing() {
    passes("lost-responses");
}

#[test]
fn a_typescript_worker_stops_in_order() {
    passes("shutdown");
}

#[test]
fn an_idle_typescript_worker_learns_that_it_is_drained() {
    passes("drain");
}

#[test]
fn a_push_endpoint_in_typescript_verifies_and_answers() {
    passes("push");
}

#[test]
fn the_entry_for_browsers_needs_no_node() {
    passes("entries");
}

#[test]
fn the_examples_of_the_typescript_readme_work() {
    passes("readme");
}

#[test]
fn no_file_of_tests_is_left_out() {
    let files = std::fs::read_dir(root().join("clients/typescript/test")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let suites: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".test.ts")?.to_owned())).collect();
    assert!(suites.len() > 5, "{suites:?}");
    for suite in suites {
        let call = format!("passes(\"{suite}\");");
        assert!(include_str!("typescript.rs").contains(&call), "no test runs {suite}");
    }
}

/// The repository names no registry: each machine installs from the one that it is configured for, and the hashes decide.
#[test]
fn the_lock_file_names_versions_and_hashes_and_no_registry() {
    let text = std::fs::read_to_string(root().join("clients/typescript/package-lock.json")).unwrap();
    let lock: serde_json::Value = serde_json::from_str(&text).unwrap();
    let packages = lock["packages"].as_object().unwrap();
    let installed: Vec<_> = packages.iter().filter(|(path, _)| !path.is_empty()).collect();
    assert!(!installed.is_empty());
    for (path, package) in installed {
        assert!(package["resolved"].is_null(), "{path}: {}", package["resolved"]);
        assert!(package["integrity"].as_str().is_some_and(|hash| hash.starts_with("sha512-")), "{path}");
    }
    assert!(!text.contains("://"), "{text}");
}
