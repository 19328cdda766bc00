//! The cost of an idle node.

use std::time::{Duration, Instant};

use lineclear::model::{Manifest, Schedule};
use lineclear::store::ChangeSource;
use lineclear_testkit::{PrivatePostgres, Program};

use crate::children::{end, store, up};
use crate::documents::readme::example;
use crate::kit::{TestStore, name};

const WARM_UP: Duration = Duration::from_secs(5);
const WINDOW: Duration = Duration::from_secs(20);
const STATEMENTS_PER_SECOND: f64 = 2.0;
/// The first one comes after the test. A node beats at least three times a lease, so the lease is long, too.
const NO_HEARTBEAT: &str = "heartbeat=3600000";
const LONG_LEASE: &str = "10800000";
const LEASE: &str = "30000";

/// A server that logs every statement, and writes no WAL in the background.
async fn quiet_server() -> (PrivatePostgres, TestStore) {
    let server = PrivatePostgres::start(&["log_statement=all", "autovacuum=off"]).await.unwrap();
    let db = TestStore::at(server.url());
    // Manifests that are not due: an empty database would be too easy.
    let daily = |n: u32| {
        let hours = Schedule::every(Duration::from_secs(24 * 3600)).unwrap();
        Manifest::new(name(&format!("m{n}")), name("sleep"), hours)
    };
    store(&db).await.upsert_manifests((0..100).map(daily), ChangeSource::Declaration).await.unwrap();
    (server, db)
}

/// All roles, and every interval as it is by default unless `options` say otherwise.
fn node(db: &TestStore, lease: &str, options: &[&str]) -> Program {
    let defaults = ["poll=1000", "plan=5000", "heartbeat=10000", "renewal=10000"];
    Program::at(example("child"))
        .args([db.url.as_str(), "planner,workers,cleaner", lease])
        .args(defaults)
        .args(options)
}

#[tokio::test]
async fn an_idle_node_sends_at_most_two_statements_a_second() {
    let (server, db) = quiet_server().await;
    let nodes = up([node(&db, LEASE, &[])]).await;
    tokio::time::sleep(WARM_UP).await;
    let client = db.client().await;
    client.batch_execute("select 'the window begins'").await.unwrap();
    let begun = Instant::now();
    tokio::time::sleep(WINDOW).await;
    client.batch_execute("select 'the window ends'").await.unwrap();
    let time = begun.elapsed().as_secs_f64();
    end(nodes).await;

    let log = server.log().unwrap();
    let window = log.split("the window begins").nth(1).unwrap().split("the window ends").next().unwrap();
    let logged =
        window.lines().filter(|line| line.contains("LOG:  statement: ") || line.contains("LOG:  execute "));
    let mut statements: Vec<&str> = logged.collect();
    statements.pop().expect("the end of the window itself");
    let rate = f64::from(u32::try_from(statements.len()).unwrap()) / time;
    println!("{rate:.2} statements a second");
    assert!(!statements.is_empty(), "it must be alive, and the log must show it");
    assert!(rate <= STATEMENTS_PER_SECOND, "{rate:.2} statements a second:\n{}", statements.join("\n"));
}

/// Cleaning and planning are made to come often; the heartbeat, which does write, never.
#[tokio::test]
async fn an_idle_node_writes_nothing_but_its_heartbeat() {
    let (_server, db) = quiet_server().await;
    let often = ["clean=500", "plan=200", "poll=100"];
    let nodes = up([node(&db, LONG_LEASE, &[&often[..], &[NO_HEARTBEAT]].concat())]).await;
    tokio::time::sleep(WARM_UP).await;
    assert_eq!(
        grown(&db, Duration::from_secs(10)).await,
        0,
        "bytes of WAL in ten seconds of polling, planning and cleaning"
    );
    end(nodes).await;

    // The measurement does notice what a heartbeat writes.
    let nodes = up([node(&db, LEASE, &[&often[..], &["heartbeat=500"]].concat())]).await;
    assert!(grown(&db, Duration::from_secs(3)).await > 0);
    end(nodes).await;
}

/// How many bytes of WAL are written in this time.
async fn grown(db: &TestStore, time: Duration) -> i64 {
    let client = db.client().await;
    let at = "select (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let from: i64 = client.query_one(at, &[]).await.unwrap().get(0);
    tokio::time::sleep(time).await;
    let to: i64 = client.query_one(at, &[]).await.unwrap().get(0);
    to - from
}
