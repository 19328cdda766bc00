//! Unique keys, and dead letters of one manifest.

use crate::tests::races::*;

#[tokio::test]
async fn the_loser_of_a_race_for_a_unique_key_gets_the_winners_job() {
    let pg = Pg::open().await;
    let keyed = || NewJob { unique_key: Some(UniqueKey::new("k")), ..job() };
    let verb = || crate::journey::enqueue::insert::Enqueue {
        jobs: vec![keyed()],
        group_ids: std::collections::HashMap::new(),
    };
    let (first, open) = pg.begin(&verb()).await;
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.enqueue(keyed()).await.unwrap() });
    pg.until_a_session_waits().await;
    open.commit().await;
    assert_eq!(
        second.await.unwrap(),
        Enqueued { id: first[0].id, result: EnqueueResult::Existing, outcome: None }
    );

    pg.store.cancel(first[0].id).await.unwrap();
    let (_, open) = pg.begin(&verb()).await;
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.enqueue(keyed()).await.unwrap() });
    pg.until_a_session_waits().await;
    open.roll_back().await;
    assert!(!second.await.unwrap().existing(), "the winner died");
}

#[tokio::test]
async fn replacing_and_cancelling_and_taking_a_job_at_once_never_deadlocks() {
    let pg = Pg::open().await;
    let newest =
        || NewJob { unique_key: Some(UniqueKey::new("k").on_conflict(OnConflict::Replace)), ..job() };
    let mut all = tokio::task::JoinSet::new();
    for who in 0..6 {
        let store = pg.store.clone();
        all.spawn(async move {
            for _ in 0..40 {
                match store.enqueue(newest()).await {
                    Ok(enqueued) if who < 3 => drop(store.cancel(enqueued.id).await.unwrap()),
                    Ok(_) if who == 3 => {
                        let claims = store
                            .dispatch_into_lease(Dispatch::new(main_route(), 1), lease(1))
                            .await
                            .unwrap();
                        let buried = claims.iter().map(bury).collect();
                        store.settle(NodeId(1), buried).await.unwrap();
                    }
                    // Lost four races in a row: nothing happened, and the caller knows.
                    Ok(_) | Err(StoreError::Contended { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
    }
    all.join_all().await;
    assert_eq!(
        pg.number(
            "select count(*) from (select key from lineclear.job_key group by key having count(*) > 1) k"
        )
        .await,
        0
    );
    assert_eq!(pg.deadlocks().await, 0);
}

#[tokio::test]
async fn a_job_that_is_being_moved_is_not_waited_for_but_looked_at_again() {
    let pg = Pg::open().await;
    let newest =
        || NewJob { unique_key: Some(UniqueKey::new("k").on_conflict(OnConflict::Replace)), ..job() };
    let first = pg.store.enqueue(newest()).await.unwrap();
    let client = pg.client().await;
    client.batch_execute("begin; select 1 from lineclear.work_queue for update").await.unwrap();
    let error = pg.store.enqueue(newest()).await.unwrap_err();
    assert!(matches!(error, StoreError::Contended { .. }), "{error:?}");
    client.batch_execute("rollback").await.unwrap();
    let second = pg.store.enqueue(newest()).await.unwrap();
    assert_eq!(second, Enqueued { id: first.id, result: EnqueueResult::Replaced, outcome: None });
}

#[tokio::test]
async fn a_manifest_stays_held_for_a_dead_letter_that_comes_as_another_is_resolved() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], ChangeSource::Declaration).await.unwrap();
    for _ in 0..2 {
        pg.store.trigger(name("m"), TriggerOptions::default()).await.unwrap();
    }
    let claims = pg.take(1, 2).await;
    pg.store.settle(NodeId(1), vec![bury(&claims[0])]).await.unwrap();
    let letter = pg.store.dead_letters(None, None, 1).await.unwrap().items[0].id;
    let (_, open) = pg.begin(&Settle { node: NodeId(1), settlements: vec![bury(&claims[1])] }).await;
    let store = pg.store.clone();
    let resolved = tokio::spawn(async move { store.acknowledge(vec![letter], "ann", None).await.unwrap() });
    pg.until_a_session_waits().await;
    open.commit().await;
    assert_eq!(resolved.await.unwrap().len(), 1);
    assert!(pg.store.manifests(None, 1).await.unwrap().items[0].held);
}
