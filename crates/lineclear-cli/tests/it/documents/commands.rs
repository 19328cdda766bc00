//! Runs every command in the README and the documents as it is written.

use std::ffi::OsStr;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Command;

use lineclear_testkit::fresh_postgres;

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Markdown files of the project, those in `docs` included.
fn pages() -> Vec<PathBuf> {
    let mut folders = vec![root(), root().join("docs"), root().join("docs/adr")];
    let files = folders.drain(..).flat_map(|folder| std::fs::read_dir(folder).expect("a folder"));
    let mut pages: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.sort();
    pages
}

/// Lines of `sh` blocks, without comments behind them.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            command if inside && !command.is_empty() && !command.starts_with('#') => {
                found.push(command.split("   #").next().unwrap_or(command).trim().to_owned());
            }
            _ => {}
        }
    }
    found
}

/// A server that a page tells its reader to start: it runs while the test runs the rest of the page.
pub(super) struct Served(std::process::Child, String);

impl Served {
    pub(super) fn start(arguments: &str, environment: [(&str, &OsStr); 2]) -> Served {
        let line = format!("exec {} {arguments} --port 0", env!("CARGO_BIN_EXE_lineclear"));
        let mut server = Command::new("sh")
            .args(["-ec", &line])
            .current_dir(root())
            .envs(environment)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let said = std::io::BufReader::new(server.stderr.take().unwrap());
        let line = said
            .lines()
            .map(Result::unwrap)
            .find(|line| line.starts_with("API  http://"))
            .expect("it starts");
        let address =
            line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap().to_owned();
        Served(server, address)
    }
}

impl Served {
    /// A command that names the default address, for this server.
    pub(super) fn address_in(&self, line: &str) -> String {
        line.replace("localhost:7171", &self.1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command to run for a line of a document; `None` if no test can run it.
pub(super) fn as_run(command: &str) -> Option<String> {
    if command.starts_with("curl ") {
        // Without -f, curl ignores an error status.
        return Some(command.replacen("curl ", "curl -fsS ", 1));
    }
    let ours = ["cargo run -q -- ", "cargo run -- ", "lineclear "];
    if let Some(arguments) = ours.iter().find_map(|start| command.strip_prefix(start)) {
        // It would run until it is stopped, on a port that may be taken.
        let arguments = arguments.replace("demo", "demo --for 3s --port 0");
        return Some(format!("{} {arguments}", env!("CARGO_BIN_EXE_lineclear")));
    }
    // These would run the tests themselves: make prints what it would do, and fails if the target does not exist.
    if let Some(target) = command.strip_prefix("make ") {
        return Some(format!("make --dry-run {target}"));
    }
    let package = command.strip_prefix("cargo test -p ")?;
    Some(format!("test -d crates/{package}"))
}

#[tokio::test]
async fn every_command_in_the_documents_runs() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    let mut ran = 0;
    // `guide.rs`, `migrate.rs` and `workers.rs` run the guides that begin in an empty folder, or with an empty database.
    let begins_empty = |page: &PathBuf| {
        ["docs/quickstart.md", "docs/migrate.md", "docs/workers.md"].iter().any(|empty| page.ends_with(empty))
    };
    for page in pages().into_iter().filter(|page| !begins_empty(page)) {
        let mut served: Option<Served> = None;
        let place = dir.path().join("docs.db");
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            if command.starts_with("lineclear serve") {
                let environment =
                    [("LINECLEAR_DB", place.as_os_str()), ("DATABASE_URL", OsStr::new(database.url()))];
                served = Some(Served::start(&command["lineclear ".len()..], environment));
                continue;
            }
            let line =
                as_run(&command).unwrap_or_else(|| panic!("{}: no test runs `{command}`", page.display()));
            let line = served.as_ref().map_or(line.clone(), |served| served.address_in(&line));
            let output = Command::new("sh")
                .args(["-ec", &line])
                .current_dir(root())
                .env("LINECLEAR_DB", &place)
                .env("DATABASE_URL", database.url())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: `{command}`: {said}", page.display());
            ran += 1;
        }
    }
    assert!(ran >= 10, "only {ran} commands were found");
}

#[test]
fn commands_are_found_in_blocks_only() {
    let page = "text\n```sh\nmake up   # starts\n\n# a comment\nlineclear db status\n```\nmake no\n```toml\nmake = 1\n```\n";
    assert_eq!(commands(page), ["make up", "lineclear db status"]);
    assert_eq!(as_run("rm -rf x"), None);
}

/// Whole `toml` blocks that declare manifests or groups.
fn manifest_files(text: &str) -> Vec<String> {
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .filter(|block| block.contains("[[manifest]]") || block.contains("[group."))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_manifest_file_in_the_documents_can_be_read() {
    let mut read = 0;
    for page in pages() {
        for file in manifest_files(&std::fs::read_to_string(&page).unwrap()) {
            let parsed = lineclear_model::ManifestFile::from_toml(&file);
            parsed.unwrap_or_else(|bad| panic!("{}: {bad}\n{file}", page.display()));
            read += 1;
        }
    }
    assert!(read >= 1, "only {read} files were found");
}

/// Test functions of all crates, by name.
fn tests() -> String {
    let output = Command::new("git")
        .args(["grep", "-h", "-E", "async fn |^fn |^    fn ", "--", "*.rs"])
        .current_dir(root())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_test_that_the_guarantees_name_exists() {
    assert!(tests_named_by("docs/guarantees.md") >= 20);
}

#[test]
fn every_test_that_the_rules_of_security_name_exists() {
    assert!(tests_named_by("docs/security.md") >= 40);
}

/// How many tests the last column of a page's tables names. Each must exist.
fn tests_named_by(page: &str) -> usize {
    let page = std::fs::read_to_string(root().join(page)).unwrap();
    let tests = tests();
    let mut named = 0;
    for row in page.lines().filter(|line| {
        let is_head =
            ["| scenario", "| promise", "| rule", "| who"].iter().any(|head| line.starts_with(head));
        line.starts_with("| ") && !is_head
    }) {
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for test in shown_by.split('`').skip(1).step_by(2) {
            assert!(tests.contains(&format!("fn {test}(")), "there is no test {test}");
            named += 1;
        }
    }
    named
}

#[test]
fn every_statement_that_the_journey_names_exists() {
    let page = std::fs::read_to_string(root().join("docs/journey.md")).unwrap();
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with("| **")) {
        for statement in row.split(" | ").nth(3).unwrap().split('`').skip(1).step_by(2) {
            let file = format!("{statement}.postgres.sql");
            let in_folder = |folder: &std::fs::DirEntry| folder.path().join(&file).is_file();
            let mut folders =
                std::fs::read_dir(root().join("crates/lineclear/sql")).unwrap().map(Result::unwrap);
            assert!(folders.any(|folder| in_folder(&folder)), "there is no statement {statement}");
            named += 1;
        }
    }
    assert!(named >= 30, "only {named} statements are named");
}
