//! Limits, as an observer in the database and the handlers themselves see them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lineclear::model::GroupSpec;
use lineclear::store::{ChangeSource, NewJob};
use tokio_postgres::Client;

use crate::children::{crowd, end, lines, sleep, store};
use crate::kit::{TestStore, name, until_within};

const JOBS: u64 = 2_000;
const OF_GROUP: usize = 3;
const OF_ALL: usize = 5;

/// Counts active jobs as often as it can; returns how often, and the largest counts: of the group, and of all.
async fn observe(client: Client, over: Arc<AtomicBool>) -> (u64, i64, i64) {
    let look = "select count(*) filter (where group_id is not null), count(*) from lineclear.background_job";
    let look = client.prepare(look).await.unwrap();
    let (mut looks, mut of_group, mut of_all) = (0, 0, 0);
    while !over.load(Ordering::SeqCst) {
        let seen = client.query_one(&look, &[]).await.unwrap();
        of_group = of_group.max(seen.get(0));
        of_all = of_all.max(seen.get(1));
        looks += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (looks, of_group, of_all)
}

/// The most of these that were open at one moment.
fn most_at_once(spans: impl Iterator<Item = (i64, i64)>) -> usize {
    // At the same moment an end comes before a start.
    let mut moments: Vec<(i64, i8)> = spans.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
    moments.sort_unstable();
    let (mut open, mut most) = (0i64, 0);
    for (_, change) in moments {
        open += i64::from(change);
        most = most.max(open);
    }
    usize::try_from(most).unwrap()
}

#[test]
fn spans_that_overlap_are_counted() {
    assert_eq!(most_at_once([(1, 4), (2, 3), (3, 5), (5, 6)].into_iter()), 2);
    assert_eq!(most_at_once([(1, 4), (2, 4), (3, 5)].into_iter()), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_nodes_never_exceed_a_limit_and_reach_it() {
    let db = TestStore::postgres().await;
    let store = store(&db).await;
    let limit =
        |limit: usize| GroupSpec { limit: Some(u32::try_from(limit).unwrap()), ..GroupSpec::default() };
    let limits = BTreeMap::from([("g".to_owned(), limit(OF_GROUP)), ("*".to_owned(), limit(OF_ALL))]);
    store.upsert_groups(limits, ChangeSource::Edit).await.unwrap();
    // Lengths of 0 to 30 ms that look random, and are the same each time.
    let jobs = (0..JOBS).map(|n| {
        let group = (n % 2 == 0).then(|| name("g"));
        NewJob { group, ..sleep(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) }
    });
    let grouped: Vec<i64> = store
        .enqueue_many(jobs.collect())
        .await
        .unwrap()
        .iter()
        .step_by(2)
        .map(|enqueued| enqueued.id.0)
        .collect();

    let over = Arc::new(AtomicBool::new(false));
    let observer = tokio::spawn(observe(db.client().await, over.clone()));
    let nodes = crowd(4, &db, "workers", &["slots=5", "poll=20"]).await;
    let done = "select count(*) from {t}execution where final and outcome = 'completed'";
    until_within(Duration::from_secs(200), "all are completed", async || {
        db.number(done).await == i64::try_from(JOBS).unwrap()
    })
    .await;
    over.store(true, Ordering::SeqCst);
    let (looks, of_group, of_all) = observer.await.unwrap();
    println!("the observer looked {looks} times");
    assert!(looks > 500, "the observer looked only {looks} times");
    assert_eq!((of_group, of_all), (3, 5), "what the observer saw, of the group and of all");

    // A handler runs while its job is active, so the handlers' count can only be lower.
    let nodes = end(nodes).await;
    let ends: BTreeMap<i64, i64> = lines(&nodes, " ended at ").into_iter().collect();
    let spans: Vec<(i64, i64, i64)> =
        lines(&nodes, " started at ").into_iter().map(|(job, from)| (job, from, ends[&job])).collect();
    assert_eq!(spans.len(), usize::try_from(JOBS).unwrap());
    let all = most_at_once(spans.iter().map(|(_, from, to)| (*from, *to)));
    let of_group = spans.iter().filter(|(job, ..)| grouped.contains(job));
    let of_group = most_at_once(of_group.map(|(_, from, to)| (*from, *to)));
    assert_eq!((of_group, all), (OF_GROUP, OF_ALL), "what the handlers saw");
}
