//! Nodes, jobs and manifests.

use std::time::Duration;

use lineclear_testkit::fresh_postgres;

use super::{at, client, doctor, migrated, sql, until};
use crate::commands::serve::serve;

#[tokio::test]
async fn every_check_is_ok_through_the_server_and_the_database() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    super::with_free_port(&dir);
    let (_server, address) = serve(&dir, &["--commands", "/bin/true", "--db", database.url()]).await;
    let server = format!("http://{address}");
    at(
        &dir,
        &[
            "api",
            "PUT",
            "/manifests/often",
            "--server",
            &server,
            "--body",
            r#"{"kind": "command", "input": {"argv": ["/bin/true"]}, "schedule": {"every": "1s"}}"#,
        ],
    );
    let led = |report: &super::Report| report.text("leader", "message").contains("has led the planning");
    for way in [["--db", database.url()], ["--server", &server]] {
        let report = until(&dir, &way, led).await;
        assert_eq!((report.code, report.trouble()), (Some(0), vec![]), "{:#?}", report.checks);
        assert!(report.checks.values().all(|check| check["finding"] == "ok"), "{:#?}", report.checks);
        let ours = lineclear_model::doctor::CheckName::ALL.len();
        // Four are SQLite's; a server has three of its own machine that are not ours, and the other way has no second clock.
        let apart = if way[0] == "--db" { 4 + 1 } else { 4 + 2 };
        assert_eq!(report.checks.len(), ours - apart, "{:#?}", report.checks.keys());
    }
    let file = tempfile::tempdir().unwrap();
    super::with_free_port(&file);
    let (_other, _) = serve(&file, &[]).await;
    let report = doctor(&file, &[]);
    assert_eq!((report.code, report.trouble()), (Some(0), vec![]), "{:#?}", report.checks);
}

#[tokio::test]
async fn a_node_that_died_with_a_job_is_named() {
    let dir = migrated();
    let (mut server, _) = serve(&dir, &["--commands", "/bin/sleep"]).await;
    at(
        &dir,
        &[
            "job",
            "enqueue",
            "command",
            "--input",
            r#"{"argv": ["/bin/sleep", "1000"]}"#,
            "--db",
            "lineclear.db",
        ],
    );
    until(&dir, &[], |_| {
        at(&dir, &["job", "list", "-q", "state:running", "--db", "lineclear.db"]).out.lines().count() == 2
    })
    .await;
    server.kill().unwrap();
    server.wait_for_exit(Duration::from_secs(60)).await.unwrap();
    assert_eq!(doctor(&dir, &[]).finding("lost"), "ok", "its lease is not over yet");
    sql(
        &dir,
        "update node set seen_at = seen_at - 100000000; update background_job set due_at = due_at - 100000000",
    );
    let report = doctor(&dir, &[]);
    report.expect_check("alive", "failure", "no node is alive", "lineclear serve");
    report.expect_check("lost", "failure", "holds 1 job", "lineclear serve");
    report.expect_check("leases", "failure", "1 job with an expired lease", "lineclear serve");
}

