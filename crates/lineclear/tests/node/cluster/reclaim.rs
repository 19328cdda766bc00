//! The job of a killed node runs on another one.

use std::time::{Duration, Instant};

use lineclear::store::NewJob;

use crate::children::{LEASE, LONG, crowd, sleep, sleeps, start, store};
use crate::kit::TestStore;

#[tokio::test]
async fn a_killed_workers_job_runs_elsewhere_soon_although_100000_wait() {
    let db = TestStore::postgres().await;
    let store = store(&db).await;
    let mut first = crowd(1, &db, "workers", &["slots=1"]).await.remove(0);
    let job = store.enqueue(sleeps(600_000, 0)).await.unwrap().id;
    first.wait_for_line("claim 1 started", LONG).await.unwrap();
    for _ in 0..20 {
        // Before it by rank: only as a vanished worker's job does it come first.
        let urgent = NewJob { priority: 31, ..sleep(5) };
        store.enqueue_many(vec![urgent; 5_000]).await.unwrap();
    }
    let second = start(&db, "workers").await;
    // It runs jobs, and may reclaim leases: not at once after its start.
    second.wait_for_lines("claim 1 ended", 100, LONG).await.unwrap();
    tokio::time::sleep(LEASE / 2).await;

    first.kill().unwrap();
    let killed = Instant::now();
    second.wait_for_line(&format!("job {job} claim 2 started"), LONG).await.unwrap();
    let took = killed.elapsed();
    println!("with a lease of {LEASE:?} it was running again after {took:?}");
    // Lease and two seconds; as much again for a machine that is busy with other tests.
    assert!(took < (LEASE + Duration::from_secs(2)) * 2, "{took:?}");
    let waiting = "select count(*) from {t}work_queue where phase = 'ready'";
    assert!(db.number(waiting).await > 90_000, "they were waiting all the time");
}
