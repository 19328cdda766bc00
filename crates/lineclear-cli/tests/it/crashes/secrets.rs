//! Secrets in the log, and the audit of a server that dies in the middle of a change.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lineclear_testkit::{Program, fresh_postgres};

use crate::run::lineclear;

const LONG: Duration = Duration::from_secs(60);

fn send(address: &str, request: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    // A server that is frozen does not answer.
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn server(db: &str, more: &[&str]) -> Program {
    let folder = std::env::temp_dir();
    Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--port", "0", "--db", db])
        .args(more)
        .current_dir(&folder)
        .env("XDG_CONFIG_HOME", folder.join("none"))
}

fn address(line: &str) -> String {
    line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn no_secret_is_in_the_log_of_a_server() {
    let database = fresh_postgres().await;
    let db = database.url().replacen("postgres@", "postgres:canary-dsn@", 1);
    assert!(db.contains("canary-dsn"), "{db}");
    let mut child = server(&db, &["--auth", "token", "--log", "trace"]).start().unwrap();
    let address = address(&child.wait_for_line("API  http://", LONG).await.unwrap());
    let token =
        lineclear(&["token", "create", "first", "--scope", "admin", "--db", &db]).out.trim().to_owned();
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let job = r#"{"kind": "mail.send", "input": {"to": "canary-input"}}"#;
    let answers = [
        send(&address, "POST /api/v1/jobs", &bearer, job),
        send(&address, "POST /api/v1/jobs", &bearer, r#"{"kind": "MAIL", "input": "canary-input"}"#),
        send(&address, "POST /api/v1/jobs", &bearer, r#"{"kind": "x", "input": "canary-input""#),
        send(
            &address,
            "PUT /api/v1/manifests/m",
            &bearer,
            r#"{"kind": "x", "schedule": {"every": "1h"}, "input": "canary-input"}"#,
        ),
        send(&address, "GET /api/v1/jobs", "Authorization: Bearer lc_0000000000_canary-bearer\r\n", ""),
        send(&address, "GET /api/v1/jobs", "Cookie: __Host-lineclear=canary-cookie\r\n", ""),
        send(&address, "POST /api/v1/session", "", &format!(r#"{{"token": "{token}"}}"#)),
        send(&address, "POST /api/v1/session", "", r#"{"token": "canary-login"}"#),
        send(&address, "GET /api/v1/jobs?token=canary-url", &bearer, ""),
    ];
    let statuses: Vec<&str> =
        answers.iter().map(|answer| answer.split(' ').nth(1).unwrap_or("none")).collect();
    assert_eq!(statuses, ["201", "422", "400", "201", "401", "401", "201", "401", "400"], "{answers:?}");
    let cookie = answers[6].split("__Host-lineclear=").nth(1).unwrap().split(';').next().unwrap().to_owned();
    // The messages of the database driver are logged, too.
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    let said = [child.stderr(), child.stdout()].concat().join("\n");
    assert!(said.lines().count() > 20, "the trace log has many lines: {said}");
    for secret in ["canary", token.rsplit('_').next().unwrap(), &cookie] {
        let found: Vec<&str> = said.lines().filter(|line| line.contains(secret)).collect();
        assert!(found.is_empty(), "{secret}: {found:?}");
    }
}

/// Freezes a server at a crash point in the middle of a change, kills it, and returns the audit rows and whether the group exists.
async fn killed_at(point: &str) -> (Vec<(String, Option<i64>)>, bool) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.db");
    let mut child = server(file.to_str().unwrap(), &[]).stop_at(point).start().unwrap();
    let address = address(&child.wait_for_line("API  http://", LONG).await.unwrap());
    let asking = std::thread::spawn(move || send(&address, "PUT /api/v1/groups/etl", "", r#"{"limit": 3}"#));
    child.wait_until_stopped(LONG).await.unwrap();
    child.kill().unwrap();
    assert_eq!(asking.join().unwrap(), "", "the client got no response");
    let database = rusqlite::Connection::open(&file).unwrap();
    let mut rows = database.prepare("select action, status from audit").unwrap();
    let rows =
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    let groups: i64 = database
        .query_row("select count(*) from manifest_group where name = 'etl'", [], |row| row.get(0))
        .unwrap();
    (rows, groups == 1)
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_of_a_change_leaves_its_row() {
    let begun = vec![("put_group".to_owned(), None)];
    assert_eq!(killed_at("audit.begun").await, (begun.clone(), false), "before the change");
    assert_eq!(killed_at("audit.acted").await, (begun, true), "after it");
}
