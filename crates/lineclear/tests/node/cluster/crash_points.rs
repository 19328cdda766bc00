//! Real processes on one database, really frozen and killed.

use std::time::{Duration, Instant};

use lineclear::model::{ExecutionOutcome, JobState, Manifest, Payload, Schedule};
use lineclear::store::{ChangeSource, NewJob, TriggerOptions};

use crate::children::{
    LEASE, LONG, count, crowd, end, lines, outcomes, program, sleep, sleeps, start, state, store,
};
use crate::kit::{TestStore, name, until};

async fn a_killed_workers_job_runs_elsewhere_soon(db: &TestStore) {
    let store = store(db).await;
    let mut first = start(db, "workers").await;
    let job = store.enqueue(sleep(2_500)).await.unwrap().id;
    first.wait_for_line("claim 1 started", LONG).await.unwrap();
    let second = start(db, "workers").await;
    first.kill().unwrap();
    let killed = Instant::now();
    second.wait_for_line(&format!("job {job} claim 2 started"), LONG).await.unwrap();
    // Lease and two seconds; as much again for a machine that is busy with other tests.
    assert!(killed.elapsed() < (LEASE + Duration::from_secs(2)) * 2, "{:?}", killed.elapsed());
    until("it is completed", async || state(&store, job).await == Some(JobState::Completed)).await;
    assert_eq!(outcomes(&store, job).await, [ExecutionOutcome::Lost, ExecutionOutcome::Completed]);
}

async fn a_worker_that_was_frozen_past_its_lease_changes_nothing(db: &TestStore) {
    let store = store(db).await;
    let mut first = start(db, "workers").await;
    let job = store.enqueue(sleeps(1_000, 3_000)).await.unwrap().id;
    first.wait_for_line("claim 1 started", LONG).await.unwrap();
    first.pause().await.unwrap();
    let second = start(db, "workers").await;
    second.wait_for_line(&format!("job {job} claim 2 started"), LONG).await.unwrap();
    first.resume().unwrap();
    let warned = first.wait_for_line("results came too late", LONG).await.unwrap();
    assert!(warned.starts_with("WARN") && warned.contains("stale=1"), "warned of: {warned}");
    assert!(first.stderr().contains(&"counted 1 late".to_owned()), "and counted: {:?}", first.stderr());
    assert_eq!(state(&store, job).await, Some(JobState::Running), "it is the second one's now");
    until("it is completed", async || state(&store, job).await == Some(JobState::Completed)).await;
    let both = end(vec![first, second]).await;
    assert_eq!(outcomes(&store, job).await, [ExecutionOutcome::Lost, ExecutionOutcome::Completed]);
    let late = both[1].stderr().iter().any(|line| line.contains("results came too late"));
    assert!(!late, "the result that counts is the second one's");
}

/// No node can tell a process that is paused from one that is dead. It lives, so its job is not charged in the end.
async fn a_worker_that_was_taken_for_dead_and_comes_back_takes_back_its_charge(db: &TestStore) {
    let store = store(db).await;
    let mut first = start(db, "workers").await;
    let job = store.enqueue(sleeps(600_000, 600_000)).await.unwrap().id;
    first.wait_for_line("claim 1 started", LONG).await.unwrap();
    first.pause().await.unwrap();
    let second = start(db, "workers").await;
    second.wait_for_line(&format!("job {job} claim 2 started"), LONG).await.unwrap();
    assert_eq!(
        db.number("select count(*) from {t}background_job where crashes = 1").await,
        1,
        "it looked dead"
    );
    first.resume().unwrap();
    first.wait_for_line("the crash that the job was charged with is taken back", LONG).await.unwrap();
    assert_eq!(db.number("select count(*) from {t}background_job where crashes = 0").await, 1);
    let late = "select count(*) from {t}execution where outcome = 'lost' and error_type = 'worker_late'";
    assert_eq!(db.number(late).await, 1);
}

async fn processes_share_jobs_and_run_each_once(db: &TestStore) {
    let store = store(db).await;
    store.enqueue_many(vec![sleep(0); 600]).await.unwrap();
    let mut children = Vec::new();
    for _ in 0..4 {
        children.push(start(db, "workers").await);
    }
    until("all are completed", async || count(&store, JobState::Completed).await == 600).await;
    let mut ended = 0;
    for mut child in children {
        child.terminate().unwrap();
        assert!(child.wait_for_exit(LONG).await.unwrap().success());
        ended += child.stdout().iter().filter(|line| line.contains(" ended")).count();
    }
    assert_eq!(
        ended, 600,
        "each ran once; a node that was slow may have given some back before they started"
    );
}

