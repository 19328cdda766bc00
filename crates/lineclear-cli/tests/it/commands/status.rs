//! `lineclear status`, and `lineclear` alone.

use std::process::{Command, Stdio};
use std::time::Duration;

use lineclear_testkit::fresh_postgres;
use tempfile::TempDir;

use crate::commands::serve::serve;
use crate::run::{Run, at, on_a_terminal};

/// Changes the file directly.
fn sql(dir: &TempDir, sql: &str) {
    let file = rusqlite::Connection::open(dir.path().join("lineclear.db")).unwrap();
    file.busy_timeout(Duration::from_secs(10)).unwrap();
    file.execute_batch(sql).unwrap();
}

/// Repeats the command until its output meets the condition.
async fn until(dir: &TempDir, args: &[&str], is: impl Fn(&Run) -> bool) -> Run {
    for _ in 0..200 {
        let run = at(dir, args);
        if is(&run) {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let run = at(dir, args);
    panic!("timed out: {:?}\n{}{}", run.code, run.out, run.err)
}

#[tokio::test]
async fn a_healthy_server_is_reported_through_the_server_and_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &["--slots", "3"]).await;
    let server = format!("http://{address}");
    for way in [["--server", server.as_str()], ["--db", "lineclear.db"]] {
        let well = at(&dir, &[&["status"], &way[..]].concat());
        assert_eq!(well.code, Some(0), "{}{}", well.out, well.err);
        assert!(well.out.starts_with("status\thealthy\n"), "{}", well.out);
        assert!(well.out.contains("nodes\t1 alive, 0 silent; 3 slots\n"), "{}", well.out);
        assert!(well.out.contains("leader\tnone yet\n") && !well.out.contains("problem"), "{}", well.out);
        let json = at(&dir, &[&["status", "--json"], &way[..]].concat());
        let api = at(&dir, &[&["api", "GET", "/status"], &way[..]].concat());
        let read = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
        let names =
            |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&read(&json.out)), names(&read(&api.out)), "the response of the API");
        assert_eq!(read(&json.out)["healthy"], true);
    }
    // A node that plans leads, and reports it with its next heartbeat.
    at(
        &dir,
        &[
            "api",
            "PUT",
            "/manifests/often",
            "--body",
            r#"{"kind": "x", "schedule": {"every": "1s"}}"#,
            "--server",
            &server,
        ],
    );
    let led =
        until(&dir, &["status", "--server", &server], |run| !run.out.contains("leader\tnone yet")).await;
    assert!(led.out.contains("\nleader\t") && led.out.contains(", for "), "{}", led.out);
}

#[tokio::test]
async fn waiting_work_without_a_node_is_degraded_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &["db", "migrate"]).code, Some(0));
    let ask = ["status", "--db", "lineclear.db"];
    let without_node = at(&dir, &ask);
    assert_eq!(without_node.code, Some(10), "{}", without_node.out);
    assert!(
        without_node.out.contains("status\tdegraded\n") && without_node.out.contains("none was ever started"),
        "{}",
        without_node.out
    );
    assert!(without_node.out.contains("lineclear serve"), "{}", without_node.out);
    at(&dir, &["job", "enqueue", "mail.send", "--db", "lineclear.db"]);
    let (mut server, _) = serve(&dir, &[]).await;
    let unknown = until(&dir, &ask, |run| run.out.contains("\tkinds\t")).await;
    assert_eq!(unknown.code, Some(10), "{}", unknown.out);
    assert!(
        unknown.out.contains("problem\tfailure\twork\tkinds\t1 job parked")
            && unknown.out.contains("mail.send"),
        "{}",
        unknown.out
    );
    // The server dies while it holds a job.
    server.kill().unwrap();
    server.wait_for_exit(Duration::from_secs(60)).await.unwrap();
    sql(
        &dir,
        "insert into background_job (id, origin, kind, route, priority, due_at, was_due_at, rank, gated, claim_no, failures, crashes, \
               created_at, leased_by) select 99, 'adhoc', 'x', 'main', 0, seen_at - 60000000, seen_at, 0, 0, 1, 0, 0, seen_at, id from node; \
               update node set seen_at = seen_at - 60000000",
    );
    let lost = at(&dir, &ask);
    assert_eq!(lost.code, Some(10), "{}", lost.out);
    assert!(
        lost.out.contains("\tlost\t") && lost.out.contains("holds 1 job") && lost.out.contains("\tleases\t"),
        "{}",
        lost.out
    );
}

#[tokio::test]
async fn status_works_on_postgres() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    let (_server, _) = serve(&dir, &["--db", database.url()]).await;
    let well = at(&dir, &["status", "--db", database.url()]);
    assert_eq!(well.code, Some(0), "{}{}", well.out, well.err);
}

#[test]
fn a_terminal_gets_one_screen_that_fits_in_any_locale() {
    let dir = tempfile::tempdir().unwrap();
    at(&dir, &["db", "migrate"]);
    let status = ["status", "--db", "lineclear.db"];
    let nice = on_a_terminal(&dir, &status, &[]).out;
    assert!(nice.contains("status          ✕ degraded") && nice.contains("  ! alive"), "{nice}");
    assert!(nice.contains("→ start one: lineclear serve"), "{nice}");
    assert!(nice.lines().all(|line| line.chars().count() <= 80), "{nice}");
    let plain = on_a_terminal(&dir, &status, &[("LC_ALL", "C")]).out;
    assert!(plain.contains("! degraded") && plain.is_ascii(), "{plain}");
    let line = format!("{} status --db lineclear.db | head -c 5", env!("CARGO_BIN_EXE_lineclear"));
    let cut = Command::new("bash")
        .args(["-c", &line])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&cut.stderr), "", "a pipe that closes early causes no panic");
}

#[tokio::test]
async fn lineclear_alone_prints_the_state_and_never_fails() {
    let dir = tempfile::tempdir().unwrap();
    // No server listens on this port.
    std::fs::write(dir.path().join("lineclear.toml"), "port = 9\n").unwrap();
    let unreachable = at(&dir, &[]);
    assert_eq!((unreachable.code, unreachable.err.as_str()), (Some(0), ""), "{}", unreachable.out);
    assert!(
        unreachable.out.contains("cannot reach http://127.0.0.1:9")
            && unreachable.out.contains("lineclear serve"),
        "{}",
        unreachable.out
    );
    assert_eq!(
        unreachable.out.lines().filter(|line| line.starts_with("  lineclear ")).count(),
        3,
        "{}",
        unreachable.out
    );
    std::fs::write(dir.path().join("lineclear.toml"), "prot = 9\n").unwrap();
    let bad = at(&dir, &[]);
    assert!(bad.code == Some(0) && bad.out.contains("prot"), "{}{}", bad.out, bad.err);
    std::fs::remove_file(dir.path().join("lineclear.toml")).unwrap();
    let (_server, address) = serve(&dir, &[]).await;
    let port = address.split(':').next_back().unwrap();
    std::fs::write(dir.path().join("lineclear.toml"), format!("port = {port}\n")).unwrap();
    let well = at(&dir, &[]);
    assert!(well.code == Some(0) && well.out.contains("healthy: 1 alive"), "{}{}", well.out, well.err);
    assert_eq!(at(&dir, &["nonsense"]).code, Some(2), "an unknown command is an error");
}