#[tokio::test]
async fn a_kind_without_a_node_and_the_blocking_gate_are_named() {
    let dir = migrated();
    let (_server, _) = serve(&dir, &["--commands", "/bin/true"]).await;
    at(&dir, &["job", "enqueue", "mail.send", "--db", "lineclear.db"]);
    let report = until(&dir, &[], |report| report.finding("kinds") == "failure").await;
    report.expect_check("kinds", "failure", "mail.send", "start a node");
    sql(&dir, "update work_queue set due_at = due_at - 100000000");
    let report = doctor(&dir, &[]);
    report.expect_check("overdue", "failure", "`node` blocks 1 of the 1", "lineclear job explain 1");
    at(&dir, &["api", "PUT", "/groups/etl", "--body", r#"{"limit": 0}"#, "--db", "lineclear.db"]);
    for _ in 0..3 {
        at(
            &dir,
            &[
                "api",
                "POST",
                "/jobs",
                "--body",
                r#"{"kind": "command", "input": {"argv": ["/bin/true"]}, "group": "etl"}"#,
                "--db",
                "lineclear.db",
            ],
        );
    }
    sql(&dir, "update work_queue set due_at = due_at - 100000000");
    doctor(&dir, &[]).expect_check("overdue", "failure", "`group_limit` blocks 3 of the 4", "start a node");
    sql(&dir, "delete from work_queue where kind = 'mail.send'");
    doctor(&dir, &[]).expect_check("overdue", "warning", "`group_limit` blocks 3 of the 3", "limit");
}

#[tokio::test]
async fn problems_of_versions_clocks_and_runners_are_named() {
    let dir = migrated();
    let (_server, _) = serve(&dir, &[]).await;
    assert_eq!(doctor(&dir, &[]).trouble(), Vec::<&str>::new());
    sql(&dir, "insert into node (name, host, pid, incarnation, version, roles, routes, slots, runners, started_at, seen_at)
               select 'old', host, pid, 'old', '0.0.9', roles, routes, slots, '{\"planner\": {\"error\": \"no room\"}}', started_at, seen_at from node");
    let report = doctor(&dir, &[]);
    report.expect_check("versions", "warning", "0.0.9", "upgrade");
    report.expect_check("runners", "warning", "planner of old: no room", "log");
    sql(&dir, "update node set seen_at = seen_at + 3600000000 where name = 'old'");
    doctor(&dir, &[]).expect_check("clock", "failure", "has gone back: old was last seen 3", "clock");
}

#[tokio::test]
async fn manifests_that_make_no_jobs_are_named() {
    let dir = migrated();
    let put = |key: &str, schedule: &str| {
        let body = format!(r#"{{"kind": "x", "schedule": {schedule}}}"#);
        let run =
            at(&dir, &["api", "PUT", &format!("/manifests/{key}"), "--body", &body, "--db", "lineclear.db"]);
        assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    };
    put("well", r#"{"every": "1d"}"#);
    put("over", r#"{"every": "1d", "end": "2020-01-01T00:00:00Z"}"#);
    put("broken", r#"{"every": "1d"}"#);
    put("once", r#"{"once": "2020-01-01T00:00:00Z"}"#);
    put("february", r#"{"cron": "0 0 29 2 *"}"#);
    // No year has such a day: the server refuses it, so the test writes it into the database.
    sql(&dir, "update manifest set spec = replace(spec, '29 2', '30 2') where key = 'february'");
    sql(&dir, "update manifest set spec = '{\"schedule\": 7}' where key = 'broken'");
    let report = doctor(&dir, &[]);
    report.expect_check("never", "warning", "1 manifest", "lineclear manifest delete");
    assert!(
        report.text("never", "message").ends_with("over (every 1d until 2020-01-01T00:00:00Z)"),
        "{:#?}",
        report.checks
    );
    report.expect_check("unreadable", "failure", "broken (", "lineclear manifest apply");
    report.expect_check("unreadable", "failure", "february (", "lineclear manifest apply");
    report.expect_check("leader", "failure", "no live node plans", "lineclear serve");
    sql(&dir, "update manifest set next_due_at = next_due_at - 2 * 86400000000 where key = 'well'");
    doctor(&dir, &[]).expect_check("late", "failure", "2 manifests were due", "planner");
}

#[tokio::test]
async fn dead_letters_await_a_decision() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    super::with_free_port(&dir);
    let url = ["--db", database.url()];
    let (_server, _) = serve(&dir, &["--commands", "/bin/true", "--db", database.url()]).await;
    let input = r#"{"argv": ["/bin/no"]}"#;
    at(&dir, &["job", "enqueue", "command", "--input", input, "--retries", "0", "--wait", url[0], url[1]]);
    client(database.url())
        .await
        .batch_execute("update lineclear.dead_letter set dead_at = dead_at - interval '3 days'")
        .await
        .unwrap();
    let report = doctor(&dir, &url);
    report.expect_check(
        "dead_letters",
        "warning",
        "1 dead letter waits for a person, the oldest for 3d",
        "lineclear dead families",
    );
    assert_eq!(report.code, Some(0), "a warning is no failure");
}