async fn processes_that_plan_at_once_make_one_job_per_tick(db: &TestStore) {
    let store = store(db).await;
    let soon = Schedule::once(store.next_plan().await.unwrap().now.offset(2_000_000)).unwrap();
    let manifest = |n: u32| Manifest {
        input: Payload::of(&0).unwrap(),
        ..Manifest::new(name(&format!("m{n}")), name("sleep"), soon.clone())
    };
    store.upsert_manifests((0..300).map(manifest), ChangeSource::Declaration).await.unwrap();
    let mut children = Vec::new();
    for _ in 0..4 {
        children.push(start(db, "planner").await);
    }
    until("all are queued", async || count(&store, JobState::Queued).await >= 300).await;
    drop(children);
    assert_eq!(count(&store, JobState::Queued).await, 300);
}

async fn told_twice_to_end_a_process_gives_its_job_back_at_once(db: &TestStore) {
    let store = store(db).await;
    let mut child = start(db, "workers").await;
    let job = store.enqueue(NewJob::new(name("endless"), Payload::empty())).await.unwrap().id;
    child.wait_for_line("claim 1 started", LONG).await.unwrap();
    child.terminate().unwrap();
    assert!(child.wait_for_exit(Duration::from_secs(2)).await.is_err(), "the time of grace is 30 s");
    // It takes nothing new any more, and still lets the job run.
    let later = store.enqueue(sleep(0)).await.unwrap().id;
    assert_eq!(state(&store, job).await, Some(JobState::Running));
    let told = Instant::now();
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    assert!(told.elapsed() < Duration::from_secs(15), "{:?}", told.elapsed());
    assert_eq!(outcomes(&store, job).await, [ExecutionOutcome::Released]);
    assert_eq!(state(&store, job).await, Some(JobState::Queued));
    assert_eq!(state(&store, later).await, Some(JobState::Queued));
}

/// They clean all the time, while what they clean is being written.
async fn processes_that_clean_at_once_all_succeed(db: &TestStore) {
    let store = store(db).await;
    let cleaners = crowd(2, db, "cleaner", &["keep=1", "clean=10"]).await;
    let worker = start(db, "workers").await;
    store.enqueue_many(vec![sleep(0); 2_000]).await.unwrap();
    worker.wait_for_lines("ended", 2_000, LONG).await.unwrap();
    let worker = end(vec![worker]).await;
    assert_eq!(lines(&worker, "ended").len(), 2_000, "no live work was touched");
    until("all is gone", async || db.number("select count(*) from {t}execution").await == 0).await;
    for cleaner in end(cleaners).await {
        assert_eq!(cleaner.stderr(), [""; 0], "no cleaner complained");
    }
}

macro_rules! on_each_store {
    ($($name:ident)+) => { $(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn sqlite() {
                super::$name(&TestStore::sqlite().await).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$name(&TestStore::postgres().await).await;
            }
        }
    )+ };
}

on_each_store! {
    a_killed_workers_job_runs_elsewhere_soon
    a_worker_that_was_frozen_past_its_lease_changes_nothing
    a_worker_that_was_taken_for_dead_and_comes_back_takes_back_its_charge
    processes_share_jobs_and_run_each_once
    processes_that_plan_at_once_make_one_job_per_tick
    told_twice_to_end_a_process_gives_its_job_back_at_once
    processes_that_clean_at_once_all_succeed
}

/// Frozen at the named point, and killed there.
#[cfg(feature = "crash-points")]
mod at_a_crash_point {
    use super::*;

    async fn killed_at(db: &TestStore, roles: &str, point: &str) {
        let mut child = program(db, roles).stop_at(point).start().unwrap();
        child.wait_until_stopped(LONG).await.unwrap();
        child.kill().unwrap();
    }

    async fn killed_while_planning_nothing_remains_and_the_next_cycle_does_it(db: &TestStore) {
        let store = store(db).await;
        let once = Schedule::once(store.next_plan().await.unwrap().now.offset(-1_000_000)).unwrap();
        let manifest = Manifest::new(name("m"), name("sleep"), once);
        store.upsert_manifests([manifest], ChangeSource::Declaration).await.unwrap();
        killed_at(db, "planner", "plan.before_commit").await;
        assert_eq!(count(&store, JobState::Queued).await, 0, "nothing of the cycle remains");
        let _next = start(db, "planner").await;
        until("it is queued", async || count(&store, JobState::Queued).await == 1).await;
    }

