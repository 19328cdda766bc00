//! A network that fails: the caller gets the right error, and nothing is left half-done.

use std::time::{Duration, Instant};

use lineclear::Store;
use lineclear::model::GroupSpec;
use lineclear::store::{
    ChangeSource, Dispatch, NewJob, NodeId, StoreError, StoreOptions, UniqueKey, main_route,
};
use lineclear_testkit::{PostgresDatabase, PrivatePostgres, Proxy};
use tokio_postgres::Client;

use crate::kit::{job, lease, migrated, name};

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

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The server ends a statement before its caller gives up, so that no statement is applied behind the caller's back.
#[tokio::test]
async fn a_statement_that_its_caller_gave_up_is_not_applied_later() {
    let database = migrated().await;
    let options = StoreOptions::new(database.url()).unwrap().deadline(SHORT);
    let store = Store::open(options).await.unwrap();
    let client = connect(database.url()).await;
    // An insert that takes four deadlines, and does not wait for a lock.
    client
        .batch_execute(
            "create function public.slow() returns trigger language plpgsql as 'begin perform pg_sleep(2); return new; end'; \
             create trigger slow before insert on lineclear.work_queue for each row execute function public.slow()",
        )
        .await
        .unwrap();
    let begun = Instant::now();
    store.enqueue(job()).await.unwrap_err();
    let keyed = NewJob { unique_key: Some(UniqueKey::new("k")), ..job() };
    store.enqueue(keyed).await.unwrap_err();
    let busy = "select count(*) from pg_stat_activity where datname = current_database() and state <> 'idle' \
                and pid <> pg_backend_pid()";
    // The server ends the second statement a little later than its caller, at the most.
    while client.query_one(busy, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "a statement runs on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(3).saturating_sub(begun.elapsed())).await;
    assert_eq!(jobs(&store).await, 0);
}

/// A claim that a crash of the server undoes would be given out again, under the same number.
#[tokio::test]
async fn a_claim_outlives_a_crash_of_a_server_that_does_not_wait_for_its_disk() {
    // Only a commit that waits is written before the crash.
    let mut server =
        PrivatePostgres::start(&["synchronous_commit=off", "wal_writer_delay=10s"]).await.unwrap();
    let node = NodeId(1);
    for lane in ["open", "gated", "claimed"] {
        let store = Store::open(StoreOptions::new(&server.url()).unwrap()).await.unwrap();
        let group = (lane == "gated").then(|| name("etl"));
        if group.is_some() {
            let spec = GroupSpec { limit: Some(1), ..GroupSpec::default() };
            store.upsert_groups([("etl".to_owned(), spec)].into(), ChangeSource::Edit).await.unwrap();
        }
        let id = store.enqueue(NewJob { group, ..job() }).await.unwrap().id;
        if lane == "claimed" {
            store.dispatch(Dispatch::new(main_route(), 1)).await.unwrap();
        }
        let client = connect(&server.url()).await;
        client
            .batch_execute(
                "set synchronous_commit = on; create table if not exists written (); drop table written",
            )
            .await
            .unwrap();
        let claims = match lane {
            "claimed" => store.claim(main_route(), 1, lease(node)).await.unwrap(),
            _ => store.dispatch_into_lease(Dispatch::new(main_route(), 1), lease(node)).await.unwrap(),
        };
        assert_eq!(claims.iter().map(|claim| claim.job).collect::<Vec<_>>(), [id]);
        server.stop();
        server.start_again().await.unwrap();
        let client = connect(&server.url()).await;
        let kept = "select count(*) from lineclear.background_job where leased_by = 1 and claim_no = 1";
        assert_eq!(client.query_one(kept, &[]).await.unwrap().get::<_, i64>(0), 1, "{lane}");
        client.batch_execute("delete from lineclear.background_job").await.unwrap();
    }
}

/// A crash of the server that undoes it costs nothing: the job waits again, and no claim number was given out.
#[tokio::test]
async fn a_dispatch_without_a_lease_does_not_wait_for_the_disk() {
    let server = PrivatePostgres::start(&["synchronous_commit=off", "wal_writer_delay=10s"]).await.unwrap();
    let store = Store::open(StoreOptions::new(&server.url()).unwrap()).await.unwrap();
    let client = connect(&server.url()).await;
    let number = async |sql: &str| client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    let inserted = "select (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let written = "select (pg_current_wal_flush_lsn() - '0/0')::bigint";
    let limit = GroupSpec { limit: Some(1), ..GroupSpec::default() };
    store.upsert_groups([("etl".to_owned(), limit)].into(), ChangeSource::Edit).await.unwrap();
    for group in [None, Some(name("etl"))] {
        let mut waited = 0;
        // The server itself writes every ten seconds, perhaps just then.
        for _ in 0..3 {
            store.enqueue(NewJob { group: group.clone(), ..job() }).await.unwrap();
            let before = number(inserted).await;
            assert_eq!(store.dispatch(Dispatch::new(main_route(), 1)).await.unwrap().len(), 1);
            waited += i32::from(number(written).await > before);
            let before = number(inserted).await;
            assert_eq!(store.claim(main_route(), 1, lease(NodeId(1))).await.unwrap().len(), 1);
            assert!(number(written).await > before, "a claim is written");
            client.batch_execute("delete from lineclear.background_job").await.unwrap();
        }
        assert!(waited < 3, "{group:?}");
    }
}
