//! The example in the README is the one that is compiled, and it runs.

use std::path::Path;
use std::time::Duration;

use lineclear_testkit::Program;

const LONG: Duration = Duration::from_secs(60);

/// Cargo builds examples beside tests: `target/debug/examples`, one folder up from `target/debug/deps`.
pub(crate) fn example(name: &str) -> std::path::PathBuf {
    let test = std::env::current_exe().expect("our own path");
    test.parent().and_then(Path::parent).expect("a target folder").join("examples").join(name)
}

#[tokio::test]
async fn hello_runs_and_stops_when_it_is_told_to() {
    let mut child = Program::at(example("hello")).start().unwrap();
    child.wait_for_line("hello, world", LONG).await.unwrap();
    child.wait_for_lines("hello, schedule", 2, LONG).await.unwrap();
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
}

#[test]
fn the_readme_shows_the_example_as_it_is() {
    let code = include_str!("../../../examples/hello.rs");
    let readme = include_str!("../../../../../README.md");
    assert!(
        readme.contains(&format!("```rust\n{code}```")),
        "README.md has another example than examples/hello.rs"
    );
    assert!(code.lines().count() <= 30, "it fits on one screen");
}
