//! Jobs of the kind `http`: calls, and forbidden URLs.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use lineclear_testkit::Child;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::commands::job::at;
use crate::commands::serve::{ask, serve};
use crate::kinds::command::wait_for;
use crate::run::command;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const LONG: Duration = Duration::from_secs(60);

/// A receiver of calls: sends these responses, one for each call, and passes on each request.
pub(crate) fn receiver(answers: Vec<String>) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, calls) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut call = String::new();
            let mut bytes = [0; 4096];
            while !is_whole(&call) {
                match stream.read(&mut bytes) {
                    Ok(count @ 1..) => call.push_str(&String::from_utf8_lossy(&bytes[..count])),
                    _ => break,
                }
            }
            // The caller may have disconnected.
            stream.write_all(answer.as_bytes()).ok();
            sender.send(call).ok();
        }
    });
    (port, calls)
}

fn is_whole(call: &str) -> bool {
    let Some((head, body)) = call.split_once("\r\n\r\n") else { return false };
    body.len() >= header(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0)
}

fn header<'a>(call: &'a str, name: &str) -> Option<&'a str> {
    let line = call.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

pub(crate) fn answer(status: &str, more: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n{body}", body.len())
}

/// A server that may call a port of this machine.
async fn caller(dir: &TempDir, port: u16) -> (Child, String) {
    let settings = format!(
        "http_networks = \"127.0.0.0/8\"\nhttp_plain = true\nhttp_ports = [{port}]\nhttp_secrets = \"127.0.0.1={SECRET}\"\n"
    );
    std::fs::write(dir.path().join("lineclear.toml"), settings).unwrap();
    serve(dir, &[]).await
}

fn enqueue(address: &str, input: &str, more: &str) -> String {
    let answer = ask(
        address,
        "POST /api/v1/jobs",
        &format!(r#"{{"kind": "http", "input": {input}, "retries": 2{more}}}"#),
    );
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    answer.split(r#""id":""#).nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// Keys not in alphabetical order, unusual notation, and numbers too large for most parsers.
const ODD: &str = r#"{"z":1.10,"n":12345678901234567890123,"a":[1e400]}"#;

/// The signature of Standard Webhooks: HMAC-SHA256 of the id, the timestamp and the body.
fn signature(id: &str, timestamp: &str, body: &str) -> String {
    let mut key = base64(SECRET.strip_prefix("whsec_").unwrap());
    key.resize(64, 0);
    let padded = |with: u8| key.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let signed = format!("{id}.{timestamp}.{body}");
    let inner = Sha256::digest([padded(0x36), signed.into_bytes()].concat());
    let outer = Sha256::digest([padded(0x5c), inner.to_vec()].concat());
    format!("v1,{}", in_base64(&outer))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|byte| ALPHABET.iter().position(|there| *there == byte));
    let bits: Vec<bool> =
        digits.flat_map(|digit| (0..6).rev().map(move |bit| digit >> bit & 1 == 1)).collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit))).collect()
}

