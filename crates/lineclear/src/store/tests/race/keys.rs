//! Unique keys, and dead letters of one manifest.

use super::*;

#[tokio::test]
async fn the_loser_of_a_race_for_a_unique_key_gets_the_winners_job() {
    let pg = Pg::open().await;
    let keyed = || NewJob { unique_key: Some(UniqueKey { key: "k".to_owned(), keep: None }), ..job() };
    let verb = || enqueue::Enqueue { jobs: vec![keyed()], group_ids: HashMap::new() };
    let (first, open) = pg.begin(&verb()).await;
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.enqueue(keyed()).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(second.await.unwrap(), Enqueued { id: first[0].id, existing: true });

    pg.store.cancel(first[0].id).await.unwrap();
    let (_, open) = pg.begin(&verb()).await;
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.enqueue(keyed()).await.unwrap() });
    pg.until_somebody_waits().await;
    open.roll_back().await;
    assert!(!second.await.unwrap().existing, "the winner died");
}

#[tokio::test]
async fn a_manifest_stays_held_for_a_dead_letter_that_comes_as_another_is_resolved() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], Voice::Declaration).await.unwrap();
    for _ in 0..2 {
        pg.store.trigger(name("m"), TriggerOptions::default()).await.unwrap();
    }
    let claims = pg.take(1, 2).await;
    pg.store.settle(NodeId(1), vec![bury(&claims[0])]).await.unwrap();
    let letter = pg.store.dead_letters(None, None, 1).await.unwrap().items[0].id;
    let (_, open) = pg.begin(&Settle { node: NodeId(1), settlements: vec![bury(&claims[1])] }).await;
    let store = pg.store.clone();
    let resolved = tokio::spawn(async move { store.acknowledge(vec![letter], "ann", None).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(resolved.await.unwrap().len(), 1);
    assert!(pg.store.manifests(None, 1).await.unwrap().items[0].held);
}
