//! Nodes with different roles, kinds and options.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear::model::{ExecutionOutcome, JobState, Manifest, Payload, Schedule};
use lineclear::store::{ChangeSource, Dispatch, Lease, Limits, NewJob, NodeId};
use lineclear::{Cancel, HandlerError, Input, Lineclear, NodeOptions, Role, Store, StoreOptions};
use lineclear_testkit::Proxy;

use crate::Calls;
use crate::kit::{TestStore, name, quick, until};

fn with(roles: &[Role]) -> NodeOptions {
    NodeOptions { roles: roles.to_vec(), ..quick() }
}

async fn noop() {}

on_each_store! {
    async fn one_node_dispatches_another_runs_and_neither_does_the_others_part(db) {
        let dispatcher = Lineclear::builder().store(&db.url)
            .options(NodeOptions { dispatch_ahead: 3, ..with(&[Role::Dispatcher]) }).start().await.unwrap();
        let jobs = vec![NewJob::new(name("noop"), Payload::of(&()).unwrap()); 10];
        let jobs: Vec<_> = dispatcher.store().enqueue_many(jobs).await.unwrap().iter().map(|job| job.id).collect();
        let look = async || dispatcher.store().poll_work(vec![name("main")], 100).await.unwrap().routes[0].clone();
        until("some are handed over", async || look().await.handed == 3).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(look().await.handed, 3, "no more than asked for stand ready");

        let workers = Lineclear::builder().store(&db.url).options(with(&[Role::Workers])).kind("noop", noop).start().await.unwrap();
        for job in jobs {
            until("it is completed", async || db.state(&workers, job).await == Some(JobState::Completed)).await;
        }
        dispatcher.stop().await;
        let left = workers.enqueue("noop", &()).await.unwrap().id;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(db.state(&workers, left).await, Some(JobState::Queued), "no node dispatches");
        workers.stop().await;
    }

    async fn a_dispatcher_keeps_workers_busy_without_waiting_for_its_next_poll(db) {
        let workers = Lineclear::builder().store(&db.url).options(with(&[Role::Workers])).kind("noop", noop).start().await.unwrap();
        let jobs = vec![NewJob::new(name("noop"), Payload::of(&()).unwrap()); 30];
        let last = workers.store().enqueue_many(jobs).await.unwrap().last().unwrap().id;
        // Six dispatches: with a minute between them, the test would time out.
        let dispatcher = Lineclear::builder().store(&db.url)
            .options(NodeOptions { dispatch_ahead: 5, poll: Duration::from_secs(60), ..with(&[Role::Dispatcher]) })
            .start().await.unwrap();
        until("the last one is completed", async || db.state(&workers, last).await == Some(JobState::Completed)).await;
        dispatcher.stop().await;
        workers.stop().await;
    }

    async fn a_dispatcher_takes_back_what_no_worker_claims_within_a_lease(db) {
        let lease = Duration::from_millis(1500);
        let options = NodeOptions { dispatch_ahead: 1, lease, renewal: lease / 4, ..with(&[Role::Dispatcher]) };
        let dispatcher = Lineclear::builder().store(&db.url).options(options).start().await.unwrap();
        let job = dispatcher.enqueue("noop", &()).await.unwrap().id;
        until("it is handed over", async || db.state(&dispatcher, job).await == Some(JobState::Ready)).await;
        until("it waits again", async || db.state(&dispatcher, job).await == Some(JobState::Queued)).await;
        dispatcher.stop().await;
    }

    async fn a_job_of_an_unknown_kind_is_parked_and_runs_when_a_node_knows_it(db) {
        let old = Lineclear::builder().store(&db.url).options(quick()).kind("old", noop).start().await.unwrap();
        let job = old.enqueue("new", &()).await.unwrap().id;
        until("it is parked", async || db.state(&old, job).await == Some(JobState::Parked)).await;
        let new = Lineclear::builder().store(&db.url).options(NodeOptions { heartbeat: Duration::from_millis(100), ..quick() })
            .kind("new", noop).start().await.unwrap();
        // The old node may claim it again before the new one does; the new one unparks it each time.
        until("it is completed", async || db.state(&new, job).await == Some(JobState::Completed)).await;
        old.stop().await;
        new.stop().await;
    }

    async fn with_a_visibility_timeout_nothing_is_renewed_and_a_handler_that_needs_longer_runs_again(db) {
        async fn long(calls: lineclear::State<Arc<Calls>>, cancel: Cancel) -> Result<(), HandlerError> {
            if calls.add() == 1 {
                cancel.requested().await;
                return Err("not finished".into());
            }
            Ok(())
        }
        let calls = Arc::new(Calls::default());
        let options = NodeOptions { visibility_timeout: Some(Duration::from_secs(1)), ..quick() };
        let node = Lineclear::builder().store(&db.url).options(options).state(calls.clone()).kind("long", long).start().await.unwrap();
        let begun = Instant::now();
        let job = node.enqueue("long", &()).await.unwrap().id;
        until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        assert!(begun.elapsed() > Duration::from_millis(800), "the first was stopped when its time was nearly over");
        let outcomes: Vec<_> = node.store().job(job).await.unwrap().unwrap().executions.iter().map(|e| e.outcome).collect();
        assert_eq!(outcomes, [ExecutionOutcome::Released, ExecutionOutcome::Completed]);
        node.stop().await;
    }

    async fn a_job_on_its_last_chance_runs_alone(db) {
        #[derive(Default)]
        struct Here(std::sync::Mutex<(u32, bool)>);
        async fn visit(Input(alone): Input<bool>, here: lineclear::State<Here>) {
            {
                let mut seen = here.0.0.lock().unwrap();
                assert!(!alone || seen.0 == 0, "no other job runs");
                assert!(!seen.1, "no job runs alone");
                seen.0 += 1;
                seen.1 |= alone;
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
            let mut seen = here.0.0.lock().unwrap();
            seen.0 -= 1;
            seen.1 &= !alone;
        }
        let store = Store::open(StoreOptions::new(&db.url).unwrap()).await.unwrap();
        let job = |alone: bool| NewJob::new(name("visit"), Payload::of(&alone).unwrap());
        let crashed: Vec<_> = store.enqueue_many(vec![job(true); 2]).await.unwrap().iter().map(|job| job.id).collect();
        db.sql("update {t}work_queue set crashes = 2").await;
        let others: Vec<_> = store.enqueue_many(vec![job(false); 20]).await.unwrap().iter().map(|job| job.id).collect();
        let node = Lineclear::builder().store(&db.url).options(NodeOptions { slots: 8, ..quick() })
            .state(Here::default()).kind("visit", visit).start().await.unwrap();
        for id in crashed.into_iter().chain(others) {
            until("it is completed", async || db.state(&node, id).await == Some(JobState::Completed)).await;
            let detail = store.job(id).await.unwrap().unwrap();
            let failed = detail.executions.iter().any(|execution| execution.outcome == ExecutionOutcome::Failed);
            assert!(!failed, "{detail:?}");
        }
        node.stop().await;
    }

    async fn a_manifest_that_comes_while_the_planner_sleeps_is_planned_in_time(db) {
        let options = NodeOptions { plan_interval: Duration::from_secs(600), ..quick() };
        let node = Lineclear::builder().store(&db.url).options(options).kind("noop", noop).start().await.unwrap();
        // On PostgreSQL from elsewhere; on SQLite in the same program.
        let store = if db.url.starts_with("postgres") {
            let listens = "select count(*) from pg_stat_activity where datname = current_database() and query like 'listen %'";
            until("it listens", async || db.number(listens).await > 0).await;
            Store::open(StoreOptions::new(&db.url).unwrap()).await.unwrap()
        } else {
            node.store().clone()
        };
        tokio::time::sleep(Duration::from_millis(300)).await;
        let manifest = Manifest::new(name("clock"), name("noop"), Schedule::every(Duration::from_secs(1)).unwrap());
        store.upsert_manifests([manifest], ChangeSource::Edit).await.unwrap();
        until("it ran", async || db.number("select count(*) from {t}execution").await > 0).await;
        node.stop().await;
    }

    async fn a_node_says_how_its_runners_are(db) {
        let options = NodeOptions { heartbeat: Duration::from_millis(50), limits: Limits::Soft, ..quick() };
        let node = Lineclear::builder().store(&db.url).options(options).kind("noop", noop).start().await.unwrap();
        until("it tells", async || {
            let nodes = node.store().nodes(10).await.unwrap();
            nodes.iter().any(|view| view.runners.contains("planner") && view.runners.contains("dispatcher"))
        }).await;
        node.stop().await;
    }
}

/// The database has given a lease to this node, and the answer was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_whose_dispatch_was_not_answered_are_given_back_uncharged() {
    let db = TestStore::postgres().await;
    let store = Store::open(StoreOptions::new(&db.url).unwrap()).await.unwrap();
    let job = store.enqueue(NewJob::new(name("noop"), Payload::of(&()).unwrap())).await.unwrap().id;
    let lease = Lease { node: NodeId(1_000), length: Duration::from_secs(600) };
    assert_eq!(store.dispatch_into_lease(Dispatch::new(name("main"), 1), lease).await.unwrap().len(), 1);
    let proxy = Proxy::to_url(&db.url).await.unwrap();
    let url = proxy.url_for(&db.url);
    let node = Lineclear::builder().store(url).options(quick()).kind("noop", noop).start().await.unwrap();
    db.sql(&format!("update {{t}}background_job set leased_by = {}", node.id())).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(db.state(&node, job).await, Some(JobState::Running), "nothing was amiss yet");
    proxy.cut().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.heal();
    until("it is completed", async || {
        store.job(job).await.unwrap().unwrap().job.state == JobState::Completed
    })
    .await;
    let outcomes: Vec<_> =
        store.job(job).await.unwrap().unwrap().executions.iter().map(|e| e.outcome).collect();
    assert_eq!(outcomes, [ExecutionOutcome::Released, ExecutionOutcome::Completed]);
    node.stop().await;
}

