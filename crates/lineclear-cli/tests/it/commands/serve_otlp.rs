//! `lineclear serve --otlp`: spans reach a collector, and a job continues the trace of the request that enqueued it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lineclear_testkit::Program;

use crate::run::command;

const LONG: Duration = Duration::from_secs(60);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
/// Due later, so that it waits during the test.
const LATER: &str = r#"{"kind": "mail.send", "in_ms": 3600000}"#;

/// A collector: the path and the body of each request.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let send = send.clone();
            std::thread::spawn(move || {
                let mut stream = stream.as_ref().unwrap();
                while let Some(got) = take(stream) {
                    // The server may end once it has the response: the test must have the request by then.
                    send.send(got).unwrap();
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                }
            });
        }
    });
    (url, receive)
}

fn take(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        length = line.strip_prefix("content-length: ").map_or(length, |text| text.parse().unwrap());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first.split(' ').nth(1)?.to_owned(), body))
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

fn post(address: &str, path: &str, trace: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\ntraceparent: {trace}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

async fn serve(dir: &tempfile::TempDir, more: &[&str]) -> (lineclear_testkit::Child, String) {
    let server = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--port", "0", "--allow-open-commands"])
        .args(more)
        .current_dir(dir.path())
        .start()
        .unwrap();
    let line = server.wait_for_line("API  http://", LONG).await.unwrap();
    (server, line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned())
}

/// The trace of each job in the file.
fn traces(dir: &tempfile::TempDir) -> Vec<Option<String>> {
    let file = rusqlite::Connection::open(dir.path().join("lineclear.db")).unwrap();
    let mut query = file.prepare("select trace from work_queue order by id").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn spans_reach_the_collector_and_jobs_continue_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let (url, spans) = collector();
    let (mut server, address) = serve(&dir, &["--otlp", &url]).await;
    let made = post(&address, "/api/v1/jobs", &format!("00-{TRACE}-b7ad6b7169203331-01"), LATER);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let trace = traces(&dir).remove(0).unwrap();
    assert!(trace.starts_with(&format!("00-{TRACE}-")), "the same trace: {trace}");
    assert!(!trace.contains("b7ad6b7169203331"), "but the request's own span lies between: {trace}");
    server.terminate().unwrap();
    assert!(server.wait_for_exit(LONG).await.unwrap().success());
    let (path, body) = spans.recv_timeout(LONG).expect("the remaining spans are sent at the end");
    assert_eq!(path, "/v1/traces");
    let id: Vec<u8> =
        (0..TRACE.len()).step_by(2).map(|n| u8::from_str_radix(&TRACE[n..n + 2], 16).unwrap()).collect();
    for part in [&id[..], b"POST /api/v1/jobs", b"lineclear", b"http.response.status_code"] {
        assert!(contains(&body, part), "{:?}", String::from_utf8_lossy(part));
    }
}

/// It is kept with the job, and may be secret.
#[tokio::test]
async fn output_of_commands_does_not_reach_the_collector() {
    let dir = tempfile::tempdir().unwrap();
    let (url, spans) = collector();
    let (mut server, address) = serve(&dir, &["--otlp", &url, "--commands", "/bin/echo"]).await;
    let body = r#"{"kind": "command", "input": {"argv": ["/bin/echo", "a-canary"]}}"#;
    assert!(post(&address, "/api/v1/jobs", "", body).starts_with("HTTP/1.1 201"));
    crate::kinds::command::wait_for(&address, "jobs/1", r#""state":"completed""#).await;
    server.terminate().unwrap();
    assert!(server.wait_for_exit(LONG).await.unwrap().success());
    let sent: Vec<u8> = spans.try_iter().flat_map(|(_, body)| body).collect();
    assert!(
        contains(&sent, b"job.kind"),
        "the span of the job was not sent: {}",
        String::from_utf8_lossy(&sent)
    );
    assert!(!contains(&sent, b"a-canary"), "{}", String::from_utf8_lossy(&sent));
}

#[tokio::test]
async fn without_a_collector_a_job_keeps_the_trace_of_its_caller() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &[]).await;
    let good = format!("00-{TRACE}-b7ad6b7169203331-01");
    for trace in [&good, "00-xyz"] {
        let made = post(&address, "/api/v1/jobs", trace, LATER);
        assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    }
    assert_eq!(traces(&dir), [Some(good), None]);
}

#[tokio::test]
async fn a_collector_that_is_away_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(&dir, &["--otlp", "http://127.0.0.1:9"]).await;
    let made = post(&address, "/api/v1/jobs", "", r#"{"kind": "mail.send"}"#);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    server.terminate().unwrap();
    assert!(server.wait_for_exit(LONG).await.unwrap().success());
}

#[test]
fn an_invalid_collector_url_is_refused() {
    let output = command(&["serve", "--otlp", "collector:4318"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("otlp (flag)") && said.contains("http://127.0.0.1:4318"), "{said}");
}
