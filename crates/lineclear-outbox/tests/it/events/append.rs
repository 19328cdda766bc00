//! Appending and reading.

use std::time::Duration;

use lineclear_outbox::{EventLog, ExpectedVersion, Filter, NewEvent, OutboxError};
use serde_json::json;

use super::kit::{ANY, append, append_or, event, log, number};
use crate::kit::{SOON, TestStore};

pub(crate) async fn an_event_has_all_that_was_appended(db: &TestStore) {
    let log = log(db).await;
    let payload = json!({"n": 7, "text": "ä \u{1F682} \"\\"});
    let written = NewEvent::new("order.placed", &payload).unwrap();
    let written = written.header("tenant", "acme \"x\"").trace("00-ab-cd-01");
    let appended = append_or(db, &log, ("Order-7", ANY), &[written, event(8)], true).await.unwrap();
    assert_eq!((appended.version, appended.positions.len()), (2, 2));
    assert!(appended.positions[0] < appended.positions[1]);
    append(db, &log, "order-7", 9..10).await;

    let all = log.read(0, &Filter::all(), 100).await.unwrap();
    assert_eq!(all.iter().map(number).collect::<Vec<_>>(), [7, 8, 9]);
    let first = &all[0];
    assert_eq!(
        (first.position, &*first.stream, first.version, &*first.kind, first.trace.as_deref()),
        (appended.positions[0], "Order-7", 1, "order.placed", Some("00-ab-cd-01"))
    );
    assert_eq!(first.headers.get("tenant").map(String::as_str), Some("acme \"x\""));
    assert_eq!(first.payload::<serde_json::Value>().unwrap(), payload);
    assert!(first.created_at.elapsed().unwrap_or_default() < SOON);
    assert!(!first.id.is_nil() && first.id != all[1].id);
    assert_eq!(all[2].version, 1, "streams differ by case");
    assert_eq!(log.read_stream("Order-7", 1, 100).await.unwrap(), [all[1].clone()]);
    assert_eq!(log.read(all[0].position, &Filter::all(), 1).await.unwrap(), [all[1].clone()]);
    assert_eq!(log.head().await.unwrap(), all[2].position);
    assert!(log.holders().await.unwrap().is_empty());
}

pub(crate) async fn what_is_rolled_back_is_not_in_the_log(db: &TestStore) {
    let log = log(db).await;
    append_or(db, &log, ("a", ANY), &[event(1), event(2)], false).await.unwrap();
    let appended = append(db, &log, "a", 3..4).await;
    assert_eq!(appended.version, 1);
    let all = log.read(0, &Filter::all(), 100).await.unwrap();
    assert_eq!(all.iter().map(number).collect::<Vec<_>>(), [3]);
}

pub(crate) async fn a_stream_at_another_version_is_a_conflict(db: &TestStore) {
    let log = log(db).await;
    let try_at = async |expected| append_or(db, &log, ("a", expected), &[event(1), event(2)], true).await;
    let refused = try_at(ExpectedVersion::At(3)).await.unwrap_err();
    assert!(matches!(&refused, OutboxError::Conflict { expected: 3, actual: 0, .. }), "{refused}");
    assert_eq!(try_at(ExpectedVersion::NoStream).await.unwrap().version, 2);
    let refused = try_at(ExpectedVersion::NoStream).await.unwrap_err();
    assert!(matches!(&refused, OutboxError::Conflict { expected: 0, actual: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("stream \"a\" is at version 2, not 0"), "{refused}");
    assert_eq!(try_at(ExpectedVersion::At(2)).await.unwrap().version, 4);
    let refused = try_at(ExpectedVersion::At(2)).await.unwrap_err();
    assert!(matches!(refused, OutboxError::Conflict { actual: 4, .. }), "{refused}");
    assert_eq!(log.read_stream("a", 0, 100).await.unwrap().len(), 4, "a conflict writes nothing");
}

pub(crate) async fn bad_events_are_refused_before_anything_is_written(db: &TestStore) {
    let log = log(db).await;
    let bad = [
        NewEvent::new("", &1).unwrap(),
        NewEvent::new("a\0", &1).unwrap(),
        event(2).trace("x".repeat(300)),
        NewEvent::new("a", &"x".repeat(1024 * 1024)).unwrap(),
        event(2).header("a", "x".repeat(64 * 1024)),
    ];
    for bad in bad {
        let refused = append_or(db, &log, ("a", ANY), &[event(1), bad], true).await.unwrap_err();
        assert!(matches!(refused, OutboxError::Refused { .. }), "{refused}");
    }
    for (stream, expected, events) in [
        ("", ANY, vec![event(1)]),
        ("a", ExpectedVersion::At(-1), vec![event(1)]),
        ("a", ANY, vec![]),
        ("a", ANY, vec![event(1); 10_001]),
    ] {
        let refused = append_or(db, &log, (stream, expected), &events, true).await.unwrap_err();
        assert!(matches!(refused, OutboxError::Refused { .. }), "{refused}");
    }
    assert_eq!(db.number("select count(*) from {t}event").await, 0);
    let refused = EventLog::open("mysql://root@127.0.0.1/shop").await.unwrap_err().to_string();
    assert!(refused.contains("an event log needs PostgreSQL or SQLite"), "{refused}");
    assert!(EventLog::open("sqlite::memory:").await.is_err());
}

/// A transaction of SQLite is deferred unless its program says otherwise: reading first, it would fail at once beside another writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_in_a_deferred_transaction_waits_for_another_writer() {
    let db = TestStore::sqlite();
    let log = log(&db).await;
    let path = db.url.strip_prefix("sqlite:").unwrap();
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let mut file = rusqlite::Connection::open(path).unwrap();
    file.busy_timeout(SOON).unwrap();
    let writer = tokio::task::spawn_blocking(move || {
        let transaction = file.transaction().unwrap();
        let appended = log.append_sqlite(&transaction, "a", ANY, &[event(1)]).unwrap();
        transaction.commit().unwrap();
        appended
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!writer.is_finished());
    other.execute_batch("commit").unwrap();
    assert_eq!(writer.await.unwrap().version, 1);
}

/// Eight writers read the version, and append if it is still the same: each success has a version of its own.
pub(crate) async fn writers_that_expect_a_version_take_turns(db: &TestStore) {
    let log = log(db).await;
    let write = async || {
        let mut conflicts = 0;
        for _ in 0..10 {
            loop {
                let version = log.read_stream("a", 0, 1_000).await.unwrap().len();
                let expected = ExpectedVersion::At(i64::try_from(version).unwrap());
                match append_or(db, &log, ("a", expected), &[event(1)], true).await {
                    Ok(_) => break,
                    Err(OutboxError::Conflict { .. }) => conflicts += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        conflicts
    };
    let conflicts = tokio::join!(write(), write(), write(), write());
    println!("conflicts: {conflicts:?}");
    let all = log.read_stream("a", 0, 1_000).await.unwrap();
    assert_eq!(all.iter().map(|event| event.version).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    assert!(all.is_sorted_by_key(|event| event.position));
}
