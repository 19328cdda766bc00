//! An application that holds a key, a row, the gate or a table slows down only itself (PostgreSQL).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lineclear::model::{GroupSpec, JobState, Manifest, Payload, Schedule};
use lineclear::store::{
    ChangeSource, Dispatch, GLOBAL_GROUP, JobId, Lease, NewJob, NodeId, StoreError, UniqueKey, main_route,
};
use lineclear::{Input, Lineclear, Node, NodeOptions, State, Store, StoreOptions};
use tokio::sync::Semaphore;
use tokio_postgres::Client;

use crate::kit::{TestStore, name, quick, until, until_within};

/// What the handlers of a test share: the kind `gated` waits for a permit, and `overlap` is the most that ran at once.
#[derive(Clone)]
struct Gate {
    permits: Arc<Semaphore>,
    running: Arc<AtomicU32>,
    overlap: Arc<AtomicU32>,
}

impl Gate {
    fn new() -> Gate {
        Gate { permits: Arc::new(Semaphore::new(0)), running: Arc::default(), overlap: Arc::default() }
    }
}

struct Running(Arc<AtomicU32>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn gated(State(gate): State<Gate>) {
    gate.permits.acquire().await.expect("the gate is open").forget();
}

async fn sleeps(Input(millis): Input<u64>, State(gate): State<Gate>) {
    let now = gate.running.fetch_add(1, Ordering::SeqCst) + 1;
    let _running = Running(gate.running.clone());
    gate.overlap.fetch_max(now, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

async fn node(db: &TestStore, gate: &Gate, options: NodeOptions) -> Node {
    Lineclear::builder()
        .store(db.url.as_str())
        .options(options)
        .state(gate.clone())
        .kind("gated", gated)
        .kind("sleeps", sleeps)
        .start()
        .await
        .expect("a node")
}

fn job(kind: &str, input: u64) -> NewJob {
    NewJob::new(name(kind), Payload::of(&input).expect("a payload"))
}

fn keyed(kind: &str, key: &str) -> NewJob {
    NewJob { unique_key: Some(UniqueKey::new(key)), ..job(kind, 0) }
}

/// A session of an application that has done this and stays in its transaction.
async fn holds(db: &TestStore, sql: &str) -> Client {
    let client = db.client().await;
    client.batch_execute(&format!("begin; {sql}")).await.expect("it holds its lock");
    client
}

async fn enqueue_many(node: &Node, jobs: u32) -> Vec<JobId> {
    let all = node.store().enqueue_many(vec![job("sleeps", 0); jobs as usize]).await.expect("enqueued");
    all.iter().map(|one| one.id).collect()
}

/// All of these complete, in less time than any lock of a test is held.
async fn all_complete(db: &TestStore, node: &Node, jobs: &[JobId]) {
    let begun = Instant::now();
    for job in jobs {
        until("it completes", async || db.state(node, *job).await == Some(JobState::Completed)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

async fn assert_nothing_charged(db: &TestStore) {
    assert_eq!(db.number("select count(*) from {t}execution where outcome = 'lost'").await, 0);
    assert_eq!(db.number("select count(*) from {t}dead_letter").await, 0);
}

/// The most jobs that history shows at once, from this column to their end.
async fn overlap_in_history(db: &TestStore, began: &str) -> i64 {
    let sql = format!(
        "select coalesce(max(beside), 0) from (
             select count(*) as beside from {{t}}execution one
             join   {{t}}execution other on other.{began} <= one.{began} and other.finished_at > one.{began}
             group  by one.job_id, one.claim_no) counted"
    );
    db.number(&sql).await
}

#[tokio::test]
async fn an_open_call_of_the_sql_function_delays_neither_its_job_nor_others() {
    let (db, gate) = (TestStore::postgres().await, Gate::new());
    let node = node(&db, &gate, quick()).await;
    let first = node.store().enqueue(keyed("gated", "u1")).await.unwrap().id;
    until("it runs", async || db.state(&node, first).await == Some(JobState::Running)).await;

    let application = holds(&db, "select lineclear.enqueue('gated', unique_key => 'u1')").await;
    let others = enqueue_many(&node, 30).await;
    gate.permits.add_permits(1);
    all_complete(&db, &node, &others).await;
    all_complete(&db, &node, &[first]).await;
    let next = node.store().enqueue(keyed("sleeps", "u1")).await.unwrap();
    assert_ne!(next.id, first, "its key is free again");
    application.batch_execute("rollback").await.unwrap();
    assert_nothing_charged(&db).await;
    node.stop().await;
}

#[tokio::test]
async fn a_key_that_is_locked_when_its_job_ends_is_free_for_the_next() {
    let (db, gate) = (TestStore::postgres().await, Gate::new());
    let node = node(&db, &gate, quick()).await;
    let first = node.store().enqueue(keyed("gated", "u1")).await.unwrap().id;
    until("it runs", async || db.state(&node, first).await == Some(JobState::Running)).await;

    let application = holds(&db, "select from lineclear.job_key for update").await;
    gate.permits.add_permits(1);
    all_complete(&db, &node, &[first]).await;
    application.batch_execute("rollback").await.unwrap();
    assert_eq!(db.number("select count(*) from {t}job_key").await, 1, "it could not be freed");
    let next = node.store().enqueue(keyed("sleeps", "u1")).await.unwrap().id;
    assert_ne!(next, first);
    all_complete(&db, &node, &[next]).await;
    node.stop().await;
}

#[tokio::test]
async fn callers_that_wait_for_a_key_delay_neither_ticks_nor_other_callers() {
    let (db, gate) = (TestStore::postgres().await, Gate::new());
    let node = node(&db, &gate, quick()).await;
    let second = Manifest {
        input: Payload::of(&0).unwrap(),
        ..Manifest::new(name("tick"), name("sleeps"), Schedule::every(Duration::from_secs(1)).unwrap())
    };
    node.store().upsert_manifests([second], ChangeSource::Edit).await.unwrap();
    let application = holds(&db, "select lineclear.enqueue('sleeps', '0', unique_key => 'u1')").await;
    let callers: Vec<_> = (0..16)
        .map(|_| {
            let store = node.store().clone();
            tokio::spawn(async move { store.enqueue(keyed("sleeps", "u1")).await })
        })
        .collect();
    until("they wait", async || {
        db.number("select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").await >= 4
    })
    .await;
    let ticks =
        "select count(*) from {t}execution e where e.outcome = 'completed' and e.manifest_id is not null";
    let before = db.number(ticks).await;
    let others = enqueue_many(&node, 30).await;
    all_complete(&db, &node, &others).await;
    until("three ticks passed", async || db.number(ticks).await >= before + 3).await;
    for caller in callers {
        let error = caller.await.unwrap().expect_err("the key is not free");
        assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    }
    let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    assert_eq!(db.number(waiting).await, 0, "no abandoned statement waits on");
    application.batch_execute("rollback").await.unwrap();
    assert_eq!(db.number("select count(*) from {t}work_queue where unique_key is not null").await, 0);
    node.stop().await;
}

#[tokio::test]
async fn a_locked_job_and_a_locked_manifest_delay_only_their_own_settlements() {
    let (db, gate) = (TestStore::postgres().await, Gate::new());
    let node = node(&db, &gate, quick()).await;
    let day = Schedule::every(Duration::from_secs(86_400)).unwrap();
    let manifest = Manifest::new(name("m"), name("gated"), day);
    node.store().upsert_manifests([manifest], ChangeSource::Edit).await.unwrap();
    let of_manifest = node.store().trigger(name("m"), Default::default()).await.unwrap().unwrap();
    let locked = node.store().enqueue(job("gated", 0)).await.unwrap().id;
    for job in [of_manifest, locked] {
        until("it runs", async || db.state(&node, job).await == Some(JobState::Running)).await;
    }
    let row = format!("select from lineclear.background_job where id = {locked} for update");
    let application = holds(&db, &format!("{row}; select from lineclear.manifest_state for update")).await;
    gate.permits.add_permits(2);
    let others = enqueue_many(&node, 30).await;
    all_complete(&db, &node, &others).await;
    all_complete(&db, &node, &[of_manifest]).await;
    assert_eq!(db.state(&node, locked).await, Some(JobState::Running));
    application.batch_execute("rollback").await.unwrap();
    all_complete(&db, &node, &[locked]).await;
    let noted = format!("select count(*) from {{t}}manifest_state where last_success_job_id = {of_manifest}");
    until("the success is noted", async || db.number(&noted).await == 1).await;
    assert_nothing_charged(&db).await;
    node.stop().await;
}

/// The lease counts from the moment the gate is held, and a handler does not start on what little is left of it.
#[tokio::test]
async fn a_gate_that_is_held_for_longer_than_the_lease_lets_no_limit_be_exceeded() {
    let (db, gate) = (TestStore::postgres().await, Gate::new());
    let lease = Duration::from_secs(2);
    let options = NodeOptions { lease, renewal: lease / 4, ..quick() };
    let nodes = [node(&db, &gate, options.clone()).await, node(&db, &gate, options).await];
    let two = GroupSpec { limit: Some(2), ..GroupSpec::default() };
    nodes[0]
        .store()
        .upsert_groups([(GLOBAL_GROUP.to_owned(), two)].into(), ChangeSource::Edit)
        .await
        .unwrap();
    let jobs = nodes[0].store().enqueue_many(vec![job("sleeps", 300); 20]).await.unwrap();
    for _ in 0..3 {
        let application =
            holds(&db, "select from lineclear.manifest_group where name = '*' for update").await;
        tokio::time::sleep(lease + lease / 2).await;
        application.batch_execute("rollback").await.unwrap();
        tokio::time::sleep(lease / 4).await;
    }
    let jobs: Vec<JobId> = jobs.iter().map(|one| one.id).collect();
    all_complete(&db, &nodes[0], &jobs).await;
    assert!(gate.overlap.load(Ordering::SeqCst) <= 2, "{}", gate.overlap.load(Ordering::SeqCst));
    for began in ["claimed_at", "started_at"] {
        assert!(
            overlap_in_history(&db, began).await <= 2,
            "by {began}: {}",
            overlap_in_history(&db, began).await
        );
    }
    assert_nothing_charged(&db).await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_locked_table_charges_no_job_with_a_crash() {
    let (db, gate) = (TestStore::postgres().await, Gate::new());
    let lease = Duration::from_secs(2);
    let options = NodeOptions { lease, renewal: lease / 4, ..quick() };
    let nodes = [node(&db, &gate, options.clone()).await, node(&db, &gate, options).await];
    let jobs = nodes[0].store().enqueue_many(vec![job("sleeps", 200); 40]).await.unwrap();
    until("some run", async || gate.running.load(Ordering::SeqCst) > 4).await;
    let application = holds(&db, "lock table lineclear.background_job in access exclusive mode").await;
    tokio::time::sleep(lease * 2).await;
    application.batch_execute("rollback").await.unwrap();
    let jobs: Vec<JobId> = jobs.iter().map(|one| one.id).collect();
    all_complete(&db, &nodes[0], &jobs).await;
    assert_eq!(db.number("select coalesce(sum(crashes), 0)::bigint from {t}work_queue").await, 0);
    let crashes = "select count(*) from {t}execution where error_type = 'worker_lost'";
    assert_eq!(db.number(crashes).await, 0);
    assert_eq!(db.number("select count(*) from {t}dead_letter").await, 0);
    for node in nodes {
        node.stop().await;
    }
}

/// The loops skip what an application holds, whatever it is.
#[tokio::test]
async fn an_application_that_holds_every_row_delays_only_those() {
    let (db, gate) = (TestStore::postgres().await, Gate::new());
    let node = node(&db, &gate, quick()).await;
    let hour = Schedule::every(Duration::from_secs(3_600)).unwrap();
    node.store()
        .upsert_manifests([Manifest::new(name("m"), name("gated"), hour)], ChangeSource::Edit)
        .await
        .unwrap();
    let etl = GroupSpec { limit: Some(2), ..GroupSpec::default() };
    node.store().upsert_groups([("etl".to_owned(), etl)].into(), ChangeSource::Edit).await.unwrap();
    let of_manifest = node.store().trigger(name("m"), Default::default()).await.unwrap().unwrap();
    let keyed = node.store().enqueue(keyed("gated", "u1")).await.unwrap().id;
    for job in [of_manifest, keyed] {
        until("it runs", async || db.state(&node, job).await == Some(JobState::Running)).await;
    }
    let later = NewJob { delay: Some(Duration::from_millis(500)), ..job("sleeps", 0) };
    node.store().enqueue_many(vec![later; 3]).await.unwrap();
    node.store()
        .enqueue(NewJob { group: Some(name("etl")), limit_key: Some("l".to_owned()), ..job("gated", 0) })
        .await
        .unwrap();
    let tables = [
        "work_queue",
        "background_job",
        "manifest",
        "manifest_state",
        "manifest_group",
        "job_key",
        "limit_key",
        "tick",
    ];
    let all: Vec<String> =
        tables.iter().map(|table| format!("select from lineclear.{table} for update")).collect();
    let application = holds(&db, &all.join("; ")).await;
    let held = "select count(*) from {t}execution where outcome = 'completed'";
    let before = db.number(held).await;
    for _ in 0..5 {
        let others = enqueue_many(&node, 30).await;
        all_complete(&db, &node, &others).await;
    }
    assert!(db.number(held).await >= before + 150);
    gate.permits.add_permits(10);
    application.batch_execute("rollback").await.unwrap();
    all_complete(&db, &node, &[of_manifest, keyed]).await;
    until("all is done", async || {
        db.number("select (select count(*) from {t}work_queue) + (select count(*) from {t}background_job)")
            .await
            == 0
    })
    .await;
    assert_nothing_charged(&db).await;
    node.stop().await;
}

/// Jobs wait for the gate, and nothing else does: the node accepts jobs, and finds those of a dead worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_held_leaves_a_node_ready_and_lets_it_reclaim() {
    let (db, gate) = (TestStore::postgres().await, Gate::new());
    let store = Store::open(StoreOptions::new(&db.url).unwrap()).await.unwrap();
    let limit = GroupSpec { limit: Some(5), ..GroupSpec::default() };
    store.upsert_groups([(GLOBAL_GROUP.to_owned(), limit)].into(), ChangeSource::Edit).await.unwrap();
    let jobs = store.enqueue_many(vec![job("sleeps", 0); 2]).await.unwrap();
    let gone = Lease { node: NodeId(4711), length: Duration::from_millis(1) };
    assert_eq!(store.dispatch_into_lease(Dispatch::new(main_route(), 1), gone).await.unwrap().len(), 1);
    let application = holds(&db, "select from lineclear.manifest_group where name = '*' for update").await;
    // Long enough that a node which keeps quiet after each failed pass is always quiet.
    let lease = Duration::from_secs(6);
    let node = node(&db, &gate, NodeOptions { lease, renewal: lease / 4, ..quick() }).await;
    let lost = "select count(*) from {t}execution where outcome = 'lost'";
    until("the job of the dead worker is reclaimed", async || {
        let condition = node.store().known_database_condition();
        assert!(condition.is_ok(), "{}", condition.sentence());
        db.number(lost).await == 1
    })
    .await;
    application.batch_execute("rollback").await.unwrap();
    all_complete(&db, &node, &jobs.iter().map(|job| job.id).collect::<Vec<_>>()).await;
    node.stop().await;
}

/// Planning fails for as long as the table is locked, longer than a lease. Leases are renewed meanwhile, so that one that ended is that of a
/// dead worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_that_only_planning_needs_lets_a_node_reclaim() {
    let (db, gate) = (TestStore::postgres().await, Gate::new());
    // Long enough that a node which keeps quiet after each failed plan is always quiet.
    let lease = Duration::from_secs(10);
    let node = node(&db, &gate, NodeOptions { lease, renewal: lease / 4, ..quick() }).await;
    let second = Manifest::new(name("m"), name("gated"), Schedule::every(Duration::from_secs(1)).unwrap());
    let application = holds(&db, "lock table lineclear.tick in access exclusive mode").await;
    let locked = Instant::now();
    node.store().upsert_manifests([second], ChangeSource::Edit).await.unwrap();
    // No node serves this route.
    let elsewhere = NewJob { route: name("elsewhere"), ..job("sleeps", 0) };
    node.store().enqueue(elsewhere).await.unwrap();
    let gone = Lease { node: NodeId(4711), length: Duration::from_millis(1) };
    let dispatch = Dispatch::new(name("elsewhere"), 1);
    assert_eq!(node.store().dispatch_into_lease(dispatch, gone).await.unwrap().len(), 1);
    let lost = "select count(*) from {t}execution where outcome = 'lost'";
    until_within(lease * 4, "the job of the dead worker is reclaimed", async || db.number(lost).await == 1)
        .await;
    println!("reclaimed {:?} after the table was locked", locked.elapsed());
    application.batch_execute("rollback").await.unwrap();
    let ticks = "select count(*) from {t}tick";
    until("ticks are planned again", async || db.number(ticks).await > 0).await;
    node.stop().await;
}