    async fn killed_while_dispatching_the_row_is_still_queued(db: &TestStore) {
        let store = store(db).await;
        let limited = lineclear::model::GroupSpec { limit: Some(1), ..Default::default() };
        store.upsert_groups([("g".to_owned(), limited)].into(), ChangeSource::Edit).await.unwrap();
        let job = store.enqueue(NewJob { group: Some(name("g")), ..sleep(0) }).await.unwrap().id;
        killed_at(db, "workers", "dispatch.before_commit").await;
        assert_eq!(state(&store, job).await, Some(JobState::Queued));
        let _next = start(db, "workers").await;
        until("it is completed", async || state(&store, job).await == Some(JobState::Completed)).await;
        assert_eq!(
            outcomes(&store, job).await,
            [ExecutionOutcome::Completed],
            "one hand-over, one execution"
        );
    }

    async fn killed_before_its_result_was_written_the_job_runs_again(db: &TestStore) {
        let store = store(db).await;
        let job = store.enqueue(sleep(0)).await.unwrap().id;
        killed_at(db, "workers", "settle.before_commit").await;
        assert_ne!(state(&store, job).await, Some(JobState::Completed), "the result was not committed");
        let _next = start(db, "workers").await;
        until("it is completed", async || state(&store, job).await == Some(JobState::Completed)).await;
        assert_eq!(outcomes(&store, job).await, [ExecutionOutcome::Lost, ExecutionOutcome::Completed]);
    }

    /// The server ends a transaction that idles. On SQLite a frozen writer holds the file's lock until it is ended.
    #[tokio::test]
    async fn a_planner_frozen_inside_its_transaction_is_replaced() {
        let db = TestStore::postgres().await;
        let store = store(&db).await;
        let once = Schedule::once(store.next_plan().await.unwrap().now.offset(-1_000_000)).unwrap();
        let manifest = Manifest::new(name("m"), name("sleep"), once);
        store.upsert_manifests([manifest], ChangeSource::Declaration).await.unwrap();
        let mut frozen = program(&db, "planner").stop_at("plan.before_commit").start().unwrap();
        frozen.wait_until_stopped(LONG).await.unwrap();
        let since = Instant::now();
        let _other = start(&db, "planner").await;
        until("it is queued", async || count(&store, JobState::Queued).await == 1).await;
        assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
        frozen.resume().unwrap();
        until("the old one goes on", async || frozen.wait_for_line("is up", LONG).await.is_ok()).await;
        assert_eq!(count(&store, JobState::Queued).await, 1, "it changed nothing when it woke");
    }

    /// It holds locks on the manifests of its jobs, which a settle of their other jobs needs.
    async fn a_worker_frozen_while_it_settles_holds_up_others_for_seconds(db: &TestStore) {
        let store = store(db).await;
        let on_demand = Schedule::on_demand();
        let manifest = Manifest {
            input: Payload::of(&0).unwrap(),
            ..Manifest::new(name("m"), name("sleep"), on_demand)
        };
        store.upsert_manifests([manifest], ChangeSource::Declaration).await.unwrap();
        store.trigger(name("m"), TriggerOptions::default()).await.unwrap();
        let mut frozen = program(db, "workers").stop_at("settle.before_commit").start().unwrap();
        frozen.wait_until_stopped(LONG).await.unwrap();
        let since = Instant::now();
        store.trigger(name("m"), TriggerOptions::default()).await.unwrap();
        let _other = start(db, "workers").await;
        until("the second one is completed", async || count(&store, JobState::Completed).await >= 1).await;
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
        frozen.kill().unwrap();
    }

    #[tokio::test]
    async fn a_worker_frozen_while_it_settles_holds_up_others_for_seconds_on_postgres() {
        a_worker_frozen_while_it_settles_holds_up_others_for_seconds(&TestStore::postgres().await).await;
    }

    #[tokio::test]
    async fn a_worker_frozen_while_it_settles_holds_up_others_for_seconds_through_pgbouncer() {
        a_worker_frozen_while_it_settles_holds_up_others_for_seconds(&TestStore::pgbouncer().await).await;
    }

    on_each_store! {
        killed_while_planning_nothing_remains_and_the_next_cycle_does_it
        killed_while_dispatching_the_row_is_still_queued
    }

    // On PostgreSQL one statement settles an ad-hoc job by itself: the point lies behind its commit there.
    #[tokio::test]
    async fn killed_before_its_result_was_written_on_sqlite() {
        killed_before_its_result_was_written_the_job_runs_again(&TestStore::sqlite().await).await;
    }
}
