//! Facts about the files of the repository that no compiler checks. Each checker is tried on bad input beside
//! it.

mod markdown;
mod migrations;
mod rust;
mod sql;

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

/// The files of the repository by their path from its root, including uncommitted new ones. A binary file is empty.
type Files = BTreeMap<String, String>;

fn files() -> Files {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(&root)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let paths = String::from_utf8(output.stdout).expect("paths are UTF-8");
    // A file that is deleted but not yet committed as such cannot be read.
    let text =
        |path: &str| fs::read(root.join(path)).map(|bytes| String::from_utf8(bytes).unwrap_or_default());
    let read = |path: &str| Some((path.to_owned(), text(path).ok()?));
    let files: Files = paths.split('\0').filter_map(read).collect();
    assert!(files.contains_key("Cargo.toml"), "the repository's files are found");
    files
}

#[track_caller]
fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn statements_and_migrations_have_twins_and_headers() {
    let files = files();
    expect_none([sql::without_twin(&files), sql::without_header(&files)].concat());
}

#[test]
fn a_cluster_of_the_release_before_survives_every_migration() {
    expect_none(migrations::against_the_rules(&files()));
}

#[test]
fn documents_have_one_title_and_their_links_lead_somewhere() {
    let files = files();
    expect_none([markdown::without_one_title(&files), markdown::dead_links(&files)].concat());
}

#[test]
fn nothing_unfinished_is_left_and_every_file_says_what_it_is() {
    let files = files();
    expect_none([rust::unfinished(&files), rust::without_introduction(&files)].concat());
}

/// Never fails: it only prints the long files.
#[test]
fn long_files_are_named() {
    let mut sizes: Vec<(usize, String)> = files()
        .into_iter()
        .filter(|(path, _)| path.ends_with(".rs") || path.ends_with(".sql"))
        .map(|(path, text)| (text.lines().count(), path))
        .filter(|(lines, _)| *lines > 300)
        .collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    println!("files of more than 300 lines: {}", sizes.len());
    sizes.iter().for_each(|(lines, path)| println!("{lines:6} {path}"));
}

/// Files for trying the checkers.
#[cfg(test)]
fn made(files: &[(&str, &str)]) -> Files {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}
