//! What the lease registry costs.

use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::{InProcess, LeaseState, Locks, Registry, RegistryOptions};
use lineclear_testkit::PrivatePostgres;
use tokio_postgres::{Client, NoTls};

use crate::kit::quick;
use crate::registry::{never, until};

const BEAT: Duration = Duration::from_millis(500);
const LOCKS: usize = 1_000;

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn mark(client: &Client, text: &str) {
    client.batch_execute(&format!("select '{text}'")).await.unwrap();
}

/// How many statements that begin with this comment the server was sent between two marks.
fn between(log: &str, statement: &str) -> usize {
    let window = log.split("the window begins").nth(1).unwrap().split("the window ends").next().unwrap();
    window.matches(&format!("-- {statement} ·")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_held_locks_are_renewed_by_two_statements_and_one_who_holds_nothing_writes_nothing() {
    let server = PrivatePostgres::start(&["log_statement=all", "autovacuum=off"]).await.unwrap();
    let options = RegistryOptions { heartbeat: BEAT, sweep_after: BEAT * 4, ..RegistryOptions::default() };
    let registry = Registry::new(&server.url(), options).unwrap();
    let locks = Locks::with_registry(Arc::new(InProcess::new()), quick(), registry).await.unwrap();
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push(locks.try_lock(&format!("lock-{number}")).await.unwrap().unwrap());
    }
    locks.flush().await;
    let client = connect(&server.url()).await;
    mark(&client, "the window begins").await;
    let begun = std::time::Instant::now();
    tokio::time::sleep(BEAT * 8).await;
    mark(&client, "the window ends").await;
    let beats = begun.elapsed().as_millis() / BEAT.as_millis() + 1;
    let written = between(&server.log().unwrap(), "lease_write");
    println!("{written} statements for at most {beats} heartbeats of {LOCKS} locks");
    assert!(written >= 4, "it must be alive, and the log must show it");
    assert!(written as u128 <= beats * 2, "{written} statements for {beats} heartbeats");
    let reader = Registry::new(&server.url(), never()).unwrap();
    let leases = reader.leases(2_000).await.unwrap();
    assert_eq!(leases.iter().filter(|lease| lease.state == LeaseState::Held).count(), LOCKS);

    for held in held {
        held.release().await.unwrap();
    }
    locks.flush().await;
    let at = "select (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let wal = async || client.query_one(at, &[]).await.unwrap().get::<_, i64>(0);
    // What is on its way arrives first, and a sweep that only reads tidies pages that were written before, which is logged, too. Then
    // two sweeps and more go by without a byte.
    until("one who holds nothing writes nothing, sweeps included", async || {
        let before = wal().await;
        tokio::time::sleep(BEAT * 8).await;
        wal().await == before
    })
    .await;
}
