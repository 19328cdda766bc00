//! The tests of `clients/python`. They need Python, and nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python")
}

/// Runs one of its files to the end; prints what it says if a test fails.
fn passes(suite: &str) {
    let output = Command::new("python3")
        .args(["-m", "unittest", "-v", &format!("tests.{suite}")])
        .current_dir(folder())
        .env("PYTHONPATH", "src")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LINECLEAR_BIN", env!("CARGO_BIN_EXE_lineclear"))
        .output()
        .expect("python3 starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    let has_run = said.lines().any(|line| line.starts_with("Ran ") && !line.starts_with("Ran 0 "));
    assert!(has_run && !said.contains("skipped"), "{said}");
}

#[test]
fn values_and_handlers_are_those_of_the_api() {
    passes("test_values");
}

#[test]
fn both_clients_enqueue_wait_and_manage_manifests() {
    passes("test_client");
}

#[test]
fn a_python_worker_runs_functions_and_coroutines() {
    passes("test_worker");
}

#[test]
fn a_python_worker_that_is_stopped_or_killed_costs_no_job() {
    passes("test_crashes");
}

#[test]
fn a_restarted_server_and_a_locked_database_cost_a_python_worker_no_job() {
    passes("test_outages");
}

#[test]
fn answers_lost_by_python_lose_nothing_and_double_nothing() {
    passes("test_lost_answers");
}

#[test]
fn a_locked_row_holds_up_no_other_result_of_a_python_worker() {
    passes("test_locked_rows");
}

#[test]
fn a_python_worker_stops_in_order() {
    passes("test_shutdown");
}

#[test]
fn a_push_endpoint_in_python_verifies_and_answers() {
    passes("test_push");
}

#[test]
fn the_examples_of_the_python_readme_work() {
    passes("test_readme");
}

#[test]
fn no_file_of_tests_is_left_out() {
    let files = std::fs::read_dir(folder().join("tests")).unwrap().map(|file| file.unwrap().file_name());
    let names = files.filter_map(|name| Some(name.to_str()?.strip_suffix(".py")?.to_owned()));
    let suites: Vec<String> = names.filter(|name| name.starts_with("test_")).collect();
    assert!(suites.len() > 5, "{suites:?}");
    for suite in suites {
        let call = format!("passes(\"{suite}\");");
        assert!(include_str!("python.rs").contains(&call), "no test runs {suite}");
    }
}
