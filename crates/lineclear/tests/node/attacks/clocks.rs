//! Clocks that are wrong, or set while nodes run (libfaketime): the clocks of nodes do not matter beside PostgreSQL, and on SQLite the
//! machine's clock may be set back.

use std::time::{Duration, Instant};

use lineclear::store::NewJob;
use lineclear_testkit::{Child, Program};

use crate::children::{LEASE, LONG, end, lines, program, sleep, sleeps, store};
use crate::kit::{TestStore, until, until_within};

async fn up(program: Program) -> Child {
    let child = program.start().unwrap();
    child.wait_for_line("is up", LONG).await.unwrap();
    child
}

/// Processes that started before and after the clock was set back by 90 s agree on the time: neither takes the jobs of the other, and
/// nothing waits until the clock is where it was.
#[tokio::test]
async fn a_clock_that_is_set_back_on_sqlite_costs_no_job_and_stops_nothing() {
    let (db, folder) = (TestStore::sqlite().await, tempfile::tempdir().unwrap());
    let offset = folder.path().join("offset");
    std::fs::write(&offset, "+90s").unwrap();
    let node = || program(&db, "workers,planner").args(["slots=4"]).clock(&offset).unwrap();
    let store = store(&db).await;
    let mut nodes = vec![up(node()).await];
    let long = LEASE * 4;
    let runs = u64::try_from(long.as_millis()).unwrap();
    store.enqueue_many(vec![sleeps(runs, 0); 2]).await.unwrap();
    until("they run", async || lines(&nodes, "claim 1 started").len() == 2).await;

    // Set as a whole: a half-written file would be another time.
    std::fs::write(folder.path().join("next"), "+0s").unwrap();
    std::fs::rename(folder.path().join("next"), &offset).unwrap();
    let set_back = Instant::now();
    nodes.push(up(node()).await);
    // More than the first has slots for.
    let jobs: Vec<NewJob> = vec![sleeps(runs, 0); 4];
    store.enqueue_many(jobs).await.unwrap();
    store.enqueue_many(vec![sleep(1); 10]).await.unwrap();
    until_within(LONG, "all run", async || lines(&nodes, "claim 1 started").len() == 16).await;
    let done = "select count(*) from {t}execution where outcome = 'completed' and claim_no = 1";
    until_within(LONG, "all are completed", async || db.number(done).await == 16).await;
    assert!(
        set_back.elapsed() < Duration::from_secs(60),
        "nothing waits for the clock: {:?}",
        set_back.elapsed()
    );
    assert_eq!(lines(&nodes, "claim 2 started").len(), 0, "no job ran twice");
    assert_eq!(db.number("select count(*) from {t}execution where outcome <> 'completed'").await, 0);
    end(nodes).await;
}
