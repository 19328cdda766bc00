//! Runs the binary.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// What a run printed and ended with.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The binary, with nothing from outside that could change its answer.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineclear"));
    command.args(args).env_remove("TZ").stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn lineclear(args: &[&str]) -> Run {
    let Output { status, stdout, stderr } = command(args).output().expect("the binary starts");
    Run {
        code: status.code(),
        out: String::from_utf8(stdout).expect("what is printed is text"),
        err: String::from_utf8(stderr).expect("what is printed is text"),
    }
}

/// A file of this test run with this text.
pub(crate) fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the directory for temporary files can be written to");
    path.display().to_string()
}
