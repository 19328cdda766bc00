//! Submitters in the settings of a server.

mod push_failures;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineclear_testkit::{HttpCall, HttpEndpoint, HttpReply};
use tempfile::TempDir;

use crate::commands::serve::{ask, serve, serve_with};
use crate::kinds::command::wait_for;
use crate::run::at;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const LONG: Duration = Duration::from_secs(60);
const NEW: &str = "whsec_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn configure(dir: &TempDir, settings: &str) {
    std::fs::write(dir.path().join("lineclear.toml"), settings).unwrap();
}

fn private_file(dir: &TempDir, mode: u32) -> String {
    let file = dir.path().join("billing-push");
    std::fs::write(&file, format!("{OLD}\n{NEW}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A worker that completes each job.
async fn worker() -> (HttpEndpoint, Arc<Mutex<Vec<HttpCall>>>) {
    let calls: Arc<Mutex<Vec<HttpCall>>> = Arc::default();
    let seen = calls.clone();
    let endpoint = HttpEndpoint::start(move |call| {
        seen.lock().unwrap().push(call);
        async { HttpReply::new(200, r#"{"outcome":"completed","output":{"paid":true}}"#) }
    });
    (endpoint.await.unwrap(), calls)
}

#[tokio::test]
async fn a_server_pushes_the_jobs_of_its_settings_to_a_worker() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, calls) = worker().await;
    let file = private_file(&dir, 0o600);
    configure(
        &dir,
        &format!(
            "[submitter.billing]\ntype = \"push\"\nurl = \"{}\"\nkinds = [\"invoice\"]\nsecrets_file = \"{file}\"\ncallback_url = \"https://jobs.example.com\"\n",
            endpoint.url()
        ),
    );
    let (_child, address) = serve(&dir, &[]).await;
    let made = ask(&address, "POST /api/v1/jobs", r#"{"kind": "invoice", "input": {"customer": 41}}"#);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    wait_for(&address, "jobs/1", r#""state":"completed""#).await;
    let output = ask(&address, "GET /api/v1/jobs/1/output", "");
    assert!(output.ends_with(r#"{"paid":true}"#), "{output}");
    let call = calls.lock().unwrap().pop().expect("a call");
    let body = String::from_utf8(call.body.clone()).unwrap();
    assert!(body.contains(r#""input":{"customer":41}"#), "{body}");
    assert!(body.contains(r#""callback":"https://jobs.example.com/api/v1/claims/1/1""#), "{body}");
    assert_eq!(
        call.header("webhook-signature").map(|all| all.split(' ').count()),
        Some(2),
        "one for each secret"
    );
}

#[tokio::test]
async fn a_secret_may_come_from_the_environment_and_is_read_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (endpoint, calls) = worker().await;
    configure(
        &dir,
        &format!(
            "[submitter.billing]\ntype = \"push\"\nurl = \"{}\"\nkinds = [\"invoice\"]\nsecrets = [{{ \"$secret\" = \"billing-push\" }}]\n",
            endpoint.url()
        ),
    );
    let missing = at(&dir, &["serve", "--port", "0"]);
    assert_eq!(missing.code, Some(2), "{}", missing.err);
    assert!(missing.err.contains("LINECLEAR_SECRET_BILLING_PUSH"), "{}", missing.err);
    let (_child, address) = serve_with(&dir, &[], &[("LINECLEAR_SECRET_BILLING_PUSH", OLD)]).await;
    ask(&address, "POST /api/v1/jobs", r#"{"kind": "invoice"}"#);
    wait_for(&address, "jobs/1", r#""state":"completed""#).await;
    let call = calls.lock().unwrap().pop().expect("a call");
    assert!(call.header("webhook-signature").is_some_and(|signature| signature.starts_with("v1,")));
}

#[tokio::test]
async fn a_host_that_fails_pushes_is_not_called_by_jobs_of_the_kind_http() {
    let dir = tempfile::tempdir().unwrap();
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = calls.clone();
    let endpoint = HttpEndpoint::start(move |call: HttpCall| {
        seen.lock().unwrap().push(call.path);
        async { HttpReply::Response(503, vec![("retry-after".to_owned(), "60".to_owned())], String::new()) }
    });
    let endpoint = endpoint.await.unwrap();
    let (url, port) = (endpoint.url(), endpoint.address().port());
    configure(
        &dir,
        &format!(
            "http_networks = \"127.0.0.0/8\"\nhttp_plain = true\nhttp_ports = [{port}]\n\
             [submitter.billing]\ntype = \"push\"\nurl = \"{url}\"\nkinds = [\"invoice\"]\nunsigned = true\n"
        ),
    );
    let (_child, address) = serve(&dir, &[]).await;
    for _ in 0..6 {
        ask(&address, "POST /api/v1/jobs", r#"{"kind": "invoice"}"#);
    }
    wait_for(&address, "submitters", r#""breaker open""#).await;
    let job = format!(r#"{{"kind": "http", "input": {{"url": "{url}hook"}}}}"#);
    let made = ask(&address, "POST /api/v1/jobs", &job);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    wait_for(&address, "jobs/7", r#""outcome":"snoozed""#).await;
    assert!(!calls.lock().unwrap().iter().any(|path| path.contains("hook")), "it is left alone");
}

#[test]
fn all_errors_in_submitters_come_at_once_and_show_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    configure(
        &dir,
        "[submitter.billing]\ntype = \"push\"\nurl = \"ftp://x\"\nkinds = [\"invoice\"]\nsecrets = [\"hunter2-hunter2\"]\n\
         [submitter.python]\ntype = \"pull\"\nkinds = [\"invoice\"]\nslots = 7\n\
         [submitter.mail]\ntype = \"sqs\"\n",
    );
    for command in [&["serve", "--port", "0"][..], &["work"], &["config", "show"]] {
        let run = at(&dir, command);
        assert_eq!(run.code, Some(2), "{}", run.err);
        for part in [
            "billing: ftp://x",
            "billing: `secrets`",
            "python: unknown field `slots`",
            "mail: `type` must be",
        ] {
            assert!(run.err.contains(part), "{part}: {}", run.err);
        }
        assert!(!run.err.contains("hunter2"), "{}", run.err);
    }
}

#[test]
fn settings_are_shown_without_secrets_and_a_file_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let push = "[submitter.billing]\ntype = \"push\"\nurl = \"https://billing.internal/jobs\"\nkinds = [\"invoice\"]\n";
    configure(&dir, &format!("{push}secrets = [\"{OLD}\"]\n"));
    let shown = at(&dir, &["config", "show", "--json"]);
    assert!(shown.out.contains("billing.internal") && !shown.out.contains("whsec_M"), "{}", shown.out);
    let file = private_file(&dir, 0o644);
    configure(&dir, &format!("{push}secrets_file = \"{file}\"\n"));
    let run = at(&dir, &["serve", "--port", "0"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("chmod o-r"), "{}", run.err);
}

/// Calls the server as a worker does.
fn report(address: &str, path: &str, token: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn a_worker_accepts_a_job_and_reports_to_the_callback_of_its_call() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let endpoint = HttpEndpoint::start(move |call: HttpCall| {
        sender.send(serde_json::from_slice::<serde_json::Value>(&call.body).unwrap()).unwrap();
        async { HttpReply::new(202, r#"{"id":"b-1","lease_ms":60000}"#) }
    });
    let endpoint = endpoint.await.unwrap();
    // The worker reaches the server at another address than this one.
    let public = "https://jobs.example.com";
    configure(
        &dir,
        &format!(
            "[submitter.billing]\ntype = \"push\"\nurl = \"{}\"\nkinds = [\"invoice\"]\nunsigned = true\ncallback_url = \"{public}\"\n",
            endpoint.url()
        ),
    );
    let (_child, address) = serve(&dir, &[]).await;
    ask(&address, "POST /api/v1/jobs", r#"{"kind": "invoice"}"#);
    let call = tokio::time::timeout(LONG, calls.recv()).await.expect("a call").unwrap();
    let callback = call["callback"].as_str().unwrap().strip_prefix(public).unwrap();
    let token = call["claim"]["token"].as_str().unwrap();
    let settle = format!("{callback}/settle");
    let completed = r#"{"outcome": "completed", "output": {"paid": true}}"#;
    let forged = report(&address, &settle, &format!("{token}x"), completed);
    assert!(forged.starts_with("HTTP/1.1 401"), "{forged}");
    let half =
        report(&address, &format!("{callback}/progress"), token, r#"{"fraction": 0.5, "text": "half"}"#);
    assert!(half.starts_with("HTTP/1.1 200"), "{half}");
    let settled = report(&address, &settle, token, completed);
    assert!(settled.starts_with("HTTP/1.1 200"), "{settled}");
    wait_for(&address, "jobs/1", r#""state":"completed""#).await;
    let output = ask(&address, "GET /api/v1/jobs/1/output", "");
    assert!(output.ends_with(r#"{"paid":true}"#), "{output}");
}
