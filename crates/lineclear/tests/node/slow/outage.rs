//! PostgreSQL stops and starts again; a node is blocked and continues.

use std::time::{Duration, Instant};

use lineclear::StoreError;
use lineclear::model::Payload;
use lineclear::store::NewJob;
use lineclear_testkit::{PrivatePostgres, Program, Proxy};

use crate::children::{LONG, end, lines, sleep, sleeps, store, up};
use crate::documents::readme::example;
use crate::kit::{TestStore, name, until, until_within};

const OUTAGE: Duration = Duration::from_secs(60);
/// Less than the third of a lease for which a node reclaims nothing after an outage.
const LATER: Duration = Duration::from_secs(5);

/// Two nodes with the default lease. Some of their jobs finish during the outage; the others are told to stop when their
/// node no longer trusts their lease, half a minute after the last renewal. One node reconnects later than the other, which
/// must not reclaim its jobs.
#[tokio::test]
async fn a_minute_without_postgres_loses_nothing_and_counts_as_no_crash() {
    // Commits must survive the stop; test servers do not ensure that by default.
    let mut server = PrivatePostgres::start(&["synchronous_commit=on"]).await.unwrap();
    let db = TestStore::at(server.url());
    let store = store(&db).await;
    let proxy = Proxy::to_url(&db.url).await.unwrap();
    let urls = [db.url.clone(), proxy.url_for(&db.url)];
    let options = ["planner,workers,cleaner", "30000", "slots=4"];
    let nodes = up(urls.map(|url| Program::at(example("child")).args([url]).args(options))).await;
    let jobs = [sleeps(20_000, 0), sleeps(600_000, 0)].into_iter().cycle().take(8);
    store.enqueue_many(jobs.collect()).await.unwrap();
    // All slots are taken: no dispatch is under way when the server stops, whose answer could be lost.
    until("eight run", async || lines(&nodes, "claim 1 started").len() == 8).await;
    store.enqueue_many(vec![sleep(1); 200]).await.unwrap();

    server.stop();
    proxy.cut().await;
    let stopped = Instant::now();
    let refused = store.enqueue(sleep(1)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    tokio::time::sleep(OUTAGE - stopped.elapsed()).await;
    server.start_again().await.unwrap();
    tokio::time::sleep(LATER).await;
    proxy.heal();

    let done = "select count(*) from {t}execution where final and outcome = 'completed'";
    until_within(LONG, "all are completed", async || db.number(done).await == 208).await;
    println!("all were completed {:?} after both had PostgreSQL back", stopped.elapsed() - OUTAGE - LATER);
    let charged = "select count(*) from {t}execution where outcome not in ('completed', 'released')";
    assert_eq!(db.number(charged).await, 0, "no crash and no failure");
    let released = "select count(*) from {t}execution where outcome = 'released'";
    assert_eq!(db.number(released).await, 4, "those that were told to stop were given back");
    let live = "select (select count(*) from {t}work_queue) + (select count(*) from {t}background_job) \
                + (select count(*) from {t}dead_letter)";
    assert_eq!(db.number(live).await, 0);
    let nodes = end(nodes).await;
    let finished = lines(&nodes, "claim 1 ended").len();
    assert_eq!(finished, 204, "what finished during the outage was not done again");
}

/// Every thread of the runtime is blocked, three times as long as a default lease. Another node could reclaim the jobs.
#[tokio::test]
async fn a_minute_and_a_half_of_blocked_threads_costs_no_lease() {
    let db = TestStore::postgres().await;
    let store = store(&db).await;
    let options = ["workers", "30000", "slots=2"];
    let node = || Program::at(example("child")).args([db.url.as_str()]).args(options);
    let mut blocked = up([node().env("TOKIO_WORKER_THREADS", "2")]).await;
    let blocks = NewJob::new(name("blocks"), Payload::of(&90_000).unwrap());
    store.enqueue_many(vec![blocks; 2]).await.unwrap();
    until("both block", async || lines(&blocked, "claim 1 started").len() == 2).await;
    blocked.extend(up([node()]).await);
    let nodes = blocked;
    until_within(LONG * 2, "both end", async || lines(&nodes, "claim 1 ended").len() == 2).await;
    let done = "select count(*) from {t}execution where final and outcome = 'completed' and claim_no = 1";
    until("both are completed", async || db.number(done).await == 2).await;
    assert_eq!(db.number("select count(*) from {t}execution").await, 2, "each was claimed once");
    end(nodes).await;
}
