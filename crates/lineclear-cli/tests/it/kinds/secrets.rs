//! Secrets that inputs name: they reach only what the settings allow, and are stored nowhere.

use std::path::Path;
use std::time::Duration;

use lineclear_testkit::{Child, Program};
use tempfile::TempDir;

use super::command::wait_for;
use super::http::{answer, receiver};
use crate::commands::serve::ask;
use crate::run::at;

const LONG: Duration = Duration::from_secs(60);
const VALUE: &str = "s3cr3t/value+42";
/// Base64 of `ann:` and the value.
const BASIC: &str = "YW5uOnMzY3IzdC92YWx1ZSs0Mg==";

/// A server whose folder of secrets has `api-token`, with these rules.
async fn server(dir: &TempDir, port: u16, rules: &str) -> (Child, String) {
    let secrets = dir.path().join("secrets");
    std::fs::create_dir_all(&secrets).unwrap();
    std::fs::write(secrets.join("api-token"), format!("{VALUE}\n")).unwrap();
    let settings = format!(
        "http_networks = [\"127.0.0.0/8\", \"::1\"]\nhttp_plain = true\nhttp_ports = [{port}]\ncommands = [\"/bin/sh\", \"/bin/echo\"]\nallow_open_commands = true\n{rules}"
    );
    std::fs::write(dir.path().join("lineclear.toml"), settings).unwrap();
    // As systemd names the folder of its credentials.
    let program = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--port", "0", "--log", "trace"])
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"))
        .env("CREDENTIALS_DIRECTORY", &secrets)
        .env("LINECLEAR_SECRET_FROM_ENV_1", VALUE);
    let child = program.start().unwrap();
    let line = child.wait_for_line("API  http://", LONG).await.unwrap();
    (child, line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned())
}

