//! Many processes compete for the same tick or job: one of them gets it.

use std::collections::BTreeSet;
use std::time::Duration;

use lineclear::model::{Manifest, Overlap, Payload, Schedule};
use lineclear::store::ChangeSource;
use lineclear_testkit::Child;

use crate::children::{crowd, end, lines, program, sleep, store, up};
use crate::kit::{TestStore, name, until_within};

const MANIFESTS: i64 = 1_000;
const JOBS: usize = 5_000;
/// Debug code, two cores, and other tests beside it.
const PATIENCE: Duration = Duration::from_secs(150);

/// Every two seconds all manifests are due at one moment, to which all planners wake.
async fn one_job_per_tick(db: &TestStore, planners: usize, led: bool) {
    let programs = (0..planners).map(|_| {
        let planner = program(db, "planner");
        if led { planner } else { planner.env("LINECLEAR_UNLED", "1") }
    });
    let planners = up(programs).await;
    let manifest = |n: i64| Manifest {
        overlap: Some(Overlap::Allow),
        input: Payload::of(&0).unwrap(),
        ..Manifest::new(
            name(&format!("m{n}")),
            name("sleep"),
            Schedule::every(Duration::from_secs(2)).unwrap(),
        )
    };
    store(db).await.upsert_manifests((0..MANIFESTS).map(manifest), ChangeSource::Declaration).await.unwrap();
    let ticks = "select count(distinct tick_at) from {t}work_queue";
    until_within(PATIENCE, "four ticks came", async || db.number(ticks).await >= 4).await;
    let planners = end(planners).await;

    let jobs = db.number("select count(*) from {t}work_queue").await;
    let pairs = "select count(*) from (select distinct manifest_id, tick_at from {t}work_queue) as pairs";
    assert_eq!(db.number(pairs).await, jobs, "no tick has two jobs");
    let ledger = "select count(*) from {t}tick t join {t}work_queue w on w.id = t.job_id";
    assert_eq!(db.number(ledger).await, jobs, "each job is the one of its tick");
    let skipped = "select count(*) from {t}tick where job_id is null";
    assert_eq!(db.number(skipped).await, 0);
    // The last may have been under way when they were told to end.
    let holes = format!(
        "select count(*) from (select tick_at from {{t}}work_queue \
         where tick_at < (select max(tick_at) from {{t}}work_queue) \
         group by tick_at having count(*) <> {MANIFESTS}) as holes"
    );
    assert_eq!(db.number(&holes).await, 0, "each manifest has a job for each tick");
    for planner in &planners {
        assert!(planner.stderr().is_empty(), "a planner complained: {:?}", planner.stderr());
    }
}

/// Checks that the children printed `did` once for each job, and each child for at least one job.
async fn each_once(children: Vec<Child>, did: &str) -> Vec<Child> {
    let count = || lines(&children, did).len();
    let deadline = std::time::Instant::now() + PATIENCE;
    while count() < JOBS {
        assert!(std::time::Instant::now() < deadline, "{} of {JOBS} {did}", count());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let all = lines(&children, did);
    let different: BTreeSet<i64> = all.iter().map(|(job, _)| *job).collect();
    assert_eq!((all.len(), different.len()), (JOBS, JOBS), "{did}, each job once");
    for child in &children {
        assert!(!lines(std::slice::from_ref(child), did).is_empty(), "process {} had no share", child.id());
    }
    children
}

async fn each_job_is_handed_over_claimed_and_completed_once(
    db: &TestStore,
    dispatchers: usize,
    claimers: usize,
) {
    let store = store(db).await;
    let dispatching = crowd(dispatchers, db, "dispatching", &[]).await;
    store.enqueue_many(vec![sleep(0); JOBS]).await.unwrap();
    drop(each_once(dispatching, "handed over").await);
    let ready = "select count(*) from {t}background_job where leased_by is null and claim_no = 0";
    assert_eq!(db.number(ready).await, i64::try_from(JOBS).unwrap());

    let claiming = crowd(claimers, db, "claiming", &[]).await;
    let claiming = each_once(claiming, "accepted").await;
    assert_eq!(lines(&claiming, "refused"), []);
    drop(claiming);
    completed_once(db).await;
}

async fn each_job_runs_once_on_nodes(db: &TestStore, nodes: usize, roles: &str, slots: &str) {
    let store = store(db).await;
    let nodes = crowd(nodes, db, roles, &[slots]).await;
    store.enqueue_many(vec![sleep(0); JOBS]).await.unwrap();
    // By a busy machine, a node may give a claim back unstarted because its answer came late: the next one has another number.
    let nodes = each_once(nodes, " ended").await;
    let nodes = end(nodes).await;
    assert_eq!(lines(&nodes, "started").len(), JOBS, "no other claim was begun");
    let released = "select count(*) from {t}execution where outcome = 'released'";
    let jobs = i64::try_from(JOBS).unwrap();
    let all = "select count(*) from {t}execution";
    assert_eq!(db.number(all).await - db.number(released).await, jobs, "each job has one execution");
    none_left(db).await;
}

async fn none_left(db: &TestStore) {
    let live = "select (select count(*) from {t}work_queue) + (select count(*) from {t}background_job)";
    assert_eq!(db.number(live).await, 0);
    let jobs = i64::try_from(JOBS).unwrap();
    let completed = "select count(*) from {t}execution where final and outcome = 'completed'";
    assert_eq!(db.number(completed).await, jobs);
}

/// One accepted completion for each job, at its first claim, and nothing is left.
async fn completed_once(db: &TestStore) {
    let jobs = i64::try_from(JOBS).unwrap();
    let first = "select count(*) from {t}execution where final and outcome = 'completed' and claim_no = 1";
    assert_eq!(db.number(first).await, jobs);
    assert_eq!(db.number("select count(*) from {t}execution").await, jobs);
    none_left(db).await;
}

#[tokio::test]
async fn eight_planners_make_one_job_per_tick() {
    one_job_per_tick(&TestStore::postgres().await, 8, true).await;
}

#[cfg(feature = "crash-points")]
#[tokio::test]
async fn eight_planners_without_their_lock_make_one_job_per_tick() {
    one_job_per_tick(&TestStore::postgres().await, 8, false).await;
}

#[tokio::test]
async fn two_planners_on_one_file_make_one_job_per_tick() {
    one_job_per_tick(&TestStore::sqlite().await, 2, true).await;
}

#[tokio::test]
async fn eight_dispatchers_and_sixteen_workers_handle_each_job_once() {
    each_job_is_handed_over_claimed_and_completed_once(&TestStore::postgres().await, 8, 4).await;
}

#[tokio::test]
async fn two_processes_on_one_file_handle_each_job_once() {
    each_job_is_handed_over_claimed_and_completed_once(&TestStore::sqlite().await, 2, 2).await;
}

#[tokio::test]
async fn four_nodes_with_sixteen_slots_run_each_job_once() {
    each_job_runs_once_on_nodes(&TestStore::postgres().await, 4, "workers", "slots=4").await;
}

/// Hand-over and claim in two steps, on nodes that have only the one role or the other.
#[tokio::test]
async fn eight_dispatching_nodes_and_sixteen_workers_run_each_job_once() {
    let db = TestStore::postgres().await;
    let _dispatchers = crowd(8, &db, "dispatcher", &[]).await;
    each_job_runs_once_on_nodes(&db, 4, "claimers", "slots=4").await;
}

#[tokio::test]
async fn two_nodes_on_one_file_run_each_job_once() {
    each_job_runs_once_on_nodes(&TestStore::sqlite().await, 2, "workers", "slots=8").await;
}
