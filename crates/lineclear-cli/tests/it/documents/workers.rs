//! Runs the guide to remote workers on an empty database, and compares the answers with those that it shows.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::Value;

use super::commands::{Served, as_run, root};

/// Blocks of the page that are run or shown, in their order.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("\n```").skip(1).step_by(2);
    let blocks = parts.filter_map(|block| block.split_once('\n'));
    blocks.filter(|(language, _)| ["sh", "json"].contains(language)).collect()
}

#[test]
fn the_guide_to_remote_workers_shows_what_a_server_answers() {
    let page = std::fs::read_to_string(root().join("docs/workers.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("workers.db");
    let environment = [("LINECLEAR_DB", place.as_os_str()), ("DATABASE_URL", OsStr::new(""))];
    let mut served: Option<Served> = None;
    let (mut last, mut shown) = (String::new(), 0);
    for (language, text) in blocks(&page) {
        if language == "json" {
            let expected: Value = serde_json::from_str(text).unwrap_or_else(|bad| panic!("{bad}: {text}"));
            let mut answer: Value = serde_json::from_str(&last).unwrap_or_else(|bad| panic!("{bad}: {last}"));
            // Numbers of nodes have gaps.
            if let Some(node) = answer.pointer_mut("/worker/node") {
                *node = expected["worker"]["node"].clone();
            }
            assert_eq!(answer, expected, "the answer is on the left");
            shown += 1;
            continue;
        }
        for command in text.lines() {
            if let Some(arguments) = command.strip_prefix("lineclear serve") {
                served = Some(Served::start(&format!("serve{arguments}"), environment));
                continue;
            }
            let line = as_run(command).unwrap_or_else(|| panic!("no test runs `{command}`"));
            let line = served.as_ref().map_or(line.clone(), |served| served.address_in(&line));
            let output = Command::new("sh")
                .args(["-ec", &line])
                .current_dir(root())
                .envs(environment)
                .output()
                .unwrap();
            assert!(output.status.success(), "`{command}`: {}", String::from_utf8_lossy(&output.stderr));
            last = String::from_utf8(output.stdout).unwrap();
        }
    }
    assert!(shown >= 5, "only {shown} answers were compared");
}
