//! Indexes that are built while others write.

use lineclear_testkit::fresh_postgres;

use super::{LONG, Later, client};
use crate::run::at;

fn adds_an_index() -> Later {
    Later::with(&[(
        "9001_execution_later",
        "-- built concurrently\ncreate index concurrently execution_later on {schema}.execution (kind, job_id);",
    )])
}

/// Whether the index is valid; `None` if it is not there.
async fn is_valid(url: &str) -> Option<bool> {
    let sql = "select indisvalid from pg_index where indexrelid = to_regclass('lineclear.execution_later')";
    client(url, "test").await.query_opt(sql, &[]).await.unwrap().map(|row| row.get(0))
}

async fn is_built_while_others_write(migrating: &str, past: &str) {
    let dir = tempfile::tempdir().unwrap();
    let db = ["--db", migrating];
    assert_eq!(at(&dir, &["db", "migrate", "--db", migrating]).code, Some(0));
    // What a build that was interrupted leaves.
    let other = client(past, "test").await;
    let invalid = "create index execution_later on lineclear.execution (job_id);
                   update pg_index set indisvalid = false where indexrelid = 'lineclear.execution_later'::regclass";
    other.batch_execute(invalid).await.unwrap();
    // The build waits for it, because it could see rows that the index lacks.
    let old = client(past, "reports").await;
    old.batch_execute("begin isolation level repeatable read; select count(*) from lineclear.execution")
        .await
        .unwrap();
    let later = adds_an_index();
    let start = || later.program(&dir, &[&["db", "migrate"], &db[..]].concat()).start().unwrap();
    let mut first = start();
    until_it_builds(&other).await;
    let mut second = start();
    second.wait_for_line("waiting  for another process that migrates", LONG).await.unwrap();
    other
        .batch_execute("set lock_timeout = '1s'; delete from lineclear.execution where job_id = 1")
        .await
        .expect("writers go on");
    assert_ne!(is_valid(past).await, Some(true), "it waits");
    old.batch_execute("commit").await.unwrap();
    for child in [&mut first, &mut second] {
        assert!(child.wait_for_exit(LONG).await.unwrap().success(), "{:#?}", child.stderr());
    }
    let applied = [first.stdout(), second.stdout()].concat().join("\n");
    assert_eq!(applied.matches("applied  9001_execution_later").count(), 1, "{applied}");
    assert_eq!(is_valid(past).await, Some(true));
    let definition =
        other.query_one("select pg_get_indexdef('lineclear.execution_later'::regclass)", &[]).await.unwrap();
    assert!(definition.get::<_, String>(0).contains("(kind, job_id)"), "the invalid one is gone");
}

/// A session drops or builds the index.
async fn until_it_builds(client: &tokio_postgres::Client) {
    let deadline = std::time::Instant::now() + LONG;
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and query like '%index concurrently%' \
               and pid <> pg_backend_pid() and state = 'active'";
    while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(std::time::Instant::now() < deadline, "no session builds the index");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_index_is_built_while_others_write_and_an_invalid_one_is_built_anew() {
    let database = fresh_postgres().await;
    is_built_while_others_write(database.url(), database.url()).await;
}

#[tokio::test]
async fn an_index_is_built_while_others_write_through_pgbouncer() {
    let database = fresh_postgres().await;
    is_built_while_others_write(&format!("{}?pooler=transaction", database.pgbouncer_url()), database.url())
        .await;
}

#[tokio::test]
async fn a_new_database_gets_its_indexes_with_its_tables() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    let run = adds_an_index().run(&dir, &["db", "migrate", "--db", database.url()]);
    assert!(
        run.code == Some(0) && run.out.contains("applied  9001_execution_later"),
        "{}{}",
        run.out,
        run.err
    );
    assert_eq!(is_valid(database.url()).await, Some(true));
}