fn enqueue(address: &str, kind: &str, input: &str, retries: u32) -> String {
    let body = format!(r#"{{"kind": "{kind}", "input": {input}, "retries": {retries}}}"#);
    let made = ask(address, "POST /api/v1/jobs", &body);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    made.split(r#""id":""#).nth(1).unwrap().split('"').next().unwrap().to_owned()
}

async fn ended(address: &str, id: &str, state: &str) -> String {
    wait_for(address, &format!("jobs/{id}"), &format!(r#""state":"{state}""#)).await
}

/// Neither the database nor the log has the value, as it is or in base64.
fn is_nowhere(dir: &Path, child: &Child) {
    let said = [child.stdout(), child.stderr()].concat().join("\n").into_bytes();
    let files =
        ["lineclear.db", "lineclear.db-wal"].map(|name| std::fs::read(dir.join(name)).unwrap_or_default());
    let basic = BASIC.trim_end_matches('=');
    for (what, bytes) in [("the log", &said), ("the database", &files[0]), ("its journal", &files[1])] {
        for hidden in [VALUE, "s3cr3t", &basic[6..basic.len() - 1]] {
            let found = bytes.windows(hidden.len()).position(|window| window == hidden.as_bytes());
            let around = found.map(|at| String::from_utf8_lossy(&bytes[at.saturating_sub(100)..at + 20]));
            assert!(found.is_none(), "{hidden} in {what}: {around:?}");
        }
    }
    assert!(files.concat().len() > 10_000, "there is a database");
}

#[tokio::test]
async fn a_call_has_the_value_of_a_secret_and_nothing_that_is_kept_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let echo = format!("you sent {VALUE}, {BASIC} and s3cr3t%2Fvalue%2B42");
    let (port, calls) = receiver(vec![
        answer("200 OK", "", &echo),
        answer("401 Unauthorized", "", &echo),
        answer("200 OK", "", ""),
    ]);
    let rules = "[secrets.api-token]\nhosts = [\"http://127.0.0.1\"]\n[secrets.from-env.1]\n";
    let rules =
        rules.replace("[secrets.from-env.1]", "[secrets.\"from-env.1\"]\nhosts = [\"http://127.0.0.1\"]");
    let (child, address) = server(&dir, port, &rules).await;
    let input = format!(
        r#"{{"url": ["http://127.0.0.1:{port}/hook?sig=", {{"$secret": "api-token"}}], "headers": {{"Authorization": ["Bearer ", {{"$secret": "api-token"}}]}}, "body": {{"deep": [{{"any": {{"$secret": "api-token"}}}}]}}}}"#
    );
    let id = enqueue(&address, "http", &input, 0);
    let job = ended(&address, &id, "completed").await;
    let call = calls.recv_timeout(LONG).unwrap();
    assert!(call.contains(&format!("Bearer {VALUE}\r\n")), "{call}");
    assert!(call.ends_with(&format!(r#"{{"deep":[{{"any":"{VALUE}"}}]}}"#)), "{call}");
    assert!(call.starts_with(&format!("POST /hook?sig={VALUE} ")), "{call}");
    assert_eq!(job.matches(r#"{"$secret":"api-token"}"#).count(), 3, "it is shown by its name: {job}");
    let output = ask(&address, &format!("GET /api/v1/jobs/{id}/output"), "");
    assert!(output.contains("you sent •••, ") && output.contains("and •••"), "{output}");
    let id = enqueue(&address, "http", &input, 0);
    ended(&address, &id, "dead").await;
    let executions = ask(&address, &format!("GET /api/v1/jobs/{id}/executions"), "");
    assert!(executions.contains("status 401: you sent •••"), "{executions}");
    // From the environment, for a manifest.
    let manifest = format!(
        r#"{{"kind": "http", "schedule": {{"on_demand": true}}, "input": {{"url": "http://127.0.0.1:{port}/", "body": {{"$secret": "from-env.1"}}}}}}"#
    );
    assert!(ask(&address, "PUT /api/v1/manifests/call", &manifest).starts_with("HTTP/1.1 201"));
    assert!(ask(&address, "POST /api/v1/manifests/call/run", "").starts_with("HTTP/1.1 201"));
    calls.recv_timeout(LONG).unwrap();
    let call = calls.recv_timeout(LONG).unwrap();
    assert!(call.ends_with(&format!("\"{VALUE}\"")), "{call}");
    let shown = ask(&address, "GET /api/v1/manifests/call", "");
    assert!(shown.contains(r#"{"$secret":"from-env.1"}"#), "{shown}");
    ended(&address, "3", "completed").await;
    is_nowhere(dir.path(), &child);
}

/// An author of jobs must not have a secret sent to a server of their own.
#[tokio::test]
async fn a_secret_goes_only_to_the_hosts_and_programs_of_its_rule() {
    let dir = tempfile::tempdir().unwrap();
    let (port, calls) = receiver(vec![answer("200 OK", "", "")]);
    let rules = "[secrets.api-token]\nhosts = [\"http://127.0.0.1\"]\nprograms = [\"/bin/sh\"]\n";
    let (child, address) = server(&dir, port, rules).await;
    let headers = r#""headers": {"X-A": {"$secret": "api-token"}}"#;
    for (kind, input, why) in [
        (
            "http",
            format!(r#"{{"url": "http://localhost:{port}/", {headers}}}"#),
            "may not be sent to this host",
        ),
        (
            "http",
            format!(r#"{{"url": "http://127.0.0.1:{port}/", "headers": {{"X-A": {{"$secret": "other"}}}}}}"#),
            "add [secrets.other] with `hosts`",
        ),
        (
            "command",
            r#"{"argv": ["/bin/echo", {"$secret": "api-token"}]}"#.to_owned(),
            "/bin/echo may not get it",
        ),
        ("sample", r#"{"sleep_ms": {"$secret": "api-token"}}"#.to_owned(), "use no secrets"),
    ] {
        let id = enqueue(&address, kind, &input, 3);
        ended(&address, &id, "dead").await;
        let executions = ask(&address, &format!("GET /api/v1/jobs/{id}/executions"), "");
        assert!(executions.contains(why), "{input}: {executions}");
        assert_eq!(
            executions.matches(r#""outcome""#).count(),
            1,
            "another attempt cannot help: {executions}"
        );
    }
    assert!(calls.try_recv().is_err(), "no server was called");
    is_nowhere(dir.path(), &child);
}

#[tokio::test]
async fn a_command_gets_a_secret_as_a_variable_and_its_output_is_masked() {
    let dir = tempfile::tempdir().unwrap();
    let rules = "[secrets.api-token]\nprograms = [\"/bin/sh\"]\n";
    let (child, address) = server(&dir, 1, rules).await;
    let script = "echo env $TOKEN; echo arg $0 >&2; printf ann:$TOKEN | base64; head -c 4090 /dev/zero | tr '\\0' x; echo $TOKEN; test $TOKEN = $0";
    let input = format!(
        r#"{{"argv": ["/bin/sh", "-c", {script:?}, {{"$secret": "api-token"}}], "env": {{"TOKEN": {{"$secret": "api-token"}}}}}}"#
    );
    let id = enqueue(&address, "command", &input, 0);
    ended(&address, &id, "completed").await;
    let output = ask(&address, &format!("GET /api/v1/jobs/{id}/output"), "");
    assert!(output.contains("env •••") && output.contains("arg •••"), "{output}");
    let logs = ask(&address, &format!("GET /api/v1/jobs/{id}/logs"), "");
    assert!(logs.contains("env •••") && logs.contains("arg •••"), "{logs}");
    is_nowhere(dir.path(), &child);
    // Another variable could make it run another program.
    for env in
        [r#"{"PATH": "/tmp"}"#, r#"{"LD_PRELOAD": {"$secret": "api-token"}}"#, r#"{"A=B": {"$secret": "x"}}"#]
    {
        let body = format!(r#"{{"kind": "command", "input": {{"argv": ["/bin/sh"], "env": {env}}}}}"#);
        let refused = ask(&address, "POST /api/v1/jobs", &body);
        assert!(refused.starts_with("HTTP/1.1 422") && refused.contains("`env`"), "{refused}");
    }
}

#[tokio::test]
async fn an_unknown_secret_fails_the_job_until_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = server(&dir, 1, "[secrets.late]\nprograms = [\"/bin/sh\"]\n").await;
    let input = r#"{"argv": ["/bin/sh", "-c", "test $0 = here-now", {"$secret": "late"}]}"#;
    let id = enqueue(&address, "command", input, 3);
    ended(&address, &id, "retrying").await;
    let executions = ask(&address, &format!("GET /api/v1/jobs/{id}/executions"), "");
    assert!(
        executions.contains("secret late: this node does not have it; put its value into the file"),
        "{executions}"
    );
    assert!(executions.contains("or set LINECLEAR_SECRET_LATE"), "{executions}");
    std::fs::write(dir.path().join("secrets/late"), "here-now").unwrap();
    assert!(ask(&address, &format!("POST /api/v1/jobs/{id}/retry"), "").starts_with("HTTP/1.1 2"));
    ended(&address, &id, "completed").await;
}

#[tokio::test]
async fn a_malformed_secret_is_refused_when_it_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = server(&dir, 1, "").await;
    for bad in [r#"{"$secret": "a", "b": 1}"#, r#"{"$secret": "../a"}"#, r#"{"$secret": 7}"#] {
        let body = format!(r#"{{"kind": "x", "input": {{"deep": [{bad}]}}}}"#);
        let made = ask(&address, "POST /api/v1/jobs", &body);
        assert!(made.starts_with("HTTP/1.1 422") && made.contains("/deep/0"), "{bad}: {made}");
        let body =
            format!(r#"{{"kind": "x", "schedule": {{"on_demand": true}}, "input": {{"deep": [{bad}]}}}}"#);
        let put = ask(&address, "PUT /api/v1/manifests/m", &body);
        assert!(put.starts_with("HTTP/1.1 422") && put.contains("/deep/0"), "{bad}: {put}");
        let input = format!(r#"{{"deep": [{bad}]}}"#);
        let here = at(&dir, &["job", "enqueue", "x", "--input", &input, "--db", "lineclear.db"]);
        assert!(here.code == Some(2) && here.err.contains("/deep/0"), "{bad}: {}", here.err);
    }
    let bad = at(&dir, &["serve", "--secrets-dir", "nowhere"]);
    assert!(
        bad.code == Some(2) && bad.err.contains("secrets_dir (flag): \"nowhere\" is not a folder"),
        "{}",
        bad.err
    );
}

#[tokio::test]
async fn an_error_about_a_url_shows_no_form_of_its_secret() {
    let dir = TempDir::new().unwrap();
    let (_child, address) = server(&dir, 9, "[secrets.pin]\nhosts = [\"a.example\"]\n").await;
    // As a host, a number is an address: 0.0.18.213.
    std::fs::write(dir.path().join("secrets/pin"), "4821").unwrap();
    let id = enqueue(&address, "http", r#"{"url": ["https://", {"$secret": "pin"}, "/"]}"#, 0);
    ended(&address, &id, "dead").await;
    let executions = ask(&address, &format!("GET /api/v1/jobs/{id}/executions"), "");
    assert!(executions.contains("no call that may be made"), "{executions}");
    assert!(!executions.contains("18.213") && !executions.contains("4821"), "{executions}");
}
