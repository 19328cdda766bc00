//! A database that stalls for about a lease is not a dead worker: no job is charged, buried, or run beside itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lineclear::model::Payload;
use lineclear::store::NewJob;
use lineclear::{JobInfo, Lineclear, Node, NodeOptions, State};
use lineclear_testkit::Proxy;

use crate::kit::{TestStore, name, quick, until};

const LEASE: Duration = Duration::from_secs(2);

/// Which jobs run now, and those that ever ran twice at once.
#[derive(Clone, Default)]
struct World {
    running: Arc<Mutex<HashMap<i64, u32>>>,
    twice: Arc<Mutex<Vec<i64>>>,
}

struct Running(World, i64);

impl World {
    fn enter(&self, job: i64) -> Running {
        let mut running = self.running.lock().unwrap();
        let count = running.entry(job).or_default();
        *count += 1;
        if *count > 1 {
            self.twice.lock().unwrap().push(job);
        }
        Running(self.clone(), job)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap().get_mut(&self.1).unwrap() -= 1;
    }
}

async fn work(job: JobInfo, State(world): State<World>) {
    let _running = world.enter(job.id.0);
    tokio::time::sleep(Duration::from_millis(300)).await;
}

async fn node(url: &str, world: &World) -> Node {
    let options = NodeOptions { lease: LEASE, renewal: LEASE / 4, ..quick() };
    Lineclear::builder()
        .store(url)
        .options(options)
        .state(world.clone())
        .kind("work", work)
        .start()
        .await
        .expect("a node")
}

async fn all_ran_once_at_a_time(db: &TestStore, world: &World, jobs: i64) {
    let done = "select count(*) from {t}execution where outcome = 'completed'";
    until("all complete", async || db.number(done).await == jobs).await;
    let charged = "select count(*) from {t}execution where error_type = 'worker_lost'";
    assert_eq!(db.number(charged).await, 0, "no crash is charged");
    assert_eq!(db.number("select count(*) from {t}dead_letter").await, 0);
    assert_eq!(*world.twice.lock().unwrap(), [0_i64; 0], "no job runs on two nodes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_postgres_charges_no_job_with_a_crash() {
    let (db, world) = (TestStore::postgres().await, World::default());
    let proxy = Proxy::to_url(&db.url).await.unwrap();
    let url = proxy.url_for(&db.url);
    let nodes = [node(&url, &world).await, node(&url, &world).await];
    let job = NewJob::new(name("work"), Payload::of(&0).unwrap());
    nodes[0].store().enqueue_many(vec![job; 100]).await.unwrap();
    for stall in [LEASE / 2, LEASE, LEASE + LEASE / 2] {
        until("some run", async || world.running.lock().unwrap().values().sum::<u32>() > 4).await;
        proxy.silence();
        tokio::time::sleep(stall).await;
        proxy.heal();
    }
    all_ran_once_at_a_time(&db, &world, 100).await;
    for node in nodes {
        node.stop().await;
    }
}

/// Reads answer while another process writes, so that no node can tell by its reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_sqlite_file_charges_no_job_with_a_crash() {
    let (db, world) = (TestStore::sqlite().await, World::default());
    let nodes = [node(&db.url, &world).await, node(&db.url, &world).await];
    let job = NewJob::new(name("work"), Payload::of(&0).unwrap());
    nodes[0].store().enqueue_many(vec![job; 150]).await.unwrap();
    for stall in [LEASE / 2, LEASE, LEASE + LEASE / 2, LEASE + LEASE / 4, LEASE * 2] {
        until("some run", async || world.running.lock().unwrap().values().sum::<u32>() > 4).await;
        let file = rusqlite::Connection::open(&db.url).unwrap();
        file.busy_timeout(Duration::from_secs(10)).unwrap();
        file.execute_batch("begin immediate").unwrap();
        tokio::time::sleep(stall).await;
        file.execute_batch("rollback").unwrap();
    }
    all_ran_once_at_a_time(&db, &world, 150).await;
    for node in nodes {
        node.stop().await;
    }
}

/// A node that writes much by itself does not take its own file for locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_node_does_not_call_its_own_file_locked() {
    const WRITERS: u32 = 60;
    const LONG: Duration = Duration::from_secs(8);
    let (db, world) = (TestStore::sqlite().await, World::default());
    let node = node(&db.url, &world).await;
    // About a tenth of a second for each.
    db
        .sql(
            "create table burn (n);
             with recursive series (n) as (select 1 union all select n + 1 from series where n < 220)
             insert into burn select n from series;
             create trigger slow after insert on limit_key begin select count(*) from burn a, burn b, burn c; end",
        )
        .await;
    let began = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = node.store().clone();
            tokio::spawn(async move {
                for n in 0.. {
                    if began.elapsed() > LONG {
                        return;
                    }
                    store.set_limit(&format!("{writer}-{n}"), 1).await.unwrap();
                }
            })
        })
        .collect();
    while writers.iter().any(|writer| !writer.is_finished()) {
        let condition = node.store().known_database_condition();
        assert!(condition.is_ok(), "after {:?}: {}", began.elapsed(), condition.sentence());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    node.stop().await;
}
