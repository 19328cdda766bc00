//! A whole node, on each kind of store: jobs that complete, fail, hang, panic, are cancelled, and survive a stop.

mod children;
mod kit;
mod slow;
mod stalls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kit::{TestStore, name, quick, until};
use lineclear::model::{Backoff, ExecutionOutcome, JobState, Manifest, Schedule};
use lineclear::{
    Cancel, Done, HandlerError, Input, JobInfo, KindOptions, Lineclear, NodeOptions, Permanent, Role, State,
};

/// Runs a test on each kind of store.
macro_rules! on_each_store {
    ($($(#[$meta:meta])* async fn $name:ident($db:ident) $body:block)+) => { $(
        $(#[$meta])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn scenario($db: &TestStore) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                scenario(&TestStore::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                scenario(&TestStore::postgres().await).await;
            }
        }
    )+ };
}

mod handlers;
mod attacks;
mod cluster;
mod startup;
mod submitters;
#[cfg(all(feature = "outbox", feature = "outbound"))]
mod outbox;
mod documents;

#[derive(Default)]
struct Calls(AtomicU32);

impl Calls {
    fn add(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Retries at once.
fn impatient(retries: u32) -> KindOptions {
    let backoff = Backoff { delay: Duration::from_millis(1), ..Backoff::default() };
    KindOptions { retry: backoff.policy(retries), ..KindOptions::default() }
}

on_each_store! {
    async fn a_job_runs_with_its_input_and_leaves_its_output(db) {
        async fn double(Input(n): Input<u32>, job: JobInfo) -> Result<Done<u32>, HandlerError> {
            assert_eq!((job.attempt, job.claim_no), (1, 1));
            Ok(Done(n * 2))
        }
        let node = Lineclear::builder().store(&db.url).options(quick()).kind("double", double).start().await.unwrap();
        let job = node.enqueue("double", &21).await.unwrap().id;
        until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        let detail = node.store().job(job).await.unwrap().unwrap();
        assert_eq!(detail.executions[0].output.as_deref(), Some("42"));
        assert_eq!(detail.executions[0].node, Some(node.id()));
        node.stop().await;
    }

    async fn a_failing_job_is_tried_again_and_then_buried(db) {
        async fn broken(calls: State<Arc<Calls>>) -> Result<(), HandlerError> {
            Err(format!("try {}", calls.add()).into())
        }
        let calls = Arc::new(Calls::default());
        let node = Lineclear::builder().store(&db.url).options(quick()).state(calls.clone())
            .kind_with("broken", impatient(2), broken).start().await.unwrap();
        let job = node.enqueue("broken", &()).await.unwrap().id;
        until("it is dead", async || db.state(&node, job).await == Some(JobState::Dead)).await;
        assert_eq!(calls.count(), 3, "two retries are three tries");
        let letters = node.store().dead_letters(None, None, 10).await.unwrap().items;
        assert_eq!(letters[0].last_error.as_deref(), Some("try 3"));
        node.stop().await;
    }

    async fn a_job_that_cannot_work_is_not_tried_again(db) {
        async fn picky(_: Input<u32>) {}
        async fn permanent() -> Result<(), Permanent> { Err(Permanent::new("no such customer")) }
        let node = Lineclear::builder().store(&db.url).options(quick())
            .kind("picky", picky).kind("permanent", permanent).start().await.unwrap();
        for (kind, says) in [("picky", "the input does not fit"), ("permanent", "no such customer")] {
            let job = node.enqueue(kind, "text").await.unwrap().id;
            until("it is dead", async || db.state(&node, job).await == Some(JobState::Dead)).await;
            let detail = node.store().job(job).await.unwrap().unwrap();
            assert_eq!(detail.executions.len(), 1, "{kind}");
            assert!(detail.executions[0].error_message.as_deref().unwrap().contains(says), "{detail:?}");
        }
        node.stop().await;
    }

    async fn a_panic_is_a_failure_with_its_message_and_the_node_lives_on(db) {
        async fn panics(Input(message): Input<String>) { panic!("{message}") }
        async fn fine() {}
        let node = Lineclear::builder().store(&db.url).options(quick())
            .kind_with("panics", impatient(0), panics).kind("fine", fine).start().await.unwrap();
        let job = node.enqueue("panics", "out of coal").await.unwrap().id;
        until("it is dead", async || db.state(&node, job).await == Some(JobState::Dead)).await;
        let execution = node.store().job(job).await.unwrap().unwrap().executions.remove(0);
        assert_eq!((execution.error_type.as_deref(), execution.error_message.as_deref()), (Some("panic"), Some("out of coal")));
        let job = node.enqueue("fine", &()).await.unwrap().id;
        until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        node.stop().await;
    }

    async fn a_job_that_takes_too_long_is_told_and_timed_out(db) {
        async fn slow(cancel: Cancel, told: State<Arc<Calls>>) {
            cancel.requested().await;
            told.add();
        }
        let told = Arc::new(Calls::default());
        let options = KindOptions { timeout: Duration::from_millis(100), ..impatient(0) };
        let node = Lineclear::builder().store(&db.url).options(quick()).state(told.clone())
            .kind_with("slow", options, slow).start().await.unwrap();
        let job = node.enqueue("slow", &()).await.unwrap().id;
        until("it is dead", async || db.state(&node, job).await == Some(JobState::Dead)).await;
        let execution = node.store().job(job).await.unwrap().unwrap().executions.remove(0);
        assert_eq!((execution.outcome, told.count()), (ExecutionOutcome::TimedOut, 1));
        node.stop().await;
    }

    async fn a_cancellation_reaches_the_handler_on_another_node(db) {
        async fn endless(cancel: Cancel) { cancel.requested().await }
        let node = Lineclear::builder().store(&db.url).options(quick()).kind("endless", endless).start().await.unwrap();
        let elsewhere = lineclear::Store::open(lineclear::StoreOptions::new(&db.url).unwrap()).await.unwrap();
        let job = node.enqueue("endless", &()).await.unwrap().id;
        until("it runs", async || db.state(&node, job).await == Some(JobState::Running)).await;
        elsewhere.cancel(job).await.unwrap();
        let asked = std::time::Instant::now();
        // A handler that returns when it is told to stop has finished: what it says counts.
        until("it is over", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
        node.stop().await;
    }

    async fn a_manifest_fires_by_itself(db) {
        async fn tick(job: JobInfo, ticks: State<Arc<Calls>>) {
            assert!(job.tick_at.is_some());
            ticks.add();
        }
        let ticks = Arc::new(Calls::default());
        let every_second = Schedule::every(Duration::from_secs(1)).unwrap();
        let node = Lineclear::builder().store(&db.url).options(quick()).state(ticks.clone()).kind("tick", tick)
            .manifest(Manifest::new(name("clock"), name("tick"), every_second)).start().await.unwrap();
        until("it ticked three times", async || ticks.count() >= 3).await;
        node.stop().await;
    }

    async fn a_manifest_says_how_long_to_wait_between_tries(db) {
        async fn broken() -> Result<(), HandlerError> { Err("no".into()) }
        let retry = Backoff { delay: Duration::from_millis(1), ..Backoff::default() };
        let on_demand = Manifest::new(name("m"), name("broken"), Schedule::on_demand());
        let node = Lineclear::builder().store(&db.url).options(quick()).kind("broken", broken)
            .manifest(Manifest { retries: Some(2), retry: Some(retry), ..on_demand }).start().await.unwrap();
        let job = node.store().trigger(name("m"), Default::default()).await.unwrap().unwrap();
        until("it is dead", async || db.state(&node, job).await == Some(JobState::Dead)).await;
        assert_eq!(node.store().job(job).await.unwrap().unwrap().executions.len(), 3);
        node.stop().await;
    }

    async fn a_handler_enqueues_what_comes_next(db) {
        async fn first(client: lineclear::Client) -> Result<(), HandlerError> {
            client.enqueue("second", &7).await?;
            Ok(())
        }
        async fn second(Input(n): Input<u32>, sum: State<Arc<Calls>>) {
            for _ in 0..n {
                sum.add();
            }
        }
        let sum = Arc::new(Calls::default());
        let node = Lineclear::builder().store(&db.url).options(quick()).state(sum.clone())
            .kind("first", first).kind("second", second).start().await.unwrap();
        node.client().enqueue("first", &()).await.unwrap();
        until("both ran", async || sum.count() == 7).await;
        node.stop().await;
    }

    async fn a_kind_says_what_its_manifests_leave_open(db) {
        async fn slow(cancel: Cancel) { cancel.requested().await }
        let etl = name("etl");
        let options = KindOptions { timeout: Duration::from_millis(100), route: etl.clone(), ..impatient(1) };
        let node = Lineclear::builder().store(&db.url).options(quick()).kind_with("slow", options, slow)
            .manifest(Manifest::new(name("m"), name("slow"), Schedule::on_demand())).start().await.unwrap();
        let job = node.store().trigger(name("m"), Default::default()).await.unwrap().unwrap();
        until("it is dead", async || db.state(&node, job).await == Some(JobState::Dead)).await;
        let outcomes = node.store().job(job).await.unwrap().unwrap().executions;
        assert_eq!(outcomes.iter().map(|e| e.outcome).collect::<Vec<_>>(), [ExecutionOutcome::TimedOut; 2]);
        node.stop().await;
    }

    async fn nodes_share_the_work_and_run_each_job_once(db) {
        async fn count(Input(n): Input<usize>, runs: State<Arc<Vec<AtomicU32>>>) {
            runs[n].fetch_add(1, Ordering::SeqCst);
        }
        let runs: Arc<Vec<AtomicU32>> = Arc::new((0..200).map(|_| AtomicU32::new(0)).collect());
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let builder = Lineclear::builder().store(&db.url).options(quick()).state(runs.clone());
            nodes.push(builder.kind("count", count).start().await.unwrap());
        }
        for n in 0..200 {
            nodes[n % 3].enqueue("count", &n).await.unwrap();
        }
        until("all ran", async || runs.iter().all(|runs| runs.load(Ordering::SeqCst) > 0)).await;
        for node in nodes {
            node.stop().await;
        }
        assert!(runs.iter().all(|runs| runs.load(Ordering::SeqCst) == 1), "none ran twice");
    }

    async fn stopping_waits_for_what_finishes_and_gives_back_what_does_not(db) {
        async fn short() { tokio::time::sleep(Duration::from_millis(300)).await }
        async fn long(cancel: Cancel) -> Result<(), HandlerError> {
            cancel.requested().await;
            Err("stopped".into())
        }
        let options = NodeOptions { shutdown_grace: Duration::from_secs(1), ..quick() };
        let node = Lineclear::builder().store(&db.url).options(options)
            .kind("short", short).kind("long", long).start().await.unwrap();
        let (short, long) = (node.enqueue("short", &()).await.unwrap().id, node.enqueue("long", &()).await.unwrap().id);
        until("both run", async || {
            db.state(&node, short).await == Some(JobState::Running) && db.state(&node, long).await == Some(JobState::Running)
        }).await;
        let store = node.store().clone();
        node.stop().await;
        assert_eq!(store.job(short).await.unwrap().unwrap().job.state, JobState::Completed);
        let back = store.job(long).await.unwrap().unwrap();
        assert_eq!((back.job.state, back.job.failures), (JobState::Queued, Some(0)), "given back, and not charged");
        assert_eq!(back.executions[0].outcome, ExecutionOutcome::Released);
    }

    async fn a_handler_that_blocks_its_thread_keeps_its_lease(db) {
        async fn blocks(runs: State<Arc<Calls>>) {
            runs.add();
            std::thread::sleep(Duration::from_secs(4));
        }
        let runs = Arc::new(Calls::default());
        let short_lease = || NodeOptions {
            lease: Duration::from_millis(1200), renewal: Duration::from_millis(300), slots: 2, ..quick()
        };
        let builder = || Lineclear::builder().store(&db.url).options(short_lease()).state(runs.clone()).kind("blocks", blocks);
        let (one, two) = (builder().start().await.unwrap(), builder().start().await.unwrap());
        let job = one.enqueue("blocks", &()).await.unwrap().id;
        until("it is completed", async || db.state(&one, job).await == Some(JobState::Completed)).await;
        assert_eq!(runs.count(), 1, "the other node did not reclaim it");
        one.stop().await;
        two.stop().await;
    }

    async fn a_panic_while_the_input_is_read_is_a_failure_too(db) {
        struct Panics;
        impl lineclear::handler::FromJob for Panics {
            fn from_job(_: &lineclear::handler::JobContext) -> Result<Panics, lineclear::model::Failure> {
                panic!("no signal")
            }
        }
        async fn never(_: Panics) {}
        let node = Lineclear::builder().store(&db.url).options(quick())
            .kind_with("never", impatient(0), never).start().await.unwrap();
        let job = node.enqueue("never", &()).await.unwrap().id;
        until("it is dead", async || db.state(&node, job).await == Some(JobState::Dead)).await;
        node.stop().await;
    }

    async fn a_node_that_knows_no_kind_takes_no_jobs(db) {
        let node = Lineclear::builder().store(&db.url).options(quick()).start().await.unwrap();
        let job = node.enqueue("unknown", &()).await.unwrap().id;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(db.state(&node, job).await, Some(JobState::Queued));
        node.stop().await;
    }

    async fn a_job_that_is_just_being_taken_does_not_hold_up_a_stop(db) {
        async fn endless(cancel: Cancel) -> Result<(), HandlerError> {
            cancel.requested().await;
            Err("told".into())
        }
        for _ in 0..5 {
            let options = NodeOptions { shutdown_grace: Duration::from_millis(50), ..quick() };
            let node = Lineclear::builder().store(&db.url).options(options).kind("endless", endless).start().await.unwrap();
            node.enqueue("endless", &()).await.unwrap();
            let stopped = tokio::time::timeout(Duration::from_secs(20), node.stop()).await;
            assert!(stopped.is_ok(), "it hangs");
        }
    }

    async fn roles_can_be_left_out(db) {
        async fn never() {}
        let roles = NodeOptions { roles: vec![Role::Planner], ..quick() };
        let node = Lineclear::builder().store(&db.url).options(roles).kind("never", never).start().await.unwrap();
        let job = node.enqueue("never", &()).await.unwrap().id;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(db.state(&node, job).await, Some(JobState::Queued));
        node.stop().await;
    }
}

/// The lease is 1.5 s and trusted for 1.35; the verb's own deadline would be half a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_is_told_before_its_lease_ends_although_the_database_is_silent() {
    async fn endless(cancel: Cancel, told: State<Arc<Calls>>) -> Result<(), HandlerError> {
        cancel.requested().await;
        told.add();
        Err("told".into())
    }
    let database = kit::migrated().await;
    let proxy = lineclear_testkit::Proxy::to_url(database.url()).await.unwrap();
    let told = Arc::new(Calls::default());
    let lease = Duration::from_millis(1500);
    let options = NodeOptions { lease, renewal: lease / 4, shutdown_grace: Duration::ZERO, ..quick() };
    let node = Lineclear::builder()
        .store(proxy.url_for(database.url()))
        .options(options)
        .state(told.clone())
        .kind("endless", endless)
        .start()
        .await
        .unwrap();
    let job = node.enqueue("endless", &()).await.unwrap().id;
    until("it runs", async || node.store().job(job).await.unwrap().unwrap().job.state == JobState::Running)
        .await;
    proxy.silence();
    let silent = std::time::Instant::now();
    until("it is told", async || told.count() == 1).await;
    // Twice the lease for a machine that is busy; the deadline of a verb is twenty times that.
    assert!(silent.elapsed() < lease * 2, "{:?}", silent.elapsed());
    proxy.heal();
    until("it is given back and taken again", async || {
        node.store().job(job).await.is_ok_and(|detail| detail.is_some_and(|detail| detail.job.claim_no >= 2))
    })
    .await;
    let detail = node.store().job(job).await.unwrap().unwrap();
    assert_eq!(detail.executions[0].outcome, ExecutionOutcome::Released, "an outage is no crash");
    node.stop().await;
}

/// The nodes poll once an hour: only a wake-up from another node can make the job run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_enqueued_on_one_node_wakes_the_workers_of_another() {
    async fn noop() {}
    let db = TestStore::postgres().await;
    let sleepy =
        |roles: &[Role]| NodeOptions { roles: roles.to_vec(), poll: Duration::from_secs(3600), ..quick() };
    let workers = Lineclear::builder()
        .store(&db.url)
        .options(sleepy(&[Role::Dispatcher, Role::Workers]))
        .kind("noop", noop)
        .start();
    let workers = workers.await.unwrap();
    let other = Lineclear::builder().store(&db.url).options(sleepy(&[Role::Planner])).start().await.unwrap();
    for _ in 0..5 {
        let job = other.enqueue("noop", &()).await.unwrap().id;
        until("it is completed", async || db.state(&other, job).await == Some(JobState::Completed)).await;
    }
    other.stop().await;
    workers.stop().await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_starts() {
    async fn fine() {}
    let start =
        async |builder: lineclear::node::Builder| builder.start().await.expect_err("refused").to_string();
    let memory = || Lineclear::builder().store(":memory:");
    assert!(start(memory().kind("No", fine)).await.contains("option kind"));
    assert!(start(memory().kind("a", fine).kind("a", fine)).await.contains("two handlers"));
    assert!(start(memory().options(NodeOptions { slots: 0, ..quick() })).await.contains("option slots"));
    async fn stateful(_: State<u32>, _: State<String>) {}
    let refused = start(memory().state(7u32).kind("stateful", stateful)).await;
    assert!(refused.contains("option state: kind stateful") && refused.contains("String"), "{refused}");
    assert!(start(Lineclear::builder().store("mysql://x")).await.contains("mysql:// is not a store"));
}
