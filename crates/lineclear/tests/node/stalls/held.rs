//! An application holds a key, a row, a gate or a table, with sixteen callers blocked on it and a pool of eight (PostgreSQL): ticks are planned on
//! time, other jobs do not wait for it, no limit is exceeded and no crash is charged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lineclear::model::{GroupSpec, Manifest, Schedule};
use lineclear::store::{ChangeSource, GLOBAL_GROUP, JobId, NewJob, UniqueKey};
use lineclear::{Node, Store};
use tokio::task::JoinHandle;

use super::length;
use super::world::{Work, World, with_lease};
use crate::kit::{TestStore, name, until, until_within};

const LEASE: Duration = Duration::from_secs(5);
const CALLERS: usize = 16;
const GROUP: u32 = 2;
/// Below this, p99 is the noise of a machine that is busy with other tests.
const NOISE: Duration = Duration::from_millis(300);

/// What the application holds, and what its callers want.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    Key,
    Row,
    /// The gate of a group with a limit.
    Group,
    /// The global gate: every dispatch needs it.
    Global,
    /// The table of history: no job can be settled.
    Table,
}

fn limit(limit: u32) -> GroupSpec {
    GroupSpec { limit: Some(limit), ..GroupSpec::default() }
}

impl Held {
    fn sql(self, job: JobId) -> String {
        match self {
            Held::Key => "select lineclear.enqueue('work', '{}', unique_key => 'held')".to_owned(),
            Held::Row => format!("select from lineclear.background_job where id = {job} for update"),
            Held::Group => "select from lineclear.manifest_group where name = 'etl' for update".to_owned(),
            Held::Global => "select from lineclear.manifest_group where name = '*' for update".to_owned(),
            Held::Table => "lock table lineclear.execution in access exclusive mode".to_owned(),
        }
    }

    /// Other jobs can run meanwhile.
    fn lets_others_run(self) -> bool {
        !matches!(self, Held::Global | Held::Table)
    }

    /// A call that meets what is held.
    async fn call(self, store: &Store, job: JobId) -> bool {
        match self {
            Held::Key => {
                let keyed = NewJob { unique_key: Some(UniqueKey::new("held")), ..Work::default().job() };
                store.enqueue(keyed).await.is_ok()
            }
            Held::Row => store.cancel(job).await.is_ok(),
            Held::Group => store
                .upsert_groups([("etl".to_owned(), limit(GROUP))].into(), ChangeSource::Edit)
                .await
                .is_ok(),
            Held::Global => {
                let all = [(GLOBAL_GROUP.to_owned(), limit(50))];
                store.upsert_groups(all.into(), ChangeSource::Edit).await.is_ok()
            }
            Held::Table => store.job(job).await.is_ok(),
        }
    }
}

