//! Migrations of tables that applications hold.

use std::time::{Duration, Instant};

use lineclear_testkit::{Child, fresh_postgres};
use tempfile::TempDir;

use super::{LONG, Later, client, pid};
use crate::commands::serve::{ask, serve};
use crate::run::at;

/// Takes a lock that nothing but a change of the table waits for, and keeps it.
async fn reads_and_stays(url: &str) -> (tokio_postgres::Client, i32) {
    let reader = client(url, "accounting").await;
    reader.batch_execute("begin; select count(*) from lineclear.work_queue").await.unwrap();
    let pid = pid(&reader).await;
    (reader, pid)
}

fn adds_a_column() -> Later {
    Later::with(&[("9001_note", "alter table {schema}.work_queue add column later_note text;")])
}

fn migrate(later: &Later, dir: &TempDir, args: &[&str]) -> Child {
    later.program(dir, &[&["db", "migrate"], args].concat()).start().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_waits_for_an_open_transaction_in_short_tries_and_callers_go_on() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    let db = ["--db", database.url()];
    let (mut server, address) = serve(&dir, &db).await;
    let (reader, reader_pid) = reads_and_stays(database.url()).await;
    let later = adds_a_column();
    let mut migrating = migrate(&later, &dir, &db);
    let line = migrating.wait_for_line("waiting  9001_note", LONG).await.unwrap();
    // Four tries and more, in which every caller is served.
    let (mut served, begun) = (0, Instant::now());
    while migrating.stderr().len() < 5 {
        let answer = ask(&address, "POST /api/v1/jobs", r#"{"kind": "mail.send", "in_ms": 3600000}"#);
        assert!(answer.starts_with("HTTP/1.1 201"), "after {served}: {answer}");
        served += 1;
        assert!(begun.elapsed() < LONG, "it does not try again: {:#?}", migrating.stderr());
        // Callers need not take a whole core.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The first report may come before the blocker was looked for.
    let named = migrating.wait_for_line("blocked by session", LONG).await.unwrap();
    assert!(
        named.contains(&format!("session {reader_pid} (accounting, role "))
            && named.contains("in a transaction for"),
        "{line} {named}"
    );
    reader.batch_execute("commit").await.unwrap();
    assert!(migrating.wait_for_exit(LONG).await.unwrap().success());
    assert!(migrating.stdout().join("\n").contains("applied  9001_note"));
    server.terminate().unwrap();
    assert!(server.wait_for_exit(LONG).await.unwrap().success());
    assert!(!server.stderr().join("\n").contains("ERROR"), "{:#?}", server.stderr());
}

async fn names_who_blocks(migrating: &str, past: &str) {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &["db", "migrate", "--db", migrating]).code, Some(0));
    let (_reader, reader_pid) = reads_and_stays(past).await;
    let later = adds_a_column();
    let mut child = migrate(&later, &dir, &["--db", migrating, "--lock-wait", "3s"]);
    assert_eq!(child.wait_for_exit(LONG).await.unwrap().code(), Some(5));
    let said = child.stderr().join("\n");
    for words in [
        "error: ",
        "migration 9001_note",
        &format!("session {reader_pid} (accounting"),
        "pg_terminate_backend",
        "lineclear db migrate",
    ] {
        assert!(said.lines().last().unwrap().contains(words), "{words}: {said}");
    }
    let status = later.run(&dir, &["db", "status", "--db", migrating]);
    assert!(status.out.contains("pending  9001_note"), "nothing was changed: {}", status.out);
}

#[tokio::test]
async fn a_migration_that_gets_no_lock_names_the_session_that_holds_it() {
    let database = fresh_postgres().await;
    names_who_blocks(database.url(), database.url()).await;
}

#[tokio::test]
async fn a_migration_that_gets_no_lock_through_pgbouncer_names_the_session_that_holds_it() {
    let database = fresh_postgres().await;
    names_who_blocks(&format!("{}?pooler=transaction", database.pgbouncer_url()), database.url()).await;
}
