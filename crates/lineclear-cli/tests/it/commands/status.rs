//! `lineclear status`, and `lineclear` alone.

use std::process::{Command, Stdio};
use std::time::Duration;

use lineclear_testkit::fresh_postgres;
use tempfile::TempDir;

use crate::commands::serve::serve;
use crate::run::{Run, at, on_a_terminal};

/// Changes the file behind everybody's back.
fn sql(dir: &TempDir, sql: &str) {
    let file = rusqlite::Connection::open(dir.path().join("lineclear.db")).unwrap();
    file.busy_timeout(Duration::from_secs(10)).unwrap();
    file.execute_batch(sql).unwrap();
}

/// Asks until it says so.
async fn until(dir: &TempDir, args: &[&str], is: impl Fn(&Run) -> bool) -> Run {
    for _ in 0..200 {
        let run = at(dir, args);
        if is(&run) {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let run = at(dir, args);
    panic!("in vain: {:?}\n{}{}", run.code, run.out, run.err)
}

#[tokio::test]
async fn a_server_that_is_well_says_so_by_both_ways() {
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
        assert_eq!(names(&read(&json.out)), names(&read(&api.out)), "the API's own answer");
        assert_eq!(read(&json.out)["healthy"], true);
    }
    // A node that plans leads, and says so with its next heartbeat.
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
async fn work_that_nobody_does_is_degraded_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &["db", "migrate"]).code, Some(0));
    let ask = ["status", "--db", "lineclear.db"];
    let nobody = at(&dir, &ask);
    assert_eq!(nobody.code, Some(10), "{}", nobody.out);
    assert!(
        nobody.out.contains("status\tdegraded\n") && nobody.out.contains("none was ever started"),
        "{}",
        nobody.out
    );
    assert!(nobody.out.contains("lineclear serve"), "{}", nobody.out);
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
    // It dies with a job in its hands.
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
        lost.out.contains("\tlost\t")
            && lost.out.contains("1 job in its hands")
            && lost.out.contains("\tleases\t"),
        "{}",
        lost.out
    );
}

#[tokio::test]
async fn it_looks_at_postgres_too() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    let (_server, _) = serve(&dir, &["--db", database.url()]).await;
    let well = at(&dir, &["status", "--db", database.url()]);
    assert_eq!(well.code, Some(0), "{}{}", well.out, well.err);
}

#[test]
fn a_person_sees_one_screen_that_fits_in_any_locale() {
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
    assert_eq!(String::from_utf8_lossy(&cut.stderr), "", "who closes the pipe early hears no panic");
}

#[tokio::test]
async fn a_bare_word_says_what_there_is_and_is_never_an_error() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody listens on this port.
    std::fs::write(dir.path().join("lineclear.toml"), "port = 9\n").unwrap();
    let nobody = at(&dir, &[]);
    assert_eq!((nobody.code, nobody.err.as_str()), (Some(0), ""), "{}", nobody.out);
    assert!(
        nobody.out.contains("cannot reach http://127.0.0.1:9") && nobody.out.contains("lineclear serve"),
        "{}",
        nobody.out
    );
    assert_eq!(
        nobody.out.lines().filter(|line| line.starts_with("  lineclear ")).count(),
        3,
        "{}",
        nobody.out
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
    assert_eq!(at(&dir, &["nonsense"]).code, Some(2), "what is no command stays an error");
}