/// Repeats something until it is told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    /// Twenty jobs a second, measured; and five a second under a limit.
    fn begin(store: &Store, world: &World) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let (measured, world, stopped) = (store.clone(), world.clone(), stop.clone());
        let measured = tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                let work = Work { asked_us: world.now_us(), ..Work::default() };
                let store = measured.clone();
                // One that is slow does not delay the next.
                tokio::spawn(async move { store.enqueue(work.job()).await });
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let (limited, stopped) = (store.clone(), stop.clone());
        let limited = tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                let work = Work { millis: 300, limits: vec!["etl".to_owned()], asked_us: 0 };
                drop(limited.enqueue(NewJob { group: Some(name("etl")), ..work.job() }).await);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        Load { stop, tasks: vec![measured, limited] }
    }

    /// Callers that call again as soon as they are answered.
    fn callers(held: Held, store: &Store, job: JobId, answered: &Arc<AtomicU32>) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..CALLERS).map(|_| {
            let (store, stop, answered) = (store.clone(), stop.clone(), answered.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    if held.call(&store, job).await {
                        answered.fetch_add(1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            })
        });
        Load { tasks: tasks.collect(), stop: stop.clone() }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

async fn scene(held: Held) -> (TestStore, World, Vec<Node>) {
    let (db, world) = (TestStore::postgres().await, World::new());
    let url = format!("{}?connections=8", db.url);
    let nodes = vec![world.node(&url, with_lease(LEASE)).await, world.node(&url, with_lease(LEASE)).await];
    let store = nodes[0].store();
    let mut groups = vec![("etl".to_owned(), limit(GROUP))];
    if held == Held::Global {
        groups.push((GLOBAL_GROUP.to_owned(), limit(50)));
    }
    store.upsert_groups(groups.into_iter().collect(), ChangeSource::Edit).await.unwrap();
    let every = Schedule::every(Duration::from_secs(1)).unwrap();
    let ticks = Manifest::new(name("tick"), name("work"), every);
    let ticks = Manifest { input: Work::default().job().input, ..ticks };
    store.upsert_manifests([ticks], ChangeSource::Edit).await.unwrap();
    (db, world, nodes)
}

/// Watches the ledger: how far the newest tick was ever behind. A second is normal, because one comes each second.
fn watch_ticks(client: tokio_postgres::Client, stop: Arc<AtomicBool>) -> JoinHandle<Duration> {
    let behind = "select greatest(extract(epoch from now() - max(coalesce(until_tick_at, tick_at))) * 1000000, 0)::bigint from lineclear.tick";
    tokio::spawn(async move {
        let mut most = Duration::ZERO;
        while !stop.load(Ordering::SeqCst) {
            let micros: i64 = client.query_one(behind, &[]).await.unwrap().get(0);
            most = most.max(Duration::from_micros(micros.unsigned_abs()));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        most
    })
}

async fn hold(held: Held) {
    let (db, world, nodes) = scene(held).await;
    let (store, long) = (nodes[0].store(), length(Duration::from_secs(3)));
    let endless = Work { millis: 600_000, ..Work::default() };
    let job = store.enqueue(endless.job()).await.unwrap().id;
    let running =
        format!("select count(*) from {{t}}background_job where id = {job} and leased_by is not null");
    until("it runs", async || db.number(&running).await == 1).await;
    let load = Load::begin(nodes[1].store(), &world);
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.waits();
    tokio::time::sleep(long.min(Duration::from_secs(20))).await;
    let (_, _, normal) = world.waits();

    let ticks = db.number("select count(*) from {t}tick").await;
    let watched = Arc::new(AtomicBool::new(false));
    let ticking = watch_ticks(db.client().await, watched.clone());
    let application = db.client().await;
    application.batch_execute(&format!("begin; {}", held.sql(job))).await.unwrap();
    let (began, answered) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let callers = Load::callers(held, store, job, &answered);
    tokio::time::sleep(long).await;
    let (ran, median, p99) = world.waits();
    let planned = db.number("select count(*) from {t}tick").await - ticks;
    watched.store(true, Ordering::SeqCst);
    let behind = ticking.await.unwrap();
    let met = answered.load(Ordering::SeqCst);
    application.batch_execute("rollback").await.unwrap();
    println!(
        "{held:?} held for {:?}: p99 {normal:?} before, then {ran} others with median {median:?} and p99 {p99:?}; {planned} ticks, the newest at most {behind:?} ago; {met} calls answered",
        began.elapsed(),
    );
    callers.end().await;
    load.end().await;
    store.cancel(job).await.unwrap();
    db.sql("update {t}manifest set next_due_at = null").await;
    let left = "select (select count(*) from {t}work_queue) + (select count(*) from {t}background_job)";
    until_within(Duration::from_secs(60), "all is done", async || db.number(left).await == 0).await;

    assert!(behind < Duration::from_secs(2), "the newest tick was {behind:?} ago");
    if held.lets_others_run() {
        // In a short run, the slowest of a few dozen jobs says more about the machine than about the lock.
        let shown = if long >= Duration::from_secs(20) { p99 } else { median };
        assert!(shown <= (normal * 3).max(NOISE), "median {median:?}, p99 {p99:?}, and {normal:?} before");
        assert!(planned >= i64::try_from(long.as_secs()).unwrap() - 2, "{planned} ticks in {long:?}");
        assert!(ran as u64 >= long.as_secs() * 10, "{ran} others ran");
    }
    assert!(world.most("etl") <= GROUP, "{} at once", world.most("etl"));
    assert_eq!(world.twice(), [0_i64; 0]);
    // The lease of a job whose row is held cannot be renewed, and runs out; that is no crash.
    let charged = "select count(*) from {t}execution where error_type = 'worker_lost'";
    assert_eq!(db.number(charged).await, 0, "no crash is charged");
    let late = "select count(*) from {t}execution where error_type = 'worker_late'";
    assert!(db.number(late).await <= i64::from(held == Held::Row), "no other lease ran out");
    assert_eq!(db.number("select count(*) from {t}dead_letter").await, 0);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_held_delays_neither_ticks_nor_other_jobs() {
    hold(Held::Key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_held_delays_neither_ticks_nor_other_jobs() {
    hold(Held::Row).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_held_delays_neither_ticks_nor_other_jobs() {
    hold(Held::Group).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_global_gate_that_is_held_delays_no_tick_and_costs_no_lease() {
    hold(Held::Global).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_held_delays_no_tick_and_costs_no_lease() {
    hold(Held::Table).await;
}