/// A dispatch without an answer may still commit: until its outcome is known, its node does not report that it is drained.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_not_drained_while_a_dispatch_that_was_not_answered_may_come_through() {
    let db = TestStore::postgres().await;
    let store = Store::open(StoreOptions::new(&db.url).unwrap()).await.unwrap();
    let proxy = Proxy::to_url(&db.url).await.unwrap();
    let options = NodeOptions {
        lease: Duration::from_secs(4),
        renewal: Duration::from_secs(1),
        heartbeat: Duration::from_millis(100),
        ..quick()
    };
    let url = proxy.url_for(&db.url);
    let node = Lineclear::builder().store(url).options(options).kind("noop", noop).start().await.unwrap();
    let view = async || store.nodes(10).await.unwrap().remove(0);
    proxy.cut().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(store.drain_node(node.id(), "ann").await.unwrap());
    proxy.heal();
    let healed = view().await.seen_at;
    // Long enough for a pass that began before it heard of the drain: on a busy machine a new connection takes a while.
    until("it has said often that it lives", async || view().await.seen_at > healed.offset(1_800_000)).await;
    assert_eq!(view().await.state(), "draining", "its last dispatch may have begun");
    // Now the late lease appears.
    let job = store.enqueue(NewJob::new(name("noop"), Payload::of(&()).unwrap())).await.unwrap().id;
    let lease = Lease { node: node.id(), length: Duration::from_secs(600) };
    assert_eq!(store.dispatch_into_lease(Dispatch::new(name("main"), 1), lease).await.unwrap().len(), 1);
    until("it is drained", async || view().await.state() == "drained").await;
    assert_eq!(db.state(&node, job).await, Some(JobState::Queued), "it was given back");
    node.stop().await;
}
