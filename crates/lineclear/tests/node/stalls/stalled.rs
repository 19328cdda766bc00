//! Random stalls of half a lease to two leases on four live nodes: no crash is charged, no job dies, no limit is exceeded, and no job runs on
//! two nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lineclear::model::{GroupSpec, Manifest, Schedule};
use lineclear::store::{ChangeSource, GLOBAL_GROUP, JobId, NewJob};
use lineclear::{Node, Store, StoreOptions};
use lineclear_testkit::{PrivatePostgres, Proxy};

use super::length;
use super::random::Random;
use super::world::{Work, World, with_lease};
use crate::kit::{TestStore, name, until_within};

const NODES: usize = 4;
const GLOBAL: u32 = 20;
const GROUP: u32 = 3;
/// How long all that is left may take after the last stall.
const AFTERWARDS: Duration = Duration::from_secs(120);

fn lease() -> Duration {
    let asked = std::env::var("LINECLEAR_TEST_LEASE_MS").ok();
    Duration::from_millis(asked.map_or(2_000, |ms| ms.parse().expect("milliseconds")))
}

/// A job of random length under random limits.
fn random_job(random: &mut Random) -> NewJob {
    let lease_ms = u64::try_from(lease().as_millis()).unwrap();
    let millis = if random.below(10) < 7 { 20 + random.below(400) } else { random.below(lease_ms * 2) };
    let mut work = Work { millis, limits: vec!["*".to_owned()], asked_us: 0 };
    let (mut group, mut limit_key) = (None, None);
    match random.below(4) {
        0 => group = Some("etl".to_owned()),
        1 => limit_key = Some(format!("key-{}", random.below(3))),
        _ => {}
    }
    work.limits.extend(group.iter().chain(&limit_key).cloned());
    NewJob { group: group.map(|group| name(&group)), limit_key, ..work.job() }
}

async fn prepare(store: &Store) {
    let limit = |limit| GroupSpec { limit: Some(limit), ..GroupSpec::default() };
    let groups = [(GLOBAL_GROUP.to_owned(), limit(GLOBAL)), ("etl".to_owned(), limit(GROUP))];
    store.upsert_groups(groups.into(), ChangeSource::Edit).await.unwrap();
    let work = Work { millis: 100, limits: vec!["*".to_owned()], asked_us: 0 };
    let every = Schedule::every(Duration::from_secs(1)).unwrap();
    let second = Manifest { input: work.job().input, ..Manifest::new(name("tick"), name("work"), every) };
    store.upsert_manifests([second], ChangeSource::Edit).await.unwrap();
}

