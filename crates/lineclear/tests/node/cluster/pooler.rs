//! The whole journey of jobs, on nodes that know PostgreSQL only through pgbouncer in transaction mode.

use lineclear::model::{ExecutionOutcome, GroupSpec, JobState, Manifest, Payload, Schedule};
use lineclear::store::{Cancelled, ChangeSource, NewJob};

use crate::children::{count, crowd, end, outcomes, sleep, sleeps, state, store};
use crate::kit::{TestStore, name, until};

#[tokio::test]
async fn the_whole_journey_passes_through_pgbouncer() {
    let db = TestStore::pgbouncer().await;
    let store = store(&db).await;
    let mut nodes = crowd(2, &db, "planner,workers,cleaner", &[]).await;

    // Declared, due, planned, taken; tried again, and buried.
    let soon = Schedule::once(store.next_plan().await.unwrap().now.offset(500_000)).unwrap();
    let fails_twice =
        Manifest { input: Payload::of(&2).unwrap(), ..Manifest::new(name("m"), name("broken"), soon) };
    store.upsert_manifests([fails_twice], ChangeSource::Declaration).await.unwrap();
    until("it is dead", async || count(&store, JobState::Dead).await == 1).await;
    let letter = store.dead_letters(None, None, 10).await.unwrap().items.remove(0);
    let failed = ExecutionOutcome::Failed;
    assert_eq!(outcomes(&store, letter.job).await, [failed, failed]);

    // Revived, and completed at its third claim.
    let by = lineclear::store::Revival { by: "ann".to_owned(), ..Default::default() };
    assert_eq!(store.revive(vec![letter.id], by).await.unwrap().len(), 1);
    until("it is completed", async || state(&store, letter.job).await == Some(JobState::Completed)).await;
    assert_eq!(outcomes(&store, letter.job).await, [failed, failed, ExecutionOutcome::Completed]);

    // Limited, and cancelled while it runs.
    let one = GroupSpec { limit: Some(1), ..GroupSpec::default() };
    store.upsert_groups([("g".to_owned(), one)].into(), ChangeSource::Edit).await.unwrap();
    let limited = |millis| NewJob { group: Some(name("g")), ..sleep(millis) };
    let endless = store.enqueue(limited(600_000)).await.unwrap().id;
    until("it runs", async || state(&store, endless).await == Some(JobState::Running)).await;
    let next = store.enqueue(limited(0)).await.unwrap().id;
    assert!(matches!(store.cancel(endless).await.unwrap(), Cancelled::Asked(_)));
    until("it is cancelled", async || state(&store, endless).await == Some(JobState::Cancelled)).await;
    until("the next one had its turn", async || state(&store, next).await == Some(JobState::Completed)).await;

    // Lost with its node, and run by the other.
    let lost = store.enqueue(sleeps(600_000, 0)).await.unwrap().id;
    let said = format!("job {lost} claim 1 started");
    until("it runs", async || nodes.iter().any(|node| node.stdout().iter().any(|line| line.contains(&said))))
        .await;
    let holder = nodes.iter().position(|node| node.stdout().iter().any(|line| line.contains(&said))).unwrap();
    nodes.remove(holder).kill().unwrap();
    until("it is completed", async || state(&store, lost).await == Some(JobState::Completed)).await;
    assert_eq!(outcomes(&store, lost).await, [ExecutionOutcome::Lost, ExecutionOutcome::Completed]);

    // Many at once; then all of it is cleaned away, but for the last success of a manifest.
    store.enqueue_many(vec![sleep(0); 300]).await.unwrap();
    until("all are completed", async || count(&store, JobState::Completed).await == 303).await;
    nodes.extend(crowd(1, &db, "cleaner", &["keep=1", "clean=50"]).await);
    let left = "select count(distinct job_id) from {t}execution";
    until("history is gone", async || db.number(left).await == 1).await;
    assert_eq!(state(&store, letter.job).await, Some(JobState::Completed), "a last success stays");
    end(nodes).await;
}
