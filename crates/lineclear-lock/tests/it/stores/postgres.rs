//! Locks in PostgreSQL: poolers, fences, transaction locks.

use std::time::Duration;

use lineclear_lock::postgres::{TransactionKey, fence, try_transaction_lock};
use lineclear_lock::{LockError, LockName, LockOptions, Locks, Moment};
use lineclear_testkit::Proxy;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};

use crate::kit::{Place, SOON, TTL, quick};

/// A connection of the test's own.
pub(crate) async fn connect(place: &Place) -> Client {
    let url = place.url.as_deref().unwrap().split('?').next().unwrap();
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn session_locks_are_refused_behind_a_transaction_pooler() {
    let database = lineclear_testkit::fresh_postgres().await;
    // Whether the pooler is named or only found.
    for options in ["lock=session", "lock=session&pooler=transaction"] {
        let refused = Locks::open(&format!("{}?{options}", database.pgbouncer_url())).await.unwrap_err();
        let LockError::Refused { rule, why } = refused else { panic!("{refused}") };
        assert_eq!(rule, "session_lock");
        assert!(why.contains("pooler"), "{why}");
    }
    assert!(Locks::open(&format!("{}?lock=session", database.url())).await.is_ok());
}

#[tokio::test]
async fn leases_find_a_pooler_by_themselves_and_do_without_a_beacon() {
    let database = lineclear_testkit::fresh_postgres().await;
    // A question may take a third of it, for seconds in a row, on a busy machine.
    let ttl = TTL * 3;
    let options = LockOptions { retry_interval: Duration::from_millis(100), ..LockOptions::with_ttl(ttl) };
    let direct = Locks::open_with(database.url(), options.clone()).await.unwrap();
    assert!(direct.promises().crash_detected_within.is_some());
    let pooled = Locks::open_with(&database.pgbouncer_url(), options).await.unwrap();
    assert_eq!(pooled.promises().crash_detected_within, None);
    let held = pooled.try_lock("report").await.unwrap().unwrap();
    assert!(
        direct.acquire("report", ttl + TTL).await.unwrap().is_none(),
        "it is held, and its holder is not taken for dead"
    );
    held.release().await.unwrap();
    assert!(direct.try_lock("report").await.unwrap().is_some());
}

#[tokio::test]
async fn leases_and_session_locks_of_one_name_exclude_each_other() {
    let database = lineclear_testkit::fresh_postgres().await;
    let lease = Locks::open_with(database.url(), quick()).await.unwrap();
    let session = Locks::open_with(&format!("{}?lock=session", database.url()), quick()).await.unwrap();
    let held = lease.try_lock("report").await.unwrap().unwrap();
    assert!(session.try_lock("report").await.unwrap().is_none());
    let epoch = held.epoch();
    held.release().await.unwrap();
    let held = session.try_lock("report").await.unwrap().expect("nothing is left of the first try");
    assert!(held.epoch() > epoch);
    assert!(lease.try_lock("report").await.unwrap().is_none());
    held.release().await.unwrap();
}

#[tokio::test]
async fn an_open_fenced_transaction_keeps_others_out_but_not_the_renewal() {
    let place = Place::postgres("lock=lease").await;
    let (one, other) = (place.locks().await, place.locks().await);
    let mut client = connect(&place).await;
    let held = one.try_lock("report").await.unwrap().unwrap();
    let stale = held.fence().clone();
    let transaction = client.transaction().await.unwrap();
    assert!(fence(&transaction, &stale).await.unwrap());
    assert_eq!(held.confirm().await.unwrap(), Ok(()), "renewal does not wait for it");
    // Even a lock that was given back is not another's while the transaction is open.
    held.release().await.unwrap();
    assert!(other.acquire("report", Duration::from_millis(300)).await.unwrap().is_none());
    transaction.commit().await.unwrap();
    let next = other.acquire("report", SOON).await.unwrap().unwrap();

    let transaction = client.transaction().await.unwrap();
    assert!(!fence(&transaction, &stale).await.unwrap(), "its epoch is over");
    assert!(fence(&transaction, next.fence()).await.unwrap());
}

#[tokio::test]
async fn a_fenced_transaction_that_idles_is_ended_by_the_server() {
    let place = Place::postgres("lock=lease").await;
    let (one, other) = (place.locks().await, place.locks().await);
    let mut client = connect(&place).await;
    let held = one.try_lock("report").await.unwrap().unwrap();
    let transaction = client.transaction().await.unwrap();
    assert!(fence(&transaction, held.fence()).await.unwrap());
    held.release().await.unwrap();
    // As if its process were frozen.
    assert!(other.acquire("report", SOON).await.unwrap().is_some());
    assert!(transaction.commit().await.is_err(), "what it did is undone");
}

#[tokio::test]
async fn a_transaction_lock_ends_with_its_transaction() {
    let place = Place::postgres("").await;
    let (mut one, mut other) = (connect(&place).await, connect(&place).await);
    let name = LockName::new("ManifestManager").unwrap();
    let keys = [
        TransactionKey::Name(name, "lineclear".to_owned()),
        TransactionKey::Raw(42),
        TransactionKey::Hashtext("ManifestManager".to_owned()),
    ];
    for key in &keys {
        let first = one.transaction().await.unwrap();
        assert!(try_transaction_lock(&first, key).await.unwrap());
        let second = other.transaction().await.unwrap();
        assert!(!try_transaction_lock(&second, key).await.unwrap(), "{key:?}");
        first.rollback().await.unwrap();
        assert!(try_transaction_lock(&second, key).await.unwrap(), "{key:?}");
        second.commit().await.unwrap();
    }
    // The same lock that others take by SQL.
    let first = one.transaction().await.unwrap();
    first.execute("select pg_advisory_xact_lock(hashtext('ManifestManager'))", &[]).await.unwrap();
    let second = other.transaction().await.unwrap();
    assert!(!try_transaction_lock(&second, &keys[2]).await.unwrap());
}

#[tokio::test]
async fn taking_and_releasing_a_free_lock_costs_at_most_two_round_trips_each() {
    for options in ["lock=lease", "lock=session"] {
        let place = Place::postgres(options).await;
        let proxy = Proxy::to_url(place.url.as_deref().unwrap()).await.unwrap();
        let locks = Locks::open(&proxy.url_for(place.url.as_deref().unwrap())).await.unwrap();
        // So that the connections are there.
        locks.try_lock("other").await.unwrap().unwrap().release().await.unwrap();
        let delay = Duration::from_millis(200);
        proxy.delay(delay);
        let asked = Moment::now();
        let held = locks.try_lock("report").await.unwrap().unwrap();
        assert!(!asked.plus(delay * 5).remaining().is_zero(), "{options}: taking took too long");
        let asked = Moment::now();
        held.release().await.unwrap();
        assert!(!asked.plus(delay * 5).remaining().is_zero(), "{options}: releasing took too long");
    }
}

#[tokio::test]
async fn a_grant_is_durable_although_the_session_is_not() {
    let place = Place::postgres("lock=lease").await;
    place.locks().await;
    let client = connect(&place).await;
    assert_eq!(client.query_one("show synchronous_commit", &[]).await.unwrap().get::<_, &str>(0), "off");
    let take = include_str!("../../../sql/postgres/lock_acquire.sql").replace("{schema}", "lineclear");
    client.batch_execute("begin").await.unwrap();
    let (text, number) = (Type::TEXT, Type::INT8);
    let params: [(&(dyn ToSql + Sync), Type); 7] = [
        (&"report", text.clone()),
        (&"token", text.clone()),
        (&"holder", text.clone()),
        (&None::<&str>, text),
        (&1_i64, number.clone()),
        (&None::<i64>, number.clone()),
        (&1_i64, number),
    ];
    client.query_typed(&take, &params).await.unwrap();
    assert_eq!(client.query_one("show synchronous_commit", &[]).await.unwrap().get::<_, &str>(0), "on");
    client.batch_execute("commit").await.unwrap();
    assert_eq!(client.query_one("show synchronous_commit", &[]).await.unwrap().get::<_, &str>(0), "off");
}

#[tokio::test]
async fn held_locks_cost_no_connections() {
    for (options, connections) in [("lock=lease", 2), ("lock=session", 1)] {
        let place = Place::postgres(options).await;
        let locks = Locks::open(place.url.as_deref().unwrap()).await.unwrap();
        let mut held = Vec::new();
        for no in 0..200 {
            held.push(locks.try_lock(&format!("report-{no}")).await.unwrap().unwrap());
        }
        let client = connect(&place).await;
        let count = "select count(*) from pg_stat_activity \
                     where datname = current_database() and application_name = 'lineclear-lock'";
        let seen: i64 = client.query_one(count, &[]).await.unwrap().get(0);
        assert_eq!(seen, connections, "{options}");
    }
}

#[tokio::test]
async fn an_engine_whose_session_locks_are_stubs_is_refused() {
    let database = lineclear_testkit::fresh_postgres().await;
    let place = Place::at(database.url().to_owned(), ());
    let name = database.name();
    // As in some databases that speak PostgreSQL's protocol: every request is granted.
    let stubs = "create schema stubs; \
        create function stubs.pg_try_advisory_lock(bigint) returns boolean language sql as 'select true'; \
        create function stubs.pg_advisory_unlock(bigint) returns boolean language sql as 'select true'";
    let client = connect(&place).await;
    client.batch_execute(stubs).await.unwrap();
    let first = format!("alter database {name} set search_path = stubs, pg_catalog, public");
    client.batch_execute(&first).await.unwrap();
    let refused = Locks::open(&format!("{}?lock=session", database.url())).await.unwrap_err().to_string();
    assert!(refused.starts_with("refused by session_lock: "), "{refused}");
    assert!(refused.contains("two connections were granted one session lock"), "{refused}");
    // Leases need no session locks, and do without the quick notice of a crash.
    let leases = Locks::open_with(database.url(), quick()).await.unwrap();
    assert_eq!(leases.promises().crash_detected_within, None);
    assert!(leases.try_lock("report").await.unwrap().is_some());
}

#[tokio::test]
async fn a_server_that_can_only_be_read_is_refused() {
    let database = lineclear_testkit::fresh_postgres().await;
    let place = Place::at(database.url().to_owned(), ());
    let opened = Locks::open_with(database.url(), quick()).await.unwrap();
    let read_only = format!("alter database {} set default_transaction_read_only = on", database.name());
    connect(&place).await.batch_execute(&read_only).await.unwrap();
    // The tables are there; but nothing can be granted.
    let locks = Locks::open_with(database.url(), quick()).await.unwrap();
    let refused = locks.try_lock("report").await.unwrap_err().to_string();
    assert!(refused.starts_with("refused by postgres: "), "{refused}");
    // Connections from before are not affected.
    assert!(opened.try_lock("report").await.unwrap().is_some());
}

#[tokio::test]
async fn timeouts_of_the_database_cost_no_lock() {
    let database = lineclear_testkit::fresh_postgres().await;
    let place = Place::at(database.url().to_owned(), ());
    let client = connect(&place).await;
    for setting in [
        "idle_session_timeout = '1500ms'",
        "idle_in_transaction_session_timeout = '500ms'",
        "lock_timeout = '1ms'",
    ] {
        let set = format!("alter database {} set {setting}", database.name());
        client.batch_execute(&set).await.unwrap();
    }
    for options in ["lock=lease", "lock=session"] {
        let url = format!("{}?{options}", database.url());
        let (one, other) = (Locks::open(&url).await.unwrap(), Locks::open(&url).await.unwrap());
        let held = one.try_lock(options).await.unwrap().unwrap();
        tokio::time::sleep(TTL).await;
        assert_eq!(held.lost_reason(), None, "{options}");
        assert_eq!(held.confirm().await.unwrap(), Ok(()), "{options}");
        assert!(other.try_lock(options).await.unwrap().is_none(), "{options}: busy, and no error");
        held.release().await.unwrap();
        assert!(other.try_lock(options).await.unwrap().is_some(), "{options}");
    }
}
