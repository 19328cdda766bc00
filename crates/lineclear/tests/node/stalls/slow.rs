//! A database that answers late for long, and never fails. A node cannot tell a dead worker from one whose renewals are late, and reclaims
//! nothing at first; it must not stay so for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lineclear::model::JobState;
use lineclear::store::JobId;
use lineclear::{NodeOptions, Store, StoreOptions};
use lineclear_testkit::Proxy;
use tokio::task::JoinHandle;

use super::world::{Work, World, with_lease};
use crate::kit::{TestStore, until, until_within};

/// Long enough that the pauses of a busy machine are no jumps of a clock.
const LEASE: Duration = Duration::from_secs(3);
const SLOW_FOR: Duration = Duration::from_secs(20 * LEASE.as_secs());
/// Each way: an answer takes longer than a sixth of a lease.
const DELAY: Duration = Duration::from_millis(270);
const ENDLESS: Work = Work { millis: 600_000, limits: Vec::new(), asked_us: 0 };

/// Enqueues short and long jobs, a few at a time, until it is told to stop; returns how many.
fn load(store: Store, stop: Arc<AtomicBool>) -> JoinHandle<i64> {
    tokio::spawn(async move {
        let mut accepted = 0;
        while !stop.load(Ordering::SeqCst) {
            if store.stat_now().await.is_ok_and(|now| now.waiting < 4) {
                let lease = u64::try_from(LEASE.as_millis()).unwrap();
                let jobs = [300, 300, lease * 2].map(|millis| Work { millis, ..Work::default() }.job());
                accepted += store.enqueue_many(jobs.to_vec()).await.unwrap().len();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        i64::try_from(accepted).unwrap()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_slow_for_twenty_leases_charges_no_live_node_and_keeps_no_job_of_a_dead_one() {
    let (db, world) = (TestStore::postgres().await, World::new());
    let store = Store::open(StoreOptions::new(&db.url).unwrap()).await.unwrap();
    let networks = [Proxy::to_url(&db.url).await.unwrap(), Proxy::to_url(&db.url).await.unwrap()];
    let [own, common] = networks.each_ref().map(|network| network.url_for(&db.url));
    let dead = world.node(&own, NodeOptions { slots: 2, ..with_lease(LEASE) }).await;
    let endless = store.enqueue_many(vec![ENDLESS.job(); 2]).await.unwrap();
    let endless: Vec<JobId> = endless.iter().map(|job| job.id).collect();
    for job in &endless {
        until("it runs", async || db.state(&dead, *job).await == Some(JobState::Running)).await;
    }
    let live = [world.node(&common, with_lease(LEASE)).await, world.node(&common, with_lease(LEASE)).await];

    let slow_since = Instant::now();
    networks[1].delay(DELAY);
    networks[0].silence();
    let stop = Arc::new(AtomicBool::new(false));
    let loading = load(store.clone(), stop.clone());
    let of_the_dead = |what: &str| {
        format!(
            "select count(*) from {{t}}execution where error_type = 'worker_lost' and node {what} {}",
            dead.id()
        )
    };
    let reclaimed = of_the_dead("=");
    until_within(SLOW_FOR * 3, "its jobs are reclaimed while the database is slow", async || {
        db.number(&reclaimed).await == 2
    })
    .await;
    println!("the dead node's jobs were reclaimed after {:?}", slow_since.elapsed());
    tokio::time::sleep(SLOW_FOR.saturating_sub(slow_since.elapsed())).await;
    stop.store(true, Ordering::SeqCst);
    let accepted = loading.await.unwrap();
    networks[1].heal();

    for job in endless {
        store.cancel(job).await.unwrap();
    }
    let left = "select (select count(*) from {t}work_queue) + (select count(*) from {t}background_job)";
    until_within(SLOW_FOR, "all is done", async || db.number(left).await == 0).await;
    let completed = "select count(*) from {t}execution where final and outcome = 'completed'";
    assert_eq!(db.number(completed).await, accepted, "each of the others is completed once");
    assert!(accepted > 10, "{accepted} jobs ran beside them");
    assert_eq!(db.number(&of_the_dead("<>")).await, 0, "no crash of a live node is charged");
    assert_eq!(db.number("select count(*) from {t}dead_letter").await, 0);
    assert_eq!(world.twice(), [0_i64; 0], "no job runs on two nodes");
    networks[0].heal();
    for node in live.into_iter().chain([dead]) {
        node.stop().await;
    }
}
