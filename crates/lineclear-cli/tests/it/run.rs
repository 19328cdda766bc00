//! Runs the binary.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// The output and the exit code of a run.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The binary, without environment variables that could change its output.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineclear"));
    command.args(args).env_remove("TZ").stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn lineclear(args: &[&str]) -> Run {
    ran(&mut command(args))
}

/// The binary in a folder, with no settings of the user who runs the tests.
pub(crate) fn command_at(dir: &TempDir, args: &[&str]) -> Command {
    let mut command = command(args);
    command.current_dir(dir.path()).env("XDG_CONFIG_HOME", dir.path().join("none"));
    command.env_remove("LINECLEAR_TOKEN").env_remove("LINECLEAR_SERVER");
    command
}

/// Runs it in a folder, to its end.
pub(crate) fn at(dir: &TempDir, args: &[&str]) -> Run {
    ran(&mut command_at(dir, args))
}

/// Runs any command to its end.
pub(crate) fn ran(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
    Run { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// Runs the binary on a terminal of 80 columns, without colour unless `environment` says otherwise; with `NO_COLOR` empty there is colour.
pub(crate) fn on_a_terminal(dir: &TempDir, args: &[&str], environment: &[(&str, &str)]) -> Run {
    let words: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
    let line = format!("{} {}", env!("CARGO_BIN_EXE_lineclear"), words.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(dir.path()).env_clear().stdin(Stdio::null());
    let usual = [
        ("LC_ALL", "C.UTF-8"),
        ("PATH", "/usr/bin:/bin"),
        ("COLUMNS", "80"),
        ("NO_COLOR", "1"),
        ("TERM", "xterm"),
    ];
    let run = ran(script.envs(usual).envs(environment.iter().copied()));
    Run { out: run.out.replace("\r\n", "\n"), ..run }
}

/// A file of this test run with this text.
pub(crate) fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the directory for temporary files can be written to");
    path.display().to_string()
}
