//! `lineclear job`, `manifest` and `api`: through a server, and directly on a database.

use std::time::{Duration, Instant};

use lineclear_testkit::fresh_postgres;
use tempfile::TempDir;

use crate::commands::events::Watched;
use crate::commands::serve::{ask, serve};
pub(crate) use crate::run::at;

/// Runs a test through a server, and directly on its database, a file or PostgreSQL. `asked` are the arguments that select it.
pub(crate) async fn each_way(arguments: &[&str], commands: impl AsyncFn(&TempDir, &[&str])) {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, arguments).await;
    commands(&dir, &["--server", &format!("http://{address}")]).await;
    let dir = tempfile::tempdir().unwrap();
    let (_server, _) = serve(&dir, arguments).await;
    commands(&dir, &["--db", "lineclear.db"]).await;
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    let (_server, _) = serve(&dir, &[arguments, &["--db", database.url()]].concat()).await;
    commands(&dir, &["--db", database.url()]).await;
}

/// Waits for a condition.
pub(crate) fn until(is: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < deadline, "it never was");
        std::thread::sleep(Duration::from_millis(50));
    }
}

const ORDERS: &str = r#"
[group.etl]
limit = 2

[[manifest]]
key = "nightly"
kind = "command"
group = "etl"
input = { argv = ["/bin/echo", "good", "night"] }
schedule = { cron = "30 2 * * *", tz = "Europe/Berlin" }
"#;

