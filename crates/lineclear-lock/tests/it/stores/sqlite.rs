//! Locks in a SQLite file.

use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::{LockOptions, Locks, Sqlite, sqlite};

use crate::kit::{Place, SOON, quick};

#[tokio::test]
async fn a_stale_holder_s_transaction_cannot_commit() {
    let place = Place::sqlite();
    let path = place.url.clone().unwrap().trim_start_matches("sqlite:").to_owned();
    let locks = place.locks().await;
    let mut file = rusqlite::Connection::open(&path).unwrap();
    file.busy_timeout(SOON).unwrap();
    file.execute_batch("create table effect (epoch integer not null)").unwrap();

    let held = locks.try_lock("report").await.unwrap().unwrap();
    let stale = held.fence().clone();
    let transaction = file.transaction().unwrap();
    assert!(sqlite::fence(&transaction, &stale).unwrap());
    transaction.execute("insert into effect values (?1)", [stale.epoch.get()]).unwrap();

    // While the transaction is open, the lock cannot be taken, even after it was dropped.
    drop(held);
    let waiting = tokio::spawn({
        let locks = place.locks().await;
        async move { locks.acquire("report", SOON).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "the open transaction is in the way");
    transaction.commit().unwrap();
    let next = waiting.await.unwrap().unwrap().unwrap();
    assert!(next.epoch() > stale.epoch);

    let transaction = file.transaction().unwrap();
    assert!(!sqlite::fence(&transaction, &stale).unwrap(), "its epoch is over");
    assert!(sqlite::fence(&transaction, next.fence()).unwrap());
    transaction.rollback().unwrap();
}

#[tokio::test]
async fn epochs_are_kept_when_every_process_has_ended() {
    let place = Place::sqlite();
    let path = place.url.clone().unwrap().trim_start_matches("sqlite:").to_owned();
    let mut last = 0;
    for _ in 0..3 {
        let locks = Locks::new(Arc::new(Sqlite::new(&path)), quick()).await.unwrap();
        let held = locks.try_lock("report").await.unwrap().unwrap();
        assert!(held.epoch().get() > last);
        last = held.epoch().get();
        held.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_long_write_to_the_file_is_not_reported_as_busy_and_a_late_grant_is_undone() {
    let place = Place::sqlite();
    let path = place.url.clone().unwrap().trim_start_matches("sqlite:").to_owned();
    // So long that no lock expires within the test.
    let options = LockOptions {
        request_timeout: Duration::from_millis(300),
        release_timeout: SOON,
        ..LockOptions::with_ttl(Duration::from_secs(600))
    };
    let (one, other) =
        (Locks::new(Arc::new(Sqlite::new(&path)), options).await.unwrap(), place.locks().await);
    let writer = rusqlite::Connection::open(&path).unwrap();
    writer.execute_batch("begin immediate").unwrap();
    let error = one.try_lock("report").await.unwrap_err();
    assert!(error.is_unavailable(), "it is not held, but the store could not tell: {error}");
    writer.execute_batch("rollback").unwrap();
    // The store grants the lock now, after the caller gave up; the grant is released.
    one.flush().await;
    assert!(other.try_lock("report").await.unwrap().is_some());
}
