//! Two parents that settle a fan-in.

use crate::tests::races::*;

async fn fan_in(pg: &Pg) -> (Claim, Claim) {
    let child = Manifest {
        schedule: Schedule::after(vec![name("a"), name("b")], Need::All).unwrap(),
        overlap: Some(Overlap::QueueOne),
        ..daily("c")
    };
    pg.store.upsert_manifests([daily("a"), daily("b"), child], ChangeSource::Declaration).await.unwrap();
    for key in ["a", "b"] {
        pg.store.trigger(name(key), TriggerOptions::default()).await.unwrap();
    }
    let mut claims = pg.take(1, 2).await;
    (claims.remove(0), claims.remove(0))
}

#[tokio::test]
async fn two_parents_that_settle_at_once_wake_the_child_once() {
    let pg = Pg::open().await;
    let (a, b) = fan_in(&pg).await;
    let (_, open) = pg.begin(&settle_verb(&a)).await;
    let (store, other) = (pg.store.clone(), complete(&b));
    let second = tokio::spawn(async move { store.settle(NodeId(1), vec![other]).await.unwrap() });
    pg.let_it_try().await;
    open.commit().await;
    assert_eq!(second.await.unwrap(), [FencedWrite::Recorded]);
    let woken = pg.take(1, 10).await;
    assert_eq!(woken.iter().map(|claim| claim.origin).collect::<Vec<_>>(), [Origin::Dependent]);
}

#[tokio::test]
async fn settles_that_wake_each_others_manifests_do_not_deadlock() {
    let pg = Pg::open().await;
    // Ids against the direction of the arrows: z waits for m, m waits for a; declared backwards.
    let after = |key: &str, parent: &str| Manifest {
        schedule: Schedule::after(vec![name(parent)], Need::All).unwrap(),
        overlap: Some(Overlap::Allow),
        ..daily(key)
    };
    pg.store.upsert_manifests([daily("c"), daily("b"), daily("a")], ChangeSource::Declaration).await.unwrap();
    pg.store.upsert_manifests([after("b", "c"), after("a", "b")], ChangeSource::Declaration).await.unwrap();
    let mut nodes = Vec::new();
    for node in 1..=4 {
        let store = pg.store.clone();
        nodes.push(tokio::spawn(async move {
            for _ in 0..40 {
                for key in ["c", "b", "a"] {
                    store.trigger(name(key), TriggerOptions::default()).await.unwrap();
                }
                let mut claims =
                    store.dispatch_into_lease(Dispatch::new(main_route(), 10), lease(node)).await.unwrap();
                if node % 2 == 0 {
                    claims.reverse();
                }
                store.settle(NodeId(node), claims.iter().map(complete).collect()).await.unwrap();
            }
        }));
    }
    for node in nodes {
        node.await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(0)).await;
    assert_eq!(
        pg.number("select deadlocks from pg_stat_database where datname = current_database()").await,
        0
    );
}

/// The check above can fail: a deadlock is counted, although its loser tries again.
#[tokio::test]
async fn a_deadlock_would_be_counted() {
    let pg = Pg::open().await;
    pg.sql("create table pair (id int primary key); insert into pair values (1), (2)").await;
    let (one, two) = (pg.client().await, pg.client().await);
    for (client, id) in [(&one, 1), (&two, 2)] {
        client.batch_execute(&format!("begin; select from pair where id = {id} for update")).await.unwrap();
    }
    let waits =
        tokio::spawn(
            async move { one.batch_execute("select from pair where id = 2 for update; commit").await },
        );
    pg.until_a_session_waits().await;
    let other = two.batch_execute("select from pair where id = 1 for update; commit").await;
    drop(two);
    assert!(other.is_err() || waits.await.unwrap().is_err(), "one of them loses");
    assert_eq!(pg.deadlocks().await, 1);
}