fn in_base64(bytes: &[u8]) -> String {
    let bits: Vec<bool> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
    let digit = |six: &[bool]| (0..6).fold(0, |sum, bit| sum << 1 | usize::from(six.get(bit) == Some(&true)));
    let mut text: String = bits.chunks(6).map(|six| char::from(ALPHABET[digit(six)])).collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[tokio::test]
async fn a_url_is_called_with_a_signature_and_the_claim() {
    let dir = tempfile::tempdir().unwrap();
    let (port, calls) = receiver(vec![answer("200 OK", "", "thanks")]);
    let (_child, address) = caller(&dir, port).await;
    let input = format!(
        r#"{{"url": "http://127.0.0.1:{port}/hook?a=b", "headers": {{"X-Of-Mine": "yes"}}, "body": {ODD}}}"#
    );
    let id = enqueue(&address, &input, "");
    let watched =
        at(&dir, &["job", "watch", &id, "--wait-timeout", "1m", "--server", &format!("http://{address}")]);
    assert_eq!(watched.code, Some(0), "{}", watched.err);
    let call = calls.recv_timeout(LONG).unwrap();
    let (head, body) = call.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?a=b HTTP/1.1"), "{call}");
    assert_eq!(body, ODD, "as it was written");
    let job = header(&call, "webhook-id").unwrap();
    let cluster =
        job.strip_prefix("job-").and_then(|rest| rest.strip_suffix(&format!("-{id}"))).expect("the job");
    assert!(cluster.len() == 16 && cluster.bytes().all(|byte| byte.is_ascii_hexdigit()), "{job}");
    for (name, value) in [
        ("x-of-mine", "yes"),
        ("content-type", "application/json"),
        ("lineclear-job", &id),
        ("lineclear-claim", "1"),
        ("lineclear-attempt", "1"),
    ] {
        assert_eq!(header(&call, name), Some(value), "{name} in {call}");
    }
    let timestamp = header(&call, "webhook-timestamp").unwrap();
    assert_eq!(header(&call, "webhook-signature"), Some(&*signature(job, timestamp, body)), "{call}");
    let age = jiff::Timestamp::now().as_second() - timestamp.parse::<i64>().unwrap();
    assert!((0..=60).contains(&age), "{age}");
    let output = ask(&address, &format!("GET /api/v1/jobs/{id}/output"), "");
    assert!(output.ends_with(r#"{"status":200,"body":"thanks"}"#), "{output}");
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let dir = tempfile::tempdir().unwrap();
    let (port, calls) = receiver(vec![
        answer("503 Service Unavailable", "Retry-After: 2\r\n", "overloaded"),
        answer("201 Created", "", ""),
    ]);
    let (_child, address) = caller(&dir, port).await;
    let id = enqueue(&address, &format!(r#"{{"url": "http://127.0.0.1:{port}/"}}"#), "");
    let call = calls.recv_timeout(LONG).unwrap();
    let first = Instant::now();
    let second = calls.recv_timeout(LONG).unwrap();
    // The second call has the same id and a higher attempt.
    assert!(first.elapsed() > Duration::from_millis(1_500), "{:?}", first.elapsed());
    assert_eq!(header(&second, "lineclear-attempt"), Some("2"), "{second}");
    assert!(header(&second, "webhook-id").is_some());
    assert_eq!(header(&second, "webhook-id"), header(&call, "webhook-id"));
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    let executions = ask(&address, &format!("GET /api/v1/jobs/{id}/executions"), "");
    assert!(executions.contains("status 503: overloaded"), "{executions}");
}

#[tokio::test]
async fn successful_statuses_are_configurable_and_redirects_are_failures() {
    let dir = tempfile::tempdir().unwrap();
    let (port, _calls) = receiver(vec![
        answer("302 Found", "Location: http://169.254.169.254/latest/meta-data/\r\n", ""),
        answer("404 Not Found", "", "gone"),
    ]);
    let (_child, address) = caller(&dir, port).await;
    let url = format!("http://127.0.0.1:{port}/");
    let id = enqueue(&address, &format!(r#"{{"url": "{url}", "success": [200, 302]}}"#), "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    let output = ask(&address, &format!("GET /api/v1/jobs/{id}/output"), "");
    assert!(output.contains(r#""status":302"#), "{output}");
    let id = enqueue(&address, &format!(r#"{{"url": "{url}", "method": "DELETE", "success": [404]}}"#), "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
}

#[tokio::test]
async fn a_slow_or_talkative_receiver_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_child, address) = caller(&dir, silent.local_addr().unwrap().port()).await;
    let url = format!("http://{}/?token=hidden", silent.local_addr().unwrap());
    let body = format!(
        r#"{{"kind": "http", "retries": 0, "input": {{"url": "{url}", "method": "GET", "timeout_ms": 300}}}}"#
    );
    let made = ask(&address, "POST /api/v1/jobs", &body);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    wait_for(&address, "jobs/1", r#""state":"dead""#).await;
    let executions = ask(&address, "GET /api/v1/jobs/1/executions", "");
    assert!(executions.contains("no answer") && !executions.contains("hidden"), "{executions}");

    let (port, _calls) = receiver(vec![answer("200 OK", "", &"x".repeat(5_000_000))]);
    let other = tempfile::tempdir().unwrap();
    let (_child, address) = caller(&other, port).await;
    let id = enqueue(&address, &format!(r#"{{"url": "http://127.0.0.1:{port}/"}}"#), "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    let output = ask(&address, &format!("GET /api/v1/jobs/{id}/output"), "");
    assert!(output.len() < 10_000, "{} bytes", output.len());
}

#[tokio::test]
async fn a_forbidden_url_is_refused_when_it_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = serve(&dir, &[]).await;
    for (input, why) in [
        (r#"{"url": "http://example.com/"}"#, "only https"),
        (r#"{"url": "https://127.0.0.1/"}"#, "no public address"),
        (r#"{"url": "https://169.254.169.254/"}"#, "no public address"),
        (r#"{"url": "https://example.com:22/"}"#, "port 22"),
        (r#"{"url": "https://u:p@example.com/"}"#, "user or a password"),
        (r#"{"url": "https://example.com/", "method": "TRACE"}"#, "method"),
        (r#"{"url": "https://example.com/", "headers": {"Host": "internal"}}"#, "for the server to say"),
        (r#"{"url": "https://example.com/", "headers": {"a": "b\r\nc: d"}}"#, "no header can have"),
        (r#"{"url": "https://example.com/", "timeout_ms": 0}"#, "timeout_ms"),
        (r#"{"url": "https://example.com/", "succes": [200]}"#, "succes"),
        (r#"{}"#, "url"),
    ] {
        let made = ask(&address, "POST /api/v1/jobs", &format!(r#"{{"kind": "http", "input": {input}}}"#));
        assert!(made.starts_with("HTTP/1.1 422") && made.contains(why), "{input}: {made}");
        let put = ask(
            &address,
            "PUT /api/v1/manifests/call",
            &format!(r#"{{"kind": "http", "schedule": {{"every": "1h"}}, "input": {input}}}"#),
        );
        assert!(put.starts_with("HTTP/1.1 422") && put.contains(why), "{input}: {put}");
        // Without a server the URL is checked, too.
        let here = at(&dir, &["job", "enqueue", "http", "--input", input, "--db", "lineclear.db"]);
        assert!(here.code == Some(2) && here.err.contains(why), "{input}: {}", here.err);
    }
    let jobs = ask(&address, "GET /api/v1/jobs", "");
    assert!(jobs.contains(r#""items":[]"#), "{jobs}");
    // It is also refused as a new input of an existing job or manifest.
    let manifest = r#"{"kind": "http", "schedule": {"on_demand": true}, "input": {"url": "https://localhost/"}, "retries": 0}"#;
    assert!(ask(&address, "PUT /api/v1/manifests/call", manifest).starts_with("HTTP/1.1 201"));
    assert!(ask(&address, "POST /api/v1/manifests/call/run", "").starts_with("HTTP/1.1 201"));
    wait_for(&address, "dead-letters", r#""kind":"http""#).await;
    let inside = r#"{"input": {"url": "http://169.254.169.254/"}}"#;
    for (path, verb) in
        [("manifests/call/run", "run"), ("dead-letters/1/revive", "revive"), ("jobs/1/retry", "retry")]
    {
        let refused = ask(&address, &format!("POST /api/v1/{path}"), inside);
        assert!(refused.starts_with("HTTP/1.1 422") && refused.contains("only https"), "{verb}: {refused}");
        assert!(refused.contains(r#""pointer":"/input""#), "{verb}: {refused}");
    }
    let keyed = ["api", "POST", "/manifests/call/run", "-H", "Idempotency-Key: 1", "--body", inside];
    let refused = at(&dir, &[&keyed[..], &["--server", &format!("http://{address}")]].concat());
    assert!(refused.code == Some(2) && refused.err.contains("only https"), "{}", refused.err);
    let here = [
        "dead-letter",
        "revive",
        "1",
        "--input",
        r#"{"url": "http://169.254.169.254/"}"#,
        "--db",
        "lineclear.db",
    ];
    let refused = at(&dir, &here);
    assert!(refused.code == Some(2) && refused.err.contains("only https"), "{}", refused.err);
    let jobs = ask(&address, "GET /api/v1/jobs", "");
    assert_eq!(jobs.matches(r#""state":"#).count(), 1, "nothing else was made: {jobs}");
    assert!(jobs.contains(r#""state":"dead""#), "it was not revived: {jobs}");
    let mended = ask(
        &address,
        "POST /api/v1/dead-letters/1/revive",
        r#"{"input": {"url": "https://localhost/again"}}"#,
    );
    assert!(mended.starts_with("HTTP/1.1 204"), "{mended}");
}

/// Some servers repeat request headers in their responses.
#[tokio::test]
async fn secret_headers_are_masked_in_responses() {
    let dir = tempfile::tempdir().unwrap();
    let (port, _calls) = receiver(vec![
        answer("401 Unauthorized", "", "bad token: Bearer s3cr3t"),
        answer("200 OK", "", "you said Bearer s3cr3t\u{0}"),
    ]);
    let (_child, address) = caller(&dir, port).await;
    let input =
        format!(r#"{{"url": "http://127.0.0.1:{port}/", "headers": {{"Authorization": "Bearer s3cr3t"}}}}"#);
    let body = format!(r#"{{"kind": "http", "retries": 0, "input": {input}}}"#);
    assert!(ask(&address, "POST /api/v1/jobs", &body).starts_with("HTTP/1.1 201"));
    wait_for(&address, "jobs/1", r#""state":"dead""#).await;
    let id = enqueue(&address, &input, "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    for path in ["jobs/1", "jobs/1/executions", "jobs/1/input", "jobs/2", "jobs/2/output"] {
        let shown = ask(&address, &format!("GET /api/v1/{path}"), "");
        assert!(shown.starts_with("HTTP/1.1 200") && !shown.contains("s3cr3t"), "{path}: {shown}");
    }
    let refused = ask(
        &address,
        "POST /api/v1/jobs",
        r#"{"kind": "http", "input": {"url": "https://example.com", "headers": "Bearer s3cr3t"}}"#,
    );
    assert!(refused.starts_with("HTTP/1.1 422") && !refused.contains("s3cr3t"), "{refused}");
}

/// A name is resolved and checked when the server connects.
#[tokio::test]
async fn a_name_that_leads_inside_is_not_called() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = serve(&dir, &[]).await;
    let body = r#"{"kind": "http", "retries": 0, "input": {"url": "https://localhost/"}}"#;
    assert!(ask(&address, "POST /api/v1/jobs", body).starts_with("HTTP/1.1 201"));
    wait_for(&address, "jobs/1", r#""state":"dead""#).await;
    let executions = ask(&address, "GET /api/v1/jobs/1/executions", "");
    assert!(executions.contains("an address that is not public"), "{executions}");
}

/// The author of a job must not learn which names exist inside; the operator reads the log.
#[tokio::test]
async fn an_internal_name_and_a_missing_one_fail_alike() {
    let dir = tempfile::tempdir().unwrap();
    let (child, address) = serve(&dir, &[]).await;
    let mut errors = Vec::new();
    for (id, host) in [(1, "localhost"), (2, "no-such-name.invalid")] {
        let body = format!(r#"{{"kind": "http", "retries": 0, "input": {{"url": "https://{host}/"}}}}"#);
        assert!(ask(&address, "POST /api/v1/jobs", &body).starts_with("HTTP/1.1 201"));
        wait_for(&address, &format!("jobs/{id}"), r#""state":"dead""#).await;
        let executions = ask(&address, &format!("GET /api/v1/jobs/{id}/executions"), "");
        let error = executions.split(r#""error_message":""#).nth(1).unwrap().split('"').next().unwrap();
        errors.push(error.to_owned());
        let logs = ask(&address, &format!("GET /api/v1/jobs/{id}/logs"), "");
        assert!(logs.starts_with("HTTP/1.1 200") && !logs.contains(host), "{logs}");
    }
    assert_eq!(errors[0], errors[1]);
    child.wait_for_line("no-such-name.invalid", LONG).await.unwrap();
    let said = [child.stdout(), child.stderr()].concat().join("\n");
    let line = said.lines().find(|line| line.contains("localhost")).expect("a line about it");
    assert!(line.contains("is no public address"), "{line}");
}

/// What looks like a secret in a body is masked where the server repeats it.
#[tokio::test]
async fn secrets_of_a_body_are_masked_in_responses() {
    let dir = tempfile::tempdir().unwrap();
    let (port, _calls) =
        receiver(vec![answer("200 OK", "", "welcome ann, your code hunter22 and pin 424242")]);
    let (_child, address) = caller(&dir, port).await;
    let input = format!(
        r#"{{"url": "http://127.0.0.1:{port}/", "body": {{"user": "ann", "login": {{"password": "hunter22", "pin": 424242}}}}}}"#
    );
    let id = enqueue(&address, &input, "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    let output = ask(&address, &format!("GET /api/v1/jobs/{id}/output"), "");
    assert!(output.contains("welcome ann, your code ••• and pin •••"), "{output}");
}

#[test]
fn secrets_of_calls_are_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let show = |secret: &str| {
        let output = command(&["config", "show"])
            .env("LINECLEAR_HTTP_SECRETS", secret)
            .env("XDG_CONFIG_HOME", dir.path())
            .current_dir(dir.path())
            .output()
            .unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let shown = show(&format!("hooks.example.com={SECRET}"));
    assert!(shown.contains("•••") && !shown.contains("whsec_M"), "{shown}");
    let refused = show("hooks.example.com=whsec_short-and-secret");
    assert!(refused.contains("24 to 64 random bytes") && !refused.contains("short-and-secret"), "{refused}");
}

#[test]
fn with_db_the_settings_limit_urls_and_commands_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &["db", "migrate"]).code, Some(0));
    let enqueue = |kind: &str, input: &str| {
        at(&dir, &["job", "enqueue", kind, "--input", input, "--db", "lineclear.db"])
    };
    let inside = r#"{"url": "http://127.0.0.1:8080/"}"#;
    assert_eq!(enqueue("http", inside).code, Some(2));
    std::fs::write(
        dir.path().join("lineclear.toml"),
        "http_networks = \"127.0.0.0/8\"\nhttp_plain = true\nhttp_ports = [8080]\n",
    )
    .unwrap();
    let allowed = enqueue("http", inside);
    assert_eq!(allowed.code, Some(0), "{}", allowed.err);
    let file = "[[manifest]]\nkey = \"m\"\nkind = \"command\"\ninput = { argv = [\"date\"] }\nschedule = { every = \"1h\" }\n";
    std::fs::write(dir.path().join("jobs.toml"), file).unwrap();
    for refused in [
        enqueue("command", r#"{"argv": ["date"]}"#),
        enqueue("command", r#"{"args": ["/bin/date"]}"#),
        at(&dir, &["manifest", "apply", "-f", "jobs.toml", "--db", "lineclear.db"]),
    ] {
        assert!(
            refused.code == Some(2) && refused.err.contains("does not fit the kind command"),
            "{}",
            refused.err
        );
    }
    assert_eq!(enqueue("command", r#"{"argv": ["/bin/date"]}"#).code, Some(0));
    let none = at(&dir, &["manifest", "list", "--db", "lineclear.db"]).out;
    assert_eq!(none.lines().count(), 1, "a refused request creates nothing: {none}");
}
