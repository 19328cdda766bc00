//! A network that fails: the caller gets the right error, and nothing is left half-done.

use std::time::{Duration, Instant};

use lineclear::Store;
use lineclear::store::{StoreError, StoreOptions, UniqueKey};
use lineclear_testkit::{PostgresDatabase, Proxy};

use crate::kit::{job, migrated};

const SHORT: Duration = Duration::from_millis(500);

async fn behind_a_proxy() -> (Store, Proxy, PostgresDatabase) {
    let database = migrated().await;
    let proxy = Proxy::to_url(database.url()).await.unwrap();
    let options = StoreOptions::new(&proxy.url_for(database.url())).unwrap().connections(2).deadline(SHORT);
    (Store::open(options).await.unwrap(), proxy, database)
}

fn maybe_applied(error: StoreError) -> bool {
    match error {
        StoreError::Unavailable { maybe_applied, .. } => maybe_applied,
        other => panic!("{other}"),
    }
}

async fn jobs(store: &Store) -> usize {
    store.jobs(&Default::default(), None, 100).await.unwrap().items.len()
}

#[tokio::test]
async fn a_cut_is_told_and_the_next_call_after_it_works() {
    let (store, proxy, _database) = behind_a_proxy().await;
    store.enqueue(job()).await.unwrap();
    proxy.cut().await;
    assert!(matches!(store.enqueue(job()).await, Err(StoreError::Unavailable { .. })));
    proxy.heal();
    store.enqueue(job()).await.unwrap();
    assert_eq!(jobs(&store).await, 2);
}

#[tokio::test]
async fn a_silent_server_does_not_hold_the_caller() {
    let (store, proxy, _database) = behind_a_proxy().await;
    store.enqueue(job()).await.unwrap();
    proxy.silence();
    let begun = Instant::now();
    let one_statement = store.enqueue(job()).await.unwrap_err();
    assert!(maybe_applied(one_statement), "it was sent, and may be applied");
    assert!(begun.elapsed() < SHORT * 20, "{:?}", begun.elapsed());
    proxy.heal();
    store.enqueue(job()).await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_was_not_committed_is_known_not_to_have_happened() {
    let (store, proxy, _database) = behind_a_proxy().await;
    let keyed = || {
        let unique_key = Some(UniqueKey::new("k"));
        lineclear::store::NewJob { unique_key, ..job() }
    };
    store.enqueue(job()).await.unwrap();
    proxy.silence();
    assert!(!maybe_applied(store.enqueue(keyed()).await.unwrap_err()), "no COMMIT was sent");
    proxy.heal();
    assert!(!store.enqueue(keyed()).await.unwrap().existing());
    assert_eq!(jobs(&store).await, 2);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_no_transaction_open() {
    let (store, proxy, database) = behind_a_proxy().await;
    proxy.delay(Duration::from_millis(50));
    for _ in 0..5 {
        let keyed = UniqueKey::new("k");
        let enqueue = store.enqueue(lineclear::store::NewJob { unique_key: Some(keyed), ..job() });
        // Dropped in the middle; the verb goes on without its caller.
        assert!(tokio::time::timeout(Duration::from_millis(20), enqueue).await.is_err());
    }
    proxy.delay(Duration::ZERO);
    let (client, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let open = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%'";
        let open: i64 = client.query_one(open, &[]).await.unwrap().get(0);
        if open == 0 && jobs(&store).await == 1 {
            break;
        }
        assert!(Instant::now() < deadline, "{open} transactions were left open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
