//! Settings, port and clock of this machine; and the output of `doctor`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use super::{at, doctor, migrated};
use crate::commands::serve::serve;
use crate::run::on_a_terminal;

#[test]
fn invalid_settings_are_named() {
    let dir = migrated();
    std::fs::write(dir.path().join("lineclear.toml"), "slost = 3\n").unwrap();
    let report = doctor(&dir, &[]);
    report.expect_check("settings", "failure", "slost", "did you mean slots");
    assert_eq!(report.checks.len(), 1, "the database is unknown");
    let named = doctor(&dir, &["--db", "lineclear.db"]);
    named.expect_check("settings", "failure", "slost", "did you mean slots");
    assert_eq!(named.finding("indexes"), "ok", "the database is named: {:#?}", named.checks);
    std::fs::write(dir.path().join("lineclear.toml"), "lease = \"1s\"\nheartbeat = \"1d\"\nslots = 0\n")
        .unwrap();
    doctor(&dir, &[]).expect_check("settings", "failure", "slots", "lineclear config show");
}

#[test]
fn an_open_server_on_a_public_address_is_a_failure() {
    let dir = migrated();
    std::fs::write(dir.path().join("lineclear.toml"), "bind = \"0.0.0.0\"\nport = 9\n").unwrap();
    doctor(&dir, &[]).expect_check("listen", "failure", "can be reached from other machines", "auth = token");
    std::fs::write(dir.path().join("lineclear.toml"), "bind = \"0.0.0.0\"\nport = 0\nauth = \"token\"\n")
        .unwrap();
    assert_eq!(doctor(&dir, &[]).finding("listen"), "ok");
}

#[test]
fn a_port_that_another_program_uses_is_a_failure() {
    let dir = migrated();
    assert_eq!(doctor(&dir, &[]).finding("port"), "ok", "it is free");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in other.incoming() {
            let _ = stream.unwrap().write_all(b"SSH-2.0-hello\r\n");
        }
    });
    std::fs::write(dir.path().join("lineclear.toml"), format!("port = {port}\n")).unwrap();
    doctor(&dir, &[]).expect_check("port", "failure", "another program listens", "--port");
}

/// A server whose database is an hour ahead.
fn an_hour_ahead() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            let asks_for_the_time = String::from_utf8_lossy(&request[..length]).contains("/stats/now");
            let at = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
            let body = match asks_for_the_time {
                true => format!(r#"{{"at": "{at}"}}"#),
                false => r#"{"healthy": true, "checks": []}"#.to_owned(),
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn a_clock_that_is_off_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let report = doctor(&dir, &["--server", &an_hour_ahead()]);
    report.expect_check("clock_here", "failure", "the clock of this machine is 3", "NTP");
    assert!(report.text("clock_here", "message").contains("behind the database's"), "{:#?}", report.checks);
}

#[tokio::test]
async fn doctor_over_http_requires_the_scope_admin() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &["--auth", "token"]).await;
    let server = format!("http://{address}");
    let token = |name: &str| {
        let made = at(&dir, &["token", "create", name, "--scope", name, "--json"]);
        made.out.split('"').find(|word| word.len() > 40).unwrap_or_else(|| panic!("{}", made.out)).to_owned()
    };
    let operator = at(&dir, &["doctor", "--server", &server, "--token", &token("operate")]);
    assert_eq!(operator.code, Some(4), "{}{}", operator.out, operator.err);
    let report = doctor(&dir, &["--server", &server, "--token", &token("admin")]);
    assert_eq!((report.code, report.trouble()), (Some(0), vec![]), "{:#?}", report.checks);
    assert_eq!(report.finding("clock_here"), "ok");
    assert_eq!(report.finding("port"), "none", "the port is not checked for a remote server");
    let unreachable = at(&dir, &["doctor", "--server", "http://127.0.0.1:9"]);
    assert_eq!(unreachable.code, Some(6), "{}", unreachable.err);
}

#[test]
fn a_terminal_gets_groups_signs_and_remedies_and_a_pipe_gets_tabs() {
    let dir = migrated();
    super::sql(&dir, "drop index work_queue_later");
    let nice = on_a_terminal(&dir, &["doctor"], &[]).out;
    assert!(
        nice.contains("configuration\n  ✓ settings ") && nice.contains("\nschema\n  ✓ migrations"),
        "{nice}"
    );
    assert!(nice.contains("  ✕ indexes ") && nice.contains("→ nodes get slow"), "{nice}");
    assert!(nice.contains("      CREATE INDEX work_queue_later"), "SQL is a line to be copied: {nice}");
    assert!(nice.ends_with("\nfailures: 1, warnings: 1\n"), "{nice}");
    let plain = on_a_terminal(&dir, &["doctor"], &[("LC_ALL", "C")]).out;
    assert!(plain.contains("  x indexes") && plain.is_ascii(), "{plain}");
    let piped = at(&dir, &["doctor"]);
    assert!(
        piped.out.starts_with("FINDING\tGROUP\tCHECK\tSAYS\tTODO\tSQL\nok\tconfiguration\tsettings\t"),
        "{}",
        piped.out
    );
    assert!(piped.out.lines().all(|line| line.split('\t').count() == 6), "{}", piped.out);
    let line = format!("{} doctor | head -c 5", env!("CARGO_BIN_EXE_lineclear"));
    let cut = Command::new("bash")
        .args(["-c", &line])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&cut.stderr), "", "a pipe that closes early causes no panic");
}

#[test]
fn before_the_first_start_doctor_only_warns() {
    let dir = tempfile::tempdir().unwrap();
    super::with_free_port(&dir);
    let report = doctor(&dir, &[]);
    report.expect_check("reachable", "warning", "file lineclear.db does not exist", "lineclear serve");
    assert!(!dir.path().join("lineclear.db").exists(), "looking makes no file");
    doctor(&dir, &["--db", "other.db"]).expect_check(
        "reachable",
        "failure",
        "file other.db does not exist",
        "check the name",
    );
}

#[test]
fn a_token_that_expires_soon_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, life: &str| {
        assert_eq!(at(&dir, &["token", "create", name, "--scope", "read", "--expires", life]).code, Some(0));
    };
    make("old", "90d");
    make("eternal", "never");
    assert_eq!(doctor(&dir, &[]).finding("tokens"), "ok");
    make("ci", "3d");
    make("gone", "1h");
    assert_eq!(at(&dir, &["token", "revoke", "gone"]).code, Some(0));
    doctor(&dir, &[]).expect_check(
        "tokens",
        "warning",
        "1 token expires within 14 days: ci (in ",
        "lineclear token create",
    );
}