/// Enqueues jobs until it is told to stop; returns those that were accepted.
async fn enqueue(store: Store, mut random: Random, stop: Arc<AtomicBool>) -> Vec<JobId> {
    let mut accepted = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let waiting = store.stat_now().await.map_or(u64::MAX, |now| now.waiting);
        if waiting < 30 {
            let jobs = (0..20).map(|_| random_job(&mut random)).collect();
            accepted.extend(store.enqueue_many(jobs).await.into_iter().flatten().map(|one| one.id));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    accepted
}

/// Stalls the database again and again while nodes work, and then looks at what they saw.
async fn stall(
    db: &TestStore,
    url: &str,
    stalls: &[&'static str],
    mut stall: impl AsyncFnMut(&'static str, Duration, &mut Random),
) {
    let (lease, mut random, world) = (lease(), Random::seeded(), World::new());
    let store = Store::open(StoreOptions::new(&db.url).unwrap()).await.unwrap();
    prepare(&store).await;
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..NODES {
        nodes.push(world.node(url, with_lease(lease)).await);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let other = Random::of(&mut random);
    let enqueuing = tokio::spawn(enqueue(store, other, stop.clone()));
    let began = Instant::now();
    let until = began + length(Duration::from_secs(10));
    let mut made: BTreeMap<&str, (u32, Duration)> = BTreeMap::new();
    while Instant::now() < until {
        tokio::time::sleep(random.between(lease / 4, lease * 2)).await;
        let (how, long) = (random.one_of(stalls), random.between(lease / 2, lease * 2));
        stall(how, long, &mut random).await;
        let so_far = made.entry(how).or_default();
        *so_far = (so_far.0 + 1, so_far.1 + long);
    }
    let stalled: Duration = made.values().map(|(_, long)| *long).sum();
    let answered = began.elapsed().saturating_sub(stalled);
    stop.store(true, Ordering::SeqCst);
    let accepted = enqueuing.await.unwrap();
    db.sql("update {t}manifest set next_due_at = null").await;
    let left = "select (select count(*) from {t}work_queue) + (select count(*) from {t}background_job)";
    until_within(AFTERWARDS, "all is done", async || db.number(left).await == 0).await;
    for (how, (count, long)) in made {
        println!("{count} stalls by {how}, {long:?} in all");
    }
    judge(db, &world, &accepted).await;
    has_worked(db, &accepted, answered).await;
    for node in nodes {
        node.stop().await;
    }
}

async fn judge(db: &TestStore, world: &World, accepted: &[JobId]) {
    let count = async |of: &str| db.number(&format!("select count(*) from {{t}}{of}")).await;
    let completed = count("execution where final and outcome = 'completed'").await;
    let (late, released) = (
        count("execution where error_type = 'worker_late'").await,
        count("execution where outcome = 'released'").await,
    );
    let charged = count("execution where error_type = 'worker_lost'").await;
    let came_back = count("execution where error_message like '%came back%'").await;
    let dead = count("dead_letter").await;
    let keys = (0..3).map(|key| world.most(&format!("key-{key}"))).max().unwrap();
    println!(
        "{} starts, {completed} completed ({} accepted), {late} leases ran out uncharged, {released} released, {charged} charged, {came_back} taken back, \
         {dead} dead, at most {} of {GLOBAL}, {} of {GROUP} and {keys} of 1 at once, {} on two nodes",
        world.started(),
        accepted.len(),
        world.most("*"),
        world.most("etl"),
        world.twice().len(),
    );
    assert_eq!(
        (charged, came_back, dead),
        (0, 0, 0),
        "crashes charged, charged and taken back, dead letters"
    );
    assert_eq!(world.twice(), [0_i64; 0], "no job runs on two nodes");
    assert!(world.most("*") <= GLOBAL && world.most("etl") <= GROUP && keys <= 1, "limits");
    let ids: Vec<String> = accepted.iter().map(ToString::to_string).collect();
    for ids in ids.chunks(500) {
        let done = count(&format!(
            "execution where final and outcome = 'completed' and job_id in ({})",
            ids.join(", ")
        ))
        .await;
        assert_eq!(done, i64::try_from(ids.len()).unwrap(), "each accepted job is completed once");
    }
}

/// Nodes that do nothing break no rule either. While the database answered, they completed at least a job a second, of those that were
/// enqueued and of the ticks.
async fn has_worked(db: &TestStore, accepted: &[JobId], answered: Duration) {
    let of = |origin: &str| {
        format!(
            "select count(*) from {{t}}execution where final and outcome = 'completed' and origin = '{origin}'"
        )
    };
    let (completed, ticks) = (accepted.len() as u64, db.number(&of("tick")).await.unsigned_abs());
    println!("{completed} accepted jobs and {ticks} ticks while the database answered for {answered:?}");
    assert!(completed >= answered.as_secs(), "{completed} jobs in {answered:?}");
    assert!(ticks >= 1, "no tick ran");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalls_of_postgres_charge_no_crash_and_exceed_no_limit() {
    let server = PrivatePostgres::start(&[]).await.unwrap();
    let db = TestStore::at(server.url());
    let proxy = Proxy::to_url(&db.url).await.unwrap();
    let url = proxy.url_for(&db.url);
    let tables = ["background_job", "work_queue", "execution", "node", "manifest", "manifest_group"];
    stall(&db, &url, &["freezing", "silence", "locks"], async |how, long, random| match how {
        "freezing" => {
            server.freeze();
            tokio::time::sleep(long).await;
            server.thaw();
        }
        "silence" => {
            proxy.silence();
            tokio::time::sleep(long).await;
            proxy.heal();
        }
        _ => {
            let client = db.client().await;
            let lock =
                format!("begin; lock table lineclear.{} in access exclusive mode", random.one_of(&tables));
            client.batch_execute(&lock).await.unwrap();
            tokio::time::sleep(long).await;
            client.batch_execute("rollback").await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalls_of_sqlite_charge_no_crash_and_exceed_no_limit() {
    let db = TestStore::sqlite().await;
    stall(&db, &db.url, &["another writer"], async |_, long, _| {
        let file = rusqlite::Connection::open(&db.url).unwrap();
        file.busy_timeout(Duration::from_secs(30)).unwrap();
        file.execute_batch("begin immediate").unwrap();
        tokio::time::sleep(long).await;
        file.execute_batch("rollback").unwrap();
    })
    .await;
}
