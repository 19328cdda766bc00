//! Plans, settles and operators on the same manifests: they wait for each other, but never in a circle.

use std::time::{Duration, Instant};

use lineclear::Store;
use lineclear::model::schedule::Need;
use lineclear::model::{Manifest, Overlap, Payload, Schedule};
use lineclear::store::{ChangeSource, Revival};

use crate::children::{crowd, end, store};
use crate::kit::{TestStore, name};

const TIME: Duration = Duration::from_secs(60);

/// 400 that are due every six seconds, some of which are broken; 300 behind one of them each; 300 behind two of those.
/// The parents' numbers are the higher ones, and so are their ids: locks are not taken in the order of the arrows.
fn manifest(n: u32) -> Manifest {
    let key = |n: u32| name(&format!("m{n:04}"));
    let schedule = match n {
        0..300 => Schedule::after(vec![key(300 + n), key(300 + (n * 7 + 1) % 300)], Need::Any),
        300..600 => Schedule::after(vec![key(n + 300)], Need::All),
        _ => Schedule::every(Duration::from_secs(6)),
    };
    let (kind, input) = if n >= 950 { ("broken", 1_000_000) } else { ("sleep", 0) };
    Manifest {
        input: Payload::of(&input).unwrap(),
        overlap: Some(Overlap::QueueOne),
        ..Manifest::new(key(n), name(kind), schedule.unwrap())
    }
}

/// The actions of operators meanwhile: declare, pause, resume, trigger, and revive dead letters.
async fn operate(store: &Store, turn: u32) {
    let some = || (0..1_000).filter(|n| n % 20 == turn % 20);
    let keys: Vec<_> = some().map(|n| manifest(n).key).collect();
    store.upsert_manifests(some().map(manifest), ChangeSource::Declaration).await.unwrap();
    store.pause(keys.clone()).await.unwrap();
    store.resume(keys.clone()).await.unwrap();
    store
        .trigger(keys[usize::try_from(turn).unwrap() % keys.len()].clone(), Default::default())
        .await
        .unwrap();
    let letters = store.dead_letters(None, None, 100).await.unwrap().items;
    let by = Revival { by: "ann".to_owned(), ..Default::default() };
    store.revive(letters.iter().map(|letter| letter.id).collect(), by).await.unwrap();
}

#[tokio::test]
async fn a_minute_of_plans_and_settles_on_the_same_manifests_has_no_deadlock() {
    let db = TestStore::postgres().await;
    let store = store(&db).await;
    // Parents must exist before they are named; declared first without them, manifests get their ids in the order of n.
    let first = |n| Manifest { schedule: Schedule::on_demand(), ..manifest(n) };
    store.upsert_manifests((0..1_000).map(first), ChangeSource::Declaration).await.unwrap();
    store.upsert_manifests((0..1_000).map(manifest), ChangeSource::Declaration).await.unwrap();
    let nodes = crowd(2, &db, "planner,workers,cleaner", &["slots=8"]).await;
    let begun = Instant::now();
    for turn in 0.. {
        operate(&store, turn).await;
        if begun.elapsed() > TIME {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let nodes = end(nodes).await;
    let warned: Vec<String> =
        nodes.iter().flat_map(|node| node.stderr()).filter(|line| line.contains("deadlock")).collect();
    assert_eq!(warned, [""; 0]);

    // Connections report their counts when they end.
    drop(store);
    let end_all = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity \
                   where datname = current_database() and pid <> pg_backend_pid()";
    db.number(end_all).await;
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(db.number(deadlocks).await, 0);

    // Enough of each origin ran to compete.
    let of = |origin: &str| format!("select count(*) from {{t}}execution where origin = '{origin}'");
    let (ticks, dependents) = (db.number(&of("tick")).await, db.number(&of("dependent")).await);
    println!("{ticks} jobs of ticks and {dependents} of dependents were settled");
    assert!(ticks > 1_000 && dependents > 1_000, "{ticks} jobs of ticks, {dependents} of dependents");
}
