//! Rust: nothing unfinished, and an introduction at the head of each file.

use crate::Files;

/// Put together from parts, so that this file does not complain of itself.
const UNFINISHED: [&str; 5] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("db", "g!"),
    concat!("FIX", "ME"),
    concat!("#[ig", "nore"),
];

/// Marks of unfinished work, and tests that do not run.
pub(crate) fn unfinished(files: &Files) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        for (number, line) in text.lines().enumerate() {
            for mark in UNFINISHED.iter().filter(|mark| line.contains(**mark)) {
                complaints.push(format!("{path}:{}: {mark}", number + 1));
            }
        }
    }
    complaints
}

/// Files of libraries that do not begin with a `//!` comment.
pub(crate) fn without_introduction(files: &Files) -> Vec<String> {
    let is_library = |path: &str| {
        let Some((folder, _)) = path.split_once("/src/") else { return false };
        files.contains_key(&format!("{folder}/src/lib.rs"))
    };
    let sources = files.iter().filter(|(path, _)| path.ends_with(".rs") && is_library(path));
    let silent = sources.filter(|(_, text)| !text.starts_with("//!"));
    silent.map(|(path, _)| format!("{path}: the first line must be a //! comment")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn every_mark_of_unfinished_work_is_found() {
        for mark in UNFINISHED {
            let text = format!("//! A file.\nfn f() {{ {mark} }}\n");
            assert_eq!(unfinished(&made(&[("a/src/b.rs", &text)])), [format!("a/src/b.rs:2: {mark}")]);
            assert!(unfinished(&made(&[("a/notes.txt", &text)])).is_empty());
        }
    }

    #[test]
    fn a_library_file_without_introduction_is_found() {
        let files = made(&[
            ("crates/a/src/lib.rs", "//! A library.\n"),
            ("crates/a/src/part.rs", "use std::fs;\n"),
            ("crates/a/tests/part.rs", "use std::fs;\n"),
            ("crates/b/src/main.rs", "fn main() {}\n"),
        ]);
        assert_eq!(without_introduction(&files).len(), 1);
        assert!(without_introduction(&files)[0].starts_with("crates/a/src/part.rs"));
    }
}
