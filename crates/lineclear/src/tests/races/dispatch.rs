//! Two dispatchers on one row, and on one limit.

use crate::tests::races::*;

#[tokio::test]
async fn a_row_that_one_dispatcher_is_moving_is_skipped_by_the_other() {
    let pg = Pg::open().await;
    pg.store.enqueue(job()).await.unwrap();
    let (pass, open) = pg.begin(&DispatchOpen(wants(10))).await;
    assert_eq!(pass.count(), 1);
    assert_eq!(pg.take(2, 10).await.len(), 0);
    open.roll_back().await;
    assert_eq!(pg.take(2, 10).await.len(), 1, "the first one died: the row was still queued");
    assert_eq!(pg.take(1, 10).await.len(), 0);
}

fn of(group: &str) -> NewJob {
    NewJob { group: Some(name(group)), ..job() }
}

#[tokio::test]
async fn a_limited_group_that_one_dispatcher_is_filling_is_skipped_by_the_other() {
    let pg = Pg::open().await;
    pg.group("g", 1).await;
    pg.store.enqueue_many(vec![of("g"); 2]).await.unwrap();
    let (pass, open) = pg.begin(&DispatchGated::new(wants(10))).await;
    assert_eq!(pass.rows.len(), 1);
    assert_eq!(pg.take(2, 10).await.len(), 0, "while the first counts and fills");
    open.commit().await;
    assert_eq!(pg.take(2, 10).await.len(), 0, "the place is taken");
}

#[tokio::test]
async fn who_waited_for_the_global_gate_counts_what_was_committed_meanwhile() {
    let pg = Pg::open().await;
    pg.group(GLOBAL_GROUP, 1).await;
    pg.store.enqueue_many(vec![job(); 2]).await.unwrap();
    let (pass, open) = pg.begin(&DispatchGated::new(wants(10))).await;
    assert_eq!(pass.rows.len(), 1);
    let store = pg.store.clone();
    let second = tokio::spawn(async move {
        store.dispatch_into_lease(Dispatch::new(main_route(), 10), lease(2)).await.unwrap()
    });
    pg.until_a_session_waits().await;
    open.commit().await;
    assert_eq!(second.await.unwrap().len(), 0, "a snapshot from before the lock would have let it through");
}

#[tokio::test]
async fn a_lease_counts_from_the_moment_that_the_gate_is_held() {
    let pg = Pg::open().await;
    pg.group(GLOBAL_GROUP, 2).await;
    pg.store.enqueue_many(vec![job(); 2]).await.unwrap();
    let (_, open) = pg.begin(&DispatchGated::new(wants(1))).await;
    let store = pg.store.clone();
    let second = tokio::spawn(async move {
        store.dispatch_into_lease(Dispatch::new(main_route(), 1), lease(2)).await.unwrap()
    });
    pg.until_a_session_waits().await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let held_until = pg.number("select (extract(epoch from clock_timestamp()) * 1000)::bigint").await;
    open.commit().await;
    let job = second.await.unwrap().remove(0).job.0;
    let ends = format!(
        "select (extract(epoch from due_at) * 1000)::bigint from lineclear.background_job where id = {job}"
    );
    let length = i64::try_from(lease(2).length.as_millis()).unwrap();
    assert!(pg.number(&ends).await >= held_until + length, "the wait for the gate is no part of it");
}

#[tokio::test]
async fn a_keyed_job_is_not_started_beside_one_that_is_just_being_started() {
    let pg = Pg::open().await;
    let keyed = NewJob { limit_key: Some("k".to_owned()), ..job() };
    pg.store.enqueue_many(vec![keyed; 2]).await.unwrap();
    pg.store.set_limit("k", 1).await.unwrap();
    let (pass, open) = pg.begin(&DispatchGated::new(wants(1))).await;
    assert_eq!(pass.rows.len(), 1);
    assert_eq!(pg.take(2, 10).await.len(), 0);
    open.commit().await;
    assert_eq!(pg.take(2, 10).await.len(), 0);
}

#[tokio::test]
async fn a_settle_that_meets_a_dispatcher_holding_the_next_job_back_wakes_it() {
    let pg = Pg::open().await;
    let keyed = NewJob { limit_key: Some("k".to_owned()), ..job() };
    pg.store.enqueue_many(vec![keyed; 2]).await.unwrap();
    let first = pg.take(1, 1).await.remove(0);
    // The dispatcher counts one active and marks the second job held; the settle comes before it commits.
    let (pass, open) = pg.begin(&DispatchGated::new(wants(10))).await;
    assert_eq!(pass.rows.len(), 0);
    let store = pg.store.clone();
    let settled = tokio::spawn(async move { store.settle(NodeId(1), vec![complete(&first)]).await.unwrap() });
    assert_eq!(settled.await.unwrap(), [FencedWrite::Recorded], "it does not wait for the dispatcher");
    open.commit().await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while pg.take(1, 10).await.is_empty() {
        assert!(std::time::Instant::now() < deadline, "no wake-up was lost");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