/// Runs all commands; `asked` are the arguments that select the server or the database.
fn the_whole_way(dir: &TempDir, asked: &[&str]) {
    let run = |args: &[&str]| at(dir, &[args, asked].concat());
    std::fs::write(dir.path().join("orders.toml"), ORDERS).unwrap();
    let plan = run(&["manifest", "apply", "-f", "orders.toml", "--dry-run"]);
    assert_eq!(plan.code, Some(0), "{}", plan.err);
    assert!(
        plan.out.contains("+ group etl\n+ manifest nightly\n") && plan.out.contains("dry run"),
        "{}",
        plan.out
    );
    assert!(!run(&["manifest", "list"]).out.contains("nightly"), "a dry run changes nothing");
    assert_eq!(run(&["manifest", "apply", "-f", "."]).code, Some(0));
    let again = run(&["manifest", "apply", "-f", "orders.toml"]);
    assert_eq!(again.out, "no changes (2 unchanged)\n");

    let listed = run(&["manifest", "list"]);
    let row: Vec<&str> = listed.out.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!(row[..4], ["nightly", "enabled", "command", "30 2 * * * Europe/Berlin"], "{}", listed.out);
    assert_eq!(run(&["manifest", "next", "nightly", "-n", "3"]).out.lines().count(), 3);
    assert!(run(&["manifest", "pause", "nightly"]).out.contains("nightly paused"));
    assert!(run(&["manifest", "list"]).out.contains("paused"));
    assert!(run(&["manifest", "explain", "nightly"]).out.contains("enabled"));
    assert!(run(&["manifest", "resume", "nightly"]).out.contains("nightly resumed"));
    assert!(run(&["manifest", "get", "nightly"]).out.contains("group\tetl"));

    let made = run(&["manifest", "run", "nightly", "--json"]);
    let id = made.out.split(r#""id":""#).nth(1).unwrap().split('"').next().unwrap().to_owned();
    let watched = run(&["job", "watch", &id, "--wait-timeout", "30s"]);
    assert_eq!((watched.code, watched.out.as_str()), (Some(0), "good night\n"), "{}", watched.err);
    assert!(watched.err.contains(&format!("job {id} completed")), "{}", watched.err);
    assert_eq!(run(&["job", "logs", &id]).out, "good night\n");
    assert!(run(&["job", "get", &id]).out.contains("state\tcompleted"));
    assert!(run(&["manifest", "history", "nightly"]).out.contains("completed"));
    let searched = |q: &str| run(&["manifest", "history", "nightly", "-q", q]).out.lines().count();
    assert_eq!(
        (searched("state:completed"), searched("state:dead since:1h")),
        (2, 1),
        "the header, and the matching jobs"
    );
    assert!(run(&["job", "list", "-q", "state:completed"]).out.contains("nightly"));
    assert!(run(&["job", "explain", &id]).out.contains("completed"));
    let json = run(&["job", "list", "--json"]).out;
    assert!(json.starts_with('{') && json.contains(r#""items":["#) && json.ends_with("}\n"), "{json}");

    let input = r#"{"argv": ["/bin/echo", "once"]}"#;
    let waited = run(&["job", "enqueue", "command", "--input", input, "--wait"]);
    assert_eq!((waited.code, waited.out.as_str()), (Some(0), "once\n"), "{}", waited.err);
    let failed = run(&[
        "job",
        "enqueue",
        "command",
        "--input",
        r#"{"argv": ["/bin/no"]}"#,
        "--retries",
        "0",
        "--wait",
    ]);
    assert_eq!(failed.code, Some(8), "{}", failed.err);
    assert!(failed.err.contains("dead: ") && failed.err.contains("commands"), "{}", failed.err);
    let placed = [
        "job",
        "enqueue",
        "mail.send",
        "--in",
        "1h",
        "--route",
        "slow",
        "--limit-key",
        "c 7",
        "--tag",
        "a",
        "--tag",
        "b",
    ];
    let id = run(&placed).out.split_whitespace().nth(1).unwrap().trim_end_matches(';').to_owned();
    let placed = run(&["job", "get", &id, "--json"]).out;
    assert!(
        [r#""route":"slow""#, r#""limit_key":"c 7""#, r#""tags":["a","b"]"#]
            .iter()
            .all(|part| placed.contains(part)),
        "{placed}"
    );
    assert_eq!(run(&["job", "cancel", &id]).code, Some(0));
    let later = run(&["job", "enqueue", "mail.send", "--in", "1h"]);
    let id = later.out.split_whitespace().nth(1).unwrap().trim_end_matches(';').to_owned();
    let late = run(&["job", "watch", &id, "--wait-timeout", "1s"]);
    assert_eq!(late.code, Some(7), "{}", late.err);
    assert_eq!(run(&["job", "cancel", &id]).out, "cancelled\n");
    assert_eq!(run(&["job", "watch", &id]).code, Some(9));
    assert_eq!(run(&["job", "cancel", &id]).code, Some(5), "it is over");
    assert_eq!(run(&["job", "retry", &id]).code, Some(0));
    let edited = run(&["job", "retry", &id, "--input", "{\"n\": 1.10}", "--note", "once more", "--json"]);
    assert_eq!(edited.code, Some(0), "{}", edited.err);
    let again = edited.out.split('"').skip_while(|word| *word != "id").nth(2).unwrap().to_owned();
    assert!(run(&["job", "get", &again, "--json"]).out.contains(r#"{"n":1.10}"#), "as it was written");
    assert_eq!(run(&["job", "retry", &id, "--input", "{"]).code, Some(2));

    assert_eq!(run(&["job", "get", "999999"]).code, Some(3));
    let unknown = run(&["manifest", "history", "nihgtly"]);
    assert!(unknown.code == Some(3) && unknown.err.contains("did you mean nightly?"), "{}", unknown.err);
    assert_eq!(run(&["manifest", "history", "a/../b"]).code, Some(3));
    assert_eq!(run(&["manifest", "get", "a/../b"]).code, Some(3));
    assert_eq!(run(&["job", "list", "-q", "stat:dead"]).code, Some(2));
    assert_eq!(run(&["job", "enqueue", "command", "--input", "{"]).code, Some(2));
    assert_eq!(run(&["manifest", "delete", "nightly"]).code, Some(0));
    assert_eq!(run(&["manifest", "get", "nightly"]).code, Some(3));
    assert!(run(&["manifest", "history", "nightly"]).out.contains("completed"), "its jobs are still there");
    let raw = run(&["api", "get", "/groups/etl"]);
    assert!(raw.code == Some(0) && raw.out.contains(r#""limit":2"#), "{}{}", raw.out, raw.err);
    assert_eq!(run(&["api", "GET", "/nothing"]).code, Some(3));
    assert_eq!(run(&["api", "PUT", "/groups/quiz", "--body", r#"{"limit": 1}"#]).code, Some(0));
    assert!(run(&["api", "GET", "/groups/quiz"]).out.contains(r#""limit":1"#));
    assert_eq!(run(&["api", "GET", "/livez"]).code, Some(0));
}

#[tokio::test]
async fn commands_ask_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &["--commands", "/bin/echo"]).await;
    the_whole_way(&dir, &["--server", &format!("http://{address}")]);
}

#[tokio::test]
async fn a_log_is_printed_to_its_end_however_long_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &["--commands", "/usr/bin/seq"]).await;
    let asked = ["--server", &format!("http://{address}")];
    let run = |args: &[&str]| at(&dir, &[args, &asked].concat());
    let input = r#"{"argv": ["/usr/bin/seq", "2500"]}"#;
    let waited = run(&["job", "enqueue", "command", "--input", input, "--wait"]);
    // 1,000 lines of each claim are kept, and a line that says that there were more: one line more than a page.
    assert_eq!((waited.code, waited.out.lines().count()), (Some(0), 1001), "{}", waited.err);
    assert_eq!(run(&["job", "logs", "1"]).out.lines().count(), 1001);
    let json: serde_json::Value = serde_json::from_str(&run(&["job", "logs", "1", "--json"]).out).unwrap();
    let lines = json["items"].as_array().unwrap();
    assert_eq!(lines.len(), 1001);
    assert!(
        lines[1000]["message"].as_str().unwrap().contains("1500 more lines were dropped"),
        "{}",
        lines[1000]
    );
    assert_eq!(json["next"], serde_json::Value::Null, "the last page");
}

/// The command reads from a pipe that the test writes to after it has seen the first line.
#[tokio::test]
async fn a_log_line_is_seen_before_the_job_ends() {
    each_way(&["--commands", "/bin/sh"], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        let go = dir.path().join("go");
        assert!(std::process::Command::new("mkfifo").arg(&go).status().unwrap().success());
        let script = "echo begun; read word < go; echo $word";
        let input = serde_json::json!({"argv": ["/bin/sh", "-c", script]}).to_string();
        assert_eq!(run(&["job", "enqueue", "command", "--input", &input]).code, Some(0));
        let mut watch = Watched::start(dir, &[&["job", "watch", "1"], asked].concat());
        watch.until("begun");
        assert!(run(&["job", "get", "1"]).out.contains("state\trunning"), "it waits for the test");
        assert!(watch.child.try_wait().unwrap().is_none(), "`job watch` waits, too");
        std::fs::write(&go, "over\n").unwrap();
        watch.until("over");
        assert_eq!(watch.child.wait().unwrap().code(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn commands_work_directly_on_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, _) = serve(&dir, &["--commands", "/bin/echo"]).await;
    the_whole_way(&dir, &["--db", "lineclear.db"]);
}

#[tokio::test]
async fn commands_work_directly_on_postgres() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    let (_server, _) = serve(&dir, &["--commands", "/bin/echo", "--db", database.url()]).await;
    the_whole_way(&dir, &["--db", database.url()]);
}

#[tokio::test]
async fn a_direct_command_is_in_the_audit_and_registers_no_node() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &["db", "migrate"]).code, Some(0));
    assert_eq!(at(&dir, &["job", "enqueue", "mail.send", "--db", "lineclear.db"]).code, Some(0));
    assert_eq!(at(&dir, &["job", "cancel", "1", "--db", "lineclear.db"]).code, Some(0));
    let audit = at(&dir, &["api", "GET", "/audit", "--db", "lineclear.db"]);
    assert!(audit.out.contains("cancel_job") && audit.out.contains(r#""who":"cli:"#), "{}", audit.out);
    let nodes = at(&dir, &["api", "GET", "/nodes", "--db", "lineclear.db"]);
    assert!(nodes.out.contains(r#""items":[]"#), "{}", nodes.out);
}

#[test]
fn an_unreachable_server_is_reported_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let unreachable = at(&dir, &["job", "list", "--server", "http://127.0.0.1:9"]);
    assert!(
        unreachable.code == Some(6) && unreachable.err.contains("lineclear serve"),
        "{}",
        unreachable.err
    );
    let no_file = at(&dir, &["job", "list", "--db", "none.db"]);
    assert!(no_file.code == Some(6) && no_file.err.contains("none.db"), "{}", no_file.err);
    assert!(!dir.path().join("none.db").exists(), "a read creates no file");
    assert_eq!(at(&dir, &["job", "list", "--server", "nowhere"]).code, Some(2));
    rusqlite::Connection::open(dir.path().join("empty.db"))
        .unwrap()
        .execute_batch("create table x(y)")
        .unwrap();
    let bare = at(&dir, &["job", "list", "--db", "empty.db"]);
    assert!(bare.code == Some(5) && bare.err.contains("db migrate"), "{}", bare.err);
}

#[tokio::test]
async fn a_server_with_tokens_requires_one() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &["--auth", "token"]).await;
    let server = format!("http://{address}");
    let refused = at(&dir, &["job", "list", "--server", &server]);
    assert!(refused.code == Some(4) && refused.err.contains("LINECLEAR_TOKEN"), "{}", refused.err);
    let made = at(&dir, &["token", "create", "reader", "--scope", "read", "--json"]);
    let token =
        made.out.split('"').find(|word| word.len() > 40).unwrap_or_else(|| panic!("{}", made.out)).to_owned();
    assert_eq!(at(&dir, &["job", "list", "--server", &server, "--token", &token]).code, Some(0));
    let may_not = at(&dir, &["job", "enqueue", "x", "--server", &server, "--token", &token]);
    assert_eq!(may_not.code, Some(4), "{}", may_not.err);
}

#[tokio::test]
async fn an_input_arrives_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &[]).await;
    let to = format!("http://{address}");
    // Numbers too large for most parsers, keys not in alphabetical order, and unusual notation.
    let input = r#"{"n":12345678901234567890123,"z":1.0,"a":1e2}"#;
    let body = format!(r#"{{"kind":"big","input":{input}}}"#);
    let both = [
        at(&dir, &["job", "enqueue", "big", "--input", input, "--server", &to]),
        at(&dir, &["api", "POST", "/jobs", "--body", &body, "--server", &to]),
    ];
    for made in both {
        assert_eq!(made.code, Some(0), "{}", made.err);
    }
    for id in [1, 2] {
        let job = ask(&address, &format!("GET /api/v1/jobs/{id}"), "");
        assert!(job.contains(&format!("\"input\":{input}")), "{job}");
    }
    let refused = at(&dir, &["job", "enqueue", "big", "--input", "1, \"kind\": 2", "--server", &to]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("--input: invalid JSON"), "{}", refused.err);
}
