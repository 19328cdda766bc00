//! Unusual environments: the program says what is wrong, and exits with the matching code.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lineclear_testkit::Program;

use crate::run::command;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a server that is expected not to start.
fn refused(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(&[&["serve", "--port", "0"], arguments].concat());
    let output = command.current_dir(dir.path()).envs(environment.iter().copied()).output().unwrap();
    (output.status.code(), said(&output))
}

#[test]
fn an_invalid_database_url_is_refused_before_anything_starts() {
    for (db, part) in [
        ("mysql://db/app", "is not a store"),
        ("postgres://u:p%zz@127.0.0.1:1/a?nonsense=1", "unknown option `nonsense`"),
        ("postgres://127.0.0.1:1/a?sslmode=prefer", "verify-full"),
    ] {
        let (code, said) = refused(&["--db", db, "--wait-for-db", "0"], &[]);
        assert_eq!(code, Some(2), "{db}: {said}");
        assert!(said.contains(part), "{db}: {said}");
    }
}

#[test]
fn an_unreachable_database_has_its_own_exit_code_and_its_password_is_not_shown() {
    // Characters that a URL must have escaped.
    let db = "postgres://me:hunter2%40%3A%2F%25@127.0.0.1:9/app";
    let (code, said) = refused(&["--db", db, "--wait-for-db", "0"], &[]);
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("cannot be reached") && !said.contains("hunter2"), "{said}");
}

#[test]
fn a_folder_in_which_nothing_can_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    // Root may write everywhere, but not into a file as if it were a folder.
    let (code, said) = refused(&["--db", dir.path().join("file/jobs.db").to_str().unwrap()], &[]);
    assert!(code.is_some_and(|code| code != 0 && code != 101), "{code:?} {said}");
    assert!(said.contains("error:") && !said.contains("panicked"), "{said}");
}

#[test]
fn a_file_of_settings_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, [0xff, 0xfe, 0x00]).unwrap();
    let (code, said) = refused(&["--config", file.to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("mine.toml"), "{said}");
    std::fs::create_dir(dir.path().join("folder.toml")).unwrap();
    let (code, said) = refused(&["--config", dir.path().join("folder.toml").to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{said}");
    if !rustix::process::geteuid().is_root() {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(refused(&["--config", file.to_str().unwrap()], &[]).0, Some(2));
    }
}

#[test]
fn invalid_numbers_of_slots_are_refused() {
    for slots in ["0", "1000000000", "many"] {
        let (code, said) = refused(&["--slots", slots], &[]);
        assert_eq!(code, Some(2), "{slots:?}: {said}");
        assert!(said.contains("slots"), "{slots:?}: {said}");
    }
}

#[tokio::test]
async fn lineclear_works_without_a_home_in_a_plain_locale() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Program::at("/usr/bin/env")
        .args(["-i", "LC_ALL=C", env!("CARGO_BIN_EXE_lineclear"), "serve", "--port", "0"])
        .current_dir(dir.path())
        .start()
        .unwrap();
    server.wait_for_line("API  http://", Duration::from_secs(60)).await.unwrap();
    server.terminate().unwrap();
    assert!(server.wait_for_exit(Duration::from_secs(60)).await.unwrap().success());
}

#[test]
fn a_pipe_that_closes_early_causes_no_panic() {
    let line =
        format!("{} schedule next '* * * * *' -n 1000 --json | head -c 10", env!("CARGO_BIN_EXE_lineclear"));
    let output =
        Command::new("bash").args(["-o", "pipefail", "-c", &line]).stdin(Stdio::null()).output().unwrap();
    assert!(!said(&output).contains("panicked"), "{}", said(&output));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_new_database_file_is_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mode = |file: &str| std::fs::metadata(dir.path().join(file)).unwrap().permissions().mode() & 0o777;
    for (arguments, file) in [
        (&["db", "migrate", "--db", "a.db"][..], "a.db"),
        (&["lock", "run", "--db", "b.db", "x", "--", "true"], "b.db"),
    ] {
        let output = command(arguments).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(mode(file), 0o600, "{file}");
    }
    // An existing file keeps its mode.
    std::fs::set_permissions(dir.path().join("a.db"), std::fs::Permissions::from_mode(0o660)).unwrap();
    command(&["db", "migrate", "--db", "a.db"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(mode("a.db"), 0o660);
}

/// Whatever the shell allows for new files.
#[tokio::test]
async fn the_files_of_a_new_database_are_for_their_owner_alone_under_any_umask() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("umask 0; exec {} serve --port 0", env!("CARGO_BIN_EXE_lineclear"));
    let server = Program::at("/bin/sh").args(["-c", &line]).current_dir(dir.path()).start().unwrap();
    server.wait_for_line("API  http://", Duration::from_secs(60)).await.unwrap();
    for file in ["lineclear.db", "lineclear.db-wal", "lineclear.db-shm"] {
        let mode = std::fs::metadata(dir.path().join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
    assert!(!server.stderr().join("\n").contains("chmod"), "{:?}", server.stderr());
}

#[tokio::test]
async fn a_database_file_that_others_can_read_is_named_once_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    assert!(command(&["db", "migrate"]).current_dir(dir.path()).output().unwrap().status.success());
    let open = std::fs::Permissions::from_mode(0o644);
    for file in ["lineclear.db", "lineclear.db.bak", "lineclear.db2", "other.db"] {
        std::fs::OpenOptions::new().create(true).append(true).open(dir.path().join(file)).unwrap();
        std::fs::set_permissions(dir.path().join(file), open.clone()).unwrap();
    }
    for words in [&["serve", "--port", "0"][..], &["work"]] {
        let node = Program::at(env!("CARGO_BIN_EXE_lineclear")).args(words).current_dir(dir.path());
        let mut node = node.start().unwrap();
        let line = node.wait_for_line("other users of this machine can read", Duration::from_secs(60)).await;
        let line = line.unwrap();
        assert!(line.contains("WARN") && line.contains("chmod 600 lineclear.db "), "{line}");
        assert!(line.contains(" lineclear.db.bak"), "{line}");
        assert!(!line.contains("db2") && !line.contains("other.db"), "{line}");
        node.terminate().unwrap();
        assert!(node.wait_for_exit(Duration::from_secs(60)).await.unwrap().success());
        let count = node.stderr().iter().filter(|line| line.contains("chmod")).count();
        assert_eq!(count, 1, "{:?}", node.stderr());
    }
}
