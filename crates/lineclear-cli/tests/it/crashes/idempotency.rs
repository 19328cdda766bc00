//! A server that is killed in the middle of a request with an `Idempotency-Key`: neither a lost job nor a second one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lineclear_testkit::{Child, Program, fresh_postgres};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

async fn serve(dir: &TempDir, db: &str, point: Option<&str>) -> (Child, String) {
    let program = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--port", "0", "--roles", "planner", "--db", db])
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"));
    let program = match point {
        Some(point) => program.stop_at(point),
        None => program,
    };
    let child = program.start().unwrap();
    let line = child.wait_for_line("API  http://", LONG).await.unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    (child, address)
}

/// Sends the request, whose response may never come.
fn send(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = r#"{"kind": "pay", "input": {"invoice": 7}}"#;
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nIdempotency-Key: invoice-7\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn jobs(address: &str) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET /api/v1/jobs HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    answer(stream).matches(r#""kind":"pay""#).count()
}

async fn killed_before_the_commit(db: &str, shares: bool) {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, at_first) = serve(&dir, db, Some("once.before_commit")).await;
    let (_second, at_second) = serve(&dir, db, None).await;
    let unanswered = send(&at_first);
    first.wait_until_stopped(LONG).await.unwrap();
    if shares {
        // A SQLite file has one writer: there, the second request would wait for the first.
        let busy = answer(send(&at_second));
        assert!(busy.starts_with("HTTP/1.1 409") && busy.contains("idempotency_in_flight"), "{busy}");
        assert_eq!(jobs(&at_second), 0, "the job is not visible");
    }
    first.kill().unwrap();
    drop(unanswered);
    let deadline = std::time::Instant::now() + LONG;
    let made = loop {
        let made = answer(send(&at_second));
        // Until PostgreSQL has noticed that the first one is gone.
        if !made.starts_with("HTTP/1.1 409") || std::time::Instant::now() > deadline {
            break made;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(made.starts_with("HTTP/1.1 201") && !made.contains("idempotent-replayed"), "{made}");
    assert_eq!(jobs(&at_second), 1, "the job exists once");
}

async fn killed_before_the_answer(db: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, at_first) = serve(&dir, db, Some("once.after_commit")).await;
    let unanswered = send(&at_first);
    first.wait_until_stopped(LONG).await.unwrap();
    first.kill().unwrap();
    drop(unanswered);
    let (_second, at_second) = serve(&dir, db, None).await;
    assert_eq!(jobs(&at_second), 1, "the job exists");
    let again = answer(send(&at_second));
    assert!(again.starts_with("HTTP/1.1 201") && again.contains("idempotent-replayed: true"), "{again}");
    assert_eq!(jobs(&at_second), 1, "no second job exists");
}

#[tokio::test]
async fn a_server_killed_before_the_commit_of_a_keyed_request_has_created_no_job_on_postgres() {
    killed_before_the_commit(fresh_postgres().await.url(), true).await;
}

#[tokio::test]
async fn a_server_killed_before_the_commit_of_a_keyed_request_has_created_no_job_on_sqlite() {
    killed_before_the_commit("lineclear.db", false).await;
}

#[tokio::test]
async fn a_server_killed_before_the_response_to_a_keyed_request_has_created_one_job_on_postgres() {
    killed_before_the_answer(fresh_postgres().await.url()).await;
}

#[tokio::test]
async fn a_server_killed_before_the_response_to_a_keyed_request_has_created_one_job_on_sqlite() {
    killed_before_the_answer("lineclear.db").await;
}
