//! Passwords of settings and URLs are in no message, and not on the command line of a running process.

use std::time::Duration;

use lineclear_testkit::Program;

use crate::run::{at, command_at, ran};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn an_error_in_a_file_of_settings_names_the_place_and_not_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lineclear.toml");
    for (text, place) in [
        ("slots = 3\ndb = postgres://me:hush@db/app\n", "line 2, column 6 (`db`)"),
        ("db = \"postgres://me:hush@db/app\n", "line 1, column"),
        ("http_secrets = \"a.example=whsec_hush\" hush\n", "line 1, column 39 (`http_secrets`)"),
        ("db = 'a'\ndb = 'postgres://me:hush@db/app'\n", "line 2, column 1 (`db`)"),
        ("[db\nhush = 'hush'\n", "line 1, column"),
        ("password hush\n", "line 1, column"),
        ("http_secrets = [\"a.example=whsec_hush\", hush]\n", "line 1, column"),
    ] {
        std::fs::write(&file, text).unwrap();
        for arguments in [&["config", "show"][..], &["doctor"], &["serve", "--port", "0"], &["job", "list"]] {
            let run = at(&dir, arguments);
            let said = run.out + &run.err;
            assert!(said.contains("lineclear.toml") && said.contains(place), "{place}: {said}");
            assert!(!said.contains("hush"), "{text}: {said}");
        }
    }
}

#[test]
fn the_password_of_a_server_is_in_no_error() {
    let dir = tempfile::tempdir().unwrap();
    for server in [
        "http://me:hush@127.0.0.1:9",
        "http://me:hush@127.0.0.1:9/base/",
        "http://me:hush@192.0.2.1:9",
        "ftp://me:hush@127.0.0.1:9",
        "me:hush@127.0.0.1:9",
        "http://me:hu sh:hush@127.0.0.1:9",
        "https://me:hush@[bad/",
    ] {
        for arguments in [&["job", "list"][..], &["status"], &["doctor"], &["api", "GET", "/jobs"]] {
            let run = at(&dir, &[arguments, &["--server", server]].concat());
            assert!(run.code.is_some_and(|code| code != 0 && code != 101), "{server}: {:?}", run.code);
            assert!(!(run.out.clone() + &run.err).contains("hush"), "{server}: {}{}", run.out, run.err);
        }
        let variable = ran(command_at(&dir, &["job", "list"]).env("LINECLEAR_SERVER", server));
        assert!(!variable.err.contains("hush"), "{server}: {}", variable.err);
    }
}

/// The command line of a process, as `ps` shows it.
fn command_line(pid: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap()).replace('\0', " ")
}

#[tokio::test]
async fn a_password_on_the_command_line_is_hidden_while_the_process_runs() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing listens on port 9, but the command line is understood: the error names that address.
    let url = "postgres://me:hush@127.0.0.1:9/app";
    let run = at(&dir, &["db", "status", "--db", url]);
    assert!(run.code == Some(6) && run.err.contains("127.0.0.1"), "{}", run.err);
    assert!(run.err.contains("LINECLEAR_DB") && !run.err.contains("hush"), "{}", run.err);

    // The server of the tests takes any password.
    let database = lineclear_testkit::fresh_postgres().await;
    let url = database.url().replacen('@', ":hush@", 1);
    assert!(url.contains(":hush@"), "{url}");
    let script = "tr '\\0' ' ' < /proc/$PPID/cmdline; env | grep -c HIDDEN_ARGS; true";
    let locked = at(&dir, &["lock", "run", "x", "--store", &url, "--", "sh", "-c", script]);
    assert_eq!(locked.code, Some(0), "{}", locked.err);
    assert!(locked.out.contains("lock run x --store") && locked.out.contains(":•••@"), "{}", locked.out);
    assert!(!locked.out.contains("hush") && locked.out.ends_with("0\n"), "{}", locked.out);

    let server = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--port", "0", "--db", &url])
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"))
        .start()
        .unwrap();
    server.wait_for_line("API  http://", LONG).await.unwrap();
    let line = command_line(server.id());
    assert!(line.contains("serve --port 0 --db postgres://") && line.contains(":•••@"), "{line}");
    assert!(!line.contains("hush"), "{line}");
    let name = std::fs::read_to_string(format!("/proc/{}/comm", server.id())).unwrap();
    assert_eq!(name, "lineclear\n", "tools find it by its name");
    let said = server.stderr().join("\n");
    assert!(said.contains("LINECLEAR_DB") && !said.contains("hush"), "{said}");
}
