//! PostgreSQL only: positions are drawn before transactions commit, and no subscription may skip one. In SQLite there is one writer at a time.

use std::process::Command;

use lineclear_outbox::{EventLog, Filter, OutboxError, Subscription};
use tokio_postgres::Client;

use super::kit::{ANY, Projection, append, caught_up, effects, event, log, number, quick};
use crate::kit::{TestStore, connect_postgres, until};

/// A transaction that has appended one event, and is open.
async fn open_append(db: &TestStore, log: &EventLog, stream: &str, number: i64) -> Client {
    let client = connect_postgres(&db.url).await;
    client.batch_execute("begin; set application_name = 'a slow writer'").await.unwrap();
    log.append_postgres(&client, stream, ANY, &[event(number)]).await.unwrap();
    client
}

async fn subscribed(db: &TestStore, log: &EventLog) -> (Projection, Subscription) {
    let projection = Projection::default();
    let running = projection.subscribe(log, db, "orders", quick()).await;
    let prepared = "select count(*) from pg_class where relname = 'effect_1'";
    until("it has prepared its table", async || db.number(prepared).await == 1).await;
    (projection, running)
}

/// Waits until the subscription is behind, and says for whom it waits.
async fn waits(log: &EventLog) -> lineclear_outbox::Holder {
    until("it is behind", async || !log.show("orders").await.unwrap().unwrap().waits_for.is_empty()).await;
    let seen = log.show("orders").await.unwrap().unwrap();
    assert!(seen.lag_events > 0, "{seen:?}");
    seen.waits_for[0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fence_an_event_is_skipped() {
    let db = TestStore::postgres().await;
    let log = log(&db).await;
    // What this crate does is undone by the test, to show what it is for.
    db.sql("alter table {t}event disable trigger event_fence").await;
    let (_, running) = subscribed(&db, &log).await;
    let late = open_append(&db, &log, "a", 1).await;
    append(&db, &log, "b", 2..3).await;
    caught_up(&log, "orders").await;
    late.batch_execute("commit").await.unwrap();
    append(&db, &log, "b", 3..4).await;
    caught_up(&log, "orders").await;
    assert_eq!(log.read(0, &Filter::all(), 10).await.unwrap().len(), 3);
    // Of the others, too, those whose numbers were seen before their commits.
    assert!(!effects(&db, 1).await.contains(&1), "it is lost");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_fence_a_late_event_is_waited_for_and_its_writer_is_named() {
    for db in [TestStore::postgres().await, TestStore::pgbouncer().await] {
        let log = log(&db).await;
        let (_, running) = subscribed(&db, &log).await;
        let late = open_append(&db, &log, "a", 1).await;
        append(&db, &log, "b", 2..3).await;
        let holder = waits(&log).await;
        assert_eq!(holder.application.as_deref(), Some("a slow writer"), "{holder}");
        assert_eq!(holder.state.as_deref(), Some("idle in transaction"));
        assert!(holder.pid.is_some() && holder.open.is_some() && holder.prepared.is_none());
        assert!(holder.to_string().starts_with("session "), "{holder}");
        assert!(effects(&db, 1).await.is_empty());
        late.batch_execute("commit").await.unwrap();
        caught_up(&log, "orders").await;
        assert_eq!(effects(&db, 1).await, [1, 2], "in order");
        running.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn burnt_positions_are_passed_at_once() {
    let db = TestStore::postgres().await;
    let log = log(&db).await;
    let (_, running) = subscribed(&db, &log).await;
    let burnt = open_append(&db, &log, "a", 1).await;
    append(&db, &log, "b", 2..3).await;
    waits(&log).await;
    burnt.batch_execute("rollback").await.unwrap();
    caught_up(&log, "orders").await;
    assert_eq!(effects(&db, 1).await, [2]);
    // A part of a transaction that is rolled back, too.
    let part = connect_postgres(&db.url).await;
    part.batch_execute("begin; savepoint a").await.unwrap();
    log.append_postgres(&part, "a", ANY, &[event(3)]).await.unwrap();
    part.batch_execute("rollback to a").await.unwrap();
    append(&db, &log, "b", 4..5).await;
    caught_up(&log, "orders").await;
    assert_eq!(effects(&db, 1).await, [2, 4]);
    part.batch_execute("commit").await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_other_tables_holds_up_nothing() {
    let db = TestStore::postgres().await;
    let log = log(&db).await;
    let (_, running) = subscribed(&db, &log).await;
    let other = connect_postgres(&db.url).await;
    other.batch_execute("create table other (n int); begin; insert into other values (1)").await.unwrap();
    let reader = connect_postgres(&db.url).await;
    reader
        .batch_execute("begin isolation level repeatable read; select count(*) from lineclear.event")
        .await
        .unwrap();
    append(&db, &log, "a", 1..4).await;
    caught_up(&log, "orders").await;
    assert_eq!(effects(&db, 1).await, [1, 2, 3]);
    other.batch_execute("commit").await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_append_is_waited_for() {
    let db = TestStore::postgres().await;
    let log = log(&db).await;
    let (_, running) = subscribed(&db, &log).await;
    let late = open_append(&db, &log, "a", 1).await;
    append(&db, &log, "b", 2..3).await;
    assert!(waits(&log).await.pid.is_some());
    let name = format!("late-{}", uuid::Uuid::new_v4());
    late.batch_execute(&format!("prepare transaction '{name}'")).await.unwrap();
    append(&db, &log, "c", 3..4).await;
    until("it waits for the prepared one", async || {
        let seen = log.show("orders").await.unwrap().unwrap();
        seen.waits_for.first().is_some_and(|holder| holder.prepared.as_deref() == Some(&*name))
    })
    .await;
    let holder = waits(&log).await;
    assert!(holder.pid.is_none() && holder.to_string().contains(&name), "{holder}");
    assert!(effects(&db, 1).await.is_empty());
    // A node that starts now knows nothing of what was before.
    running.stop().await.unwrap();
    let (_, running) = subscribed(&db, &log).await;
    append(&db, &log, "c", 4..5).await;
    waits(&log).await;
    late.batch_execute(&format!("commit prepared '{name}'")).await.unwrap();
    caught_up(&log, "orders").await;
    assert_eq!(effects(&db, 1).await, [1, 2, 3, 4]);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_inserted_without_the_function_are_fenced_too() {
    let db = TestStore::postgres().await;
    let log = log(&db).await;
    let (_, running) = subscribed(&db, &log).await;
    let late = connect_postgres(&db.url).await;
    late.batch_execute(
        "begin; insert into lineclear.event (stream, version, type, payload) values ('a', 1, 'order.placed', '{\"n\": 1}')",
    )
    .await
    .unwrap();
    append(&db, &log, "b", 2..3).await;
    waits(&log).await;
    late.batch_execute("commit").await.unwrap();
    caught_up(&log, "orders").await;
    assert_eq!(effects(&db, 1).await, [1, 2]);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_of_sql_has_a_code_of_its_own_and_one_of_rust_leaves_the_transaction_usable() {
    let db = TestStore::postgres().await;
    let log = log(&db).await;
    let client = connect_postgres(&db.url).await;
    let append = "select lineclear.event_append('a', 'order.placed', '{\"n\": 1}', expected_version => 0)";
    client.batch_execute(append).await.unwrap();
    let refused = client.batch_execute(append).await.unwrap_err();
    let refused = refused.as_db_error().unwrap();
    assert_eq!((refused.code().code(), refused.message()), ("LC409", "stream a is at version 1, not 0"));
    client.batch_execute("begin").await.unwrap();
    let expected = lineclear_outbox::ExpectedVersion::NoStream;
    let conflict = log.append_postgres(&client, "a", expected, &[event(2)]).await.unwrap_err();
    assert!(matches!(conflict, OutboxError::Conflict { actual: 1, .. }), "{conflict}");
    log.append_postgres(&client, "a", ANY, &[event(2)]).await.unwrap();
    client.batch_execute("commit").await.unwrap();
    assert_eq!(log.read_stream("a", 0, 10).await.unwrap().iter().map(number).collect::<Vec<_>>(), [1, 2]);
}

/// A program of PostgreSQL: in the path, or where Debian has it.
fn program(name: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|entry| entry.path().join("bin").join(name)).filter(|path| path.exists()).max();
    Command::new(newest.unwrap_or_else(|| name.into()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_goes_on_in_another_cluster() {
    let db = TestStore::postgres().await;
    let log = log(&db).await;
    let (_, running) = subscribed(&db, &log).await;
    append(&db, &log, "a", 0..5).await;
    caught_up(&log, "orders").await;
    running.stop().await.unwrap();
    append(&db, &log, "a", 5..7).await;
    let xids = "select count(*) from information_schema.columns where table_schema = 'lineclear' and udt_name in ('xid', 'xid8')
                and (table_name like 'event%' or table_name like 'subscription%')";
    assert_eq!(db.number(xids).await, 0);

    let restored = TestStore::postgres().await;
    let dump = program("pg_dump").args(["--no-owner", &db.url]).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &dump.stdout).unwrap();
    let restore = program("psql")
        .args(["--set", "ON_ERROR_STOP=1", "--file"])
        .arg(file.path())
        .arg(&restored.url)
        .output()
        .unwrap();
    assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    let log = EventLog::open(&restored.url).await.unwrap();
    let (_, running) = subscribed(&restored, &log).await;
    let late = open_append(&restored, &log, "b", 7).await;
    append(&restored, &log, "c", 8..9).await;
    waits(&log).await;
    late.batch_execute("commit").await.unwrap();
    caught_up(&log, "orders").await;
    assert_eq!(effects(&restored, 1).await, (0..9).collect::<Vec<_>>());
    running.stop().await.unwrap();
}
