//! Jobs that a node leases ahead of its free slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lineclear::model::{JobState, Payload};
use lineclear::store::NewJob;
use lineclear::{Lineclear, Node, NodeOptions, State};
use tokio::sync::Semaphore;

use crate::children::{LEASE, LONG, count, end, program, sleep, store, up};
use crate::kit::{TestStore, name, quick, until};

/// What handlers do, and how many of them at once.
#[derive(Default)]
struct World {
    begun: AtomicU32,
    now: AtomicU32,
    most: AtomicU32,
    a_long_one_runs: AtomicBool,
    /// Long jobs wait for a permit.
    end: Option<Semaphore>,
}

impl World {
    async fn run(&self, work: impl Future<Output = ()>) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        work.await;
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn short(world: State<Arc<World>>) {
    world.run(tokio::task::yield_now()).await;
}

async fn long(world: State<Arc<World>>) {
    world
        .run(async {
            world.a_long_one_runs.store(true, Ordering::SeqCst);
            world.end.as_ref().expect("a gate").acquire().await.expect("it is open").forget();
        })
        .await;
}

async fn node(db: &TestStore, slots: u32, world: &Arc<World>) -> Node {
    let options = NodeOptions { slots, ..quick() };
    let node = Lineclear::builder().store(&db.url).options(options).state(world.clone());
    node.kind("short", short).kind("long", long).start().await.unwrap()
}

fn job(kind: &str) -> NewJob {
    NewJob::new(name(kind), Payload::empty())
}

/// Claims that were given back before their handlers began.
async fn given_back(db: &TestStore) -> i64 {
    db.number("select count(*) from {t}execution where outcome = 'released' and started_at is null").await
}

on_each_store! {
    async fn a_node_that_leases_ahead_never_runs_more_than_its_slots_and_records_when_jobs_began(db) {
        let store = store(db).await;
        store.enqueue_many(vec![job("short"); 1_500]).await.unwrap();
        let world = Arc::new(World::default());
        let node = node(db, 3, &world).await;
        until("all are completed", async || count(&store, JobState::Completed).await == 1_500).await;
        assert_eq!(world.most.load(Ordering::SeqCst), 3);
        let whole = "select count(*) from {t}execution
                     where outcome = 'completed' and claimed_at <= started_at and started_at <= finished_at";
        assert_eq!(db.number(whole).await, 1_500);
        node.stop().await;
    }

    async fn jobs_that_were_leased_ahead_of_a_long_one_go_back_and_run_elsewhere(db) {
        let store = store(db).await;
        let mut jobs = vec![job("short"); 900];
        jobs[600] = job("long");
        store.enqueue_many(jobs).await.unwrap();
        let world = Arc::new(World { end: Some(Semaphore::new(0)), ..World::default() });
        let one = node(db, 1, &world).await;
        until("jobs that wait behind the long one went back", async || given_back(db).await > 0).await;
        let left = 900 - count(&store, JobState::Completed).await;
        assert!(left > 1, "{left}");
        let two = node(db, 1, &world).await;
        until("the others ran elsewhere", async || count(&store, JobState::Completed).await == 899).await;
        world.end.as_ref().unwrap().add_permits(1);
        until("all are completed", async || count(&store, JobState::Completed).await == 900).await;
        assert_eq!(db.number("select count(*) from {t}execution where outcome not in ('completed', 'released')").await, 0);
        one.stop().await;
        two.stop().await;
    }

    async fn a_node_that_stops_gives_back_at_once_what_it_leased_ahead(db) {
        let store = store(db).await;
        store.enqueue_many(vec![job("short"); 5_000]).await.unwrap();
        let world = Arc::new(World::default());
        let node = node(db, 1, &world).await;
        until("it works", async || count(&store, JobState::Completed).await > 500).await;
        node.stop().await;
        assert_eq!(db.number("select count(*) from {t}background_job").await, 0, "it holds no lease");
        let (queued, done) = (count(&store, JobState::Queued).await, count(&store, JobState::Completed).await);
        assert_eq!(queued + done, 5_000);
    }

    async fn a_node_that_drains_gives_back_at_once_what_it_leased_ahead(db) {
        let store = store(db).await;
        let mut jobs = vec![job("short"); 2_000];
        jobs[600] = job("long");
        store.enqueue_many(jobs).await.unwrap();
        let world = Arc::new(World { end: Some(Semaphore::new(0)), ..World::default() });
        let node = node(db, 1, &world).await;
        until("the long one runs", async || world.a_long_one_runs.load(Ordering::SeqCst)).await;
        // A busy machine may have given back some that ranked before it.
        let begun = world.begun.load(Ordering::SeqCst);
        assert!(store.drain_node(node.id(), "ann").await.unwrap());
        let heard = async || store.nodes(10).await.unwrap().iter().any(|node| node.takes_nothing);
        until("it has heard of it", heard).await;
        until("it holds the long one only", async || db.number("select count(*) from {t}background_job").await == 1).await;
        world.end.as_ref().unwrap().add_permits(1);
        until("it holds nothing", async || db.number("select count(*) from {t}background_job").await == 0).await;
        let (queued, done) = (count(&store, JobState::Queued).await, count(&store, JobState::Completed).await);
        assert_eq!(queued + done, 2_000);
        assert_eq!(done, begun as usize, "it took more");
        node.stop().await;
    }

    async fn a_killed_node_charges_nothing_that_it_leased_ahead_and_others_take_over(db) {
        let store = store(db).await;
        let mut first = up([program(db, "workers").args(["slots=2"])]).await.remove(0);
        store.enqueue_many(vec![sleep(0); 3_000]).await.unwrap();
        first.wait_for_lines("ended", 600, LONG).await.unwrap();
        first.kill().unwrap();
        let killed = Instant::now();
        let held = db.number("select count(*) from {t}background_job").await;
        let second = up([program(db, "workers")]).await;
        until("all are completed", async || count(&store, JobState::Completed).await == 3_000).await;
        // Lease and two seconds; as much again for a machine that is busy with other tests, and for the jobs themselves.
        assert!(killed.elapsed() < (LEASE + Duration::from_secs(2)) * 2 + Duration::from_secs(5), "{:?}", killed.elapsed());
        assert!(held > 2, "it held more than it could run: {held}");
        assert_eq!(db.number("select count(*) from {t}execution where outcome = 'lost'").await, held);
        assert_eq!(db.number("select count(*) from {t}execution where error_type = 'worker_lost'").await, 0);
        end(second).await;
    }

    async fn a_job_that_was_leased_ahead_and_takes_its_workers_down_becomes_a_dead_letter(db) {
        let store = store(db).await;
        let mut jobs = vec![sleep(0); 700];
        jobs[650] = job("crashes");
        let bad = store.enqueue_many(jobs).await.unwrap()[650].id;
        let is_dead = async || store.job(bad).await.unwrap().unwrap().job.state == JobState::Dead;
        let mut crashed = 0;
        while !is_dead().await {
            // One process is not charged, and the budget is three.
            assert!(crashed < 5, "it took {crashed} processes down");
            let mut child = up([program(db, "workers").args(["slots=2"])]).await.remove(0);
            until("it crashed, or the job is dead", async || {
                let ended = child.wait_for_exit(Duration::from_millis(50)).await.is_ok();
                crashed += u32::from(ended);
                ended || is_dead().await
            })
            .await;
            if is_dead().await {
                // Killed, it would be charged with what it runs.
                end(vec![child]).await;
            }
        }
        let rest = up([program(db, "workers")]).await;
        until("the others are completed", async || count(&store, JobState::Completed).await == 699).await;
        assert_eq!(db.number("select count(*) from {t}dead_letter").await, 1);
        end(rest).await;
    }
}
