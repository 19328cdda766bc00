//! dispatch: work_queue → background_job.

use std::collections::HashSet;

use lineclear::model::{GroupSpec, JobState, Micros};
use lineclear::store::{Dispatch, NewJob, main_route};

use crate::kit::{job, lease, name};

conformance! {
    async fn a_dispatched_job_is_ready_and_then_claimed_once(db) {
        let id = db.enqueue(job()).await;
        assert_eq!(db.store.dispatch(Dispatch::new(main_route(), 10)).await.unwrap(), [id]);
        assert_eq!(db.store.dispatch(Dispatch::new(main_route(), 10)).await.unwrap(), []);
        assert_eq!(db.state(id).await, Some(JobState::Ready));

        let (a, b) = (db.node("a").await, db.node("b").await);
        let claims = db.store.claim(main_route(), 10, lease(a)).await.unwrap();
        assert_eq!(claims.iter().map(|c| (c.job, c.no)).collect::<Vec<_>>(), [(id, 1)]);
        assert_eq!(db.store.claim(main_route(), 10, lease(b)).await.unwrap(), []);
        assert_eq!(db.state(id).await, Some(JobState::Running));
    }

    async fn a_job_taken_straight_into_a_lease_is_running(db) {
        let id = db.enqueue(job()).await;
        let claim = db.take_one(db.node("a").await).await;
        assert_eq!((claim.job, claim.no), (id, 1));
        assert_eq!(db.state(id).await, Some(JobState::Running));
        assert_eq!(db.count("work_queue").await, 0);
    }

    async fn the_batch_is_as_large_as_asked(db) {
        db.store.enqueue_many(vec![job(); 10]).await.unwrap();
        let node = db.node("a").await;
        assert_eq!(db.take(node, 0).await.len(), 0);
        assert_eq!(db.take(node, 3).await.len(), 3);
        assert_eq!(db.store.dispatch(Dispatch::new(main_route(), 4)).await.unwrap().len(), 4);
        assert_eq!(db.store.claim(main_route(), 2, lease(node)).await.unwrap().len(), 2);
        assert_eq!(db.take(node, 1).await.len(), 1);
        assert_eq!(db.take(node, 100).await.len(), 4, "two from the queue, and two that were handed over");
    }

    async fn higher_priority_goes_first_and_waiting_counts(db) {
        let ago = |minutes: i64| Some(Micros::new(1_700_000_000_000_000 - minutes * 60_000_000).unwrap());
        let new_high = db.enqueue(NewJob { due_at: ago(0), priority: 1, ..job() }).await;
        let old_low = db.enqueue(NewJob { due_at: ago(11), ..job() }).await;
        let new_low = db.enqueue(NewJob { due_at: ago(0), ..job() }).await;
        let higher = db.enqueue(NewJob { due_at: ago(0), priority: 31, ..job() }).await;
        let node = db.node("a").await;
        let order: Vec<_> = db.take(node, 10).await.iter().map(|c| c.job).collect();
        assert_eq!(order, [higher, old_low, new_high, new_low], "a step of priority is worth ten minutes");
    }

    async fn a_group_with_priority_goes_first_also_through_the_gated_lane(db) {
        db.group("urgent", GroupSpec { limit: Some(5), priority: 10, enabled: true }).await;
        db.group("calm", GroupSpec { priority: 5, ..GroupSpec::default() }).await;
        let plain = db.enqueue(job()).await;
        let calm = db.enqueue(NewJob { group: Some(name("calm")), ..job() }).await;
        let urgent = db.enqueue(NewJob { group: Some(name("urgent")), ..job() }).await;
        let node = db.node("a").await;
        for expected in [urgent, calm, plain] {
            assert_eq!(db.take(node, 1).await[0].job, expected);
        }
    }

    async fn a_changed_priority_of_a_group_counts_for_jobs_that_wait(db) {
        db.group("etl", GroupSpec::default()).await;
        let first = db.enqueue(job()).await;
        let grouped = db.enqueue(NewJob { group: Some(name("etl")), ..job() }).await;
        db.group("etl", GroupSpec { priority: 3, ..GroupSpec::default() }).await;
        let node = db.node("a").await;
        assert_eq!(db.take(node, 1).await[0].job, grouped);
        assert_eq!(db.take(node, 1).await[0].job, first);
    }

    async fn a_route_is_only_served_by_who_asks_for_it(db) {
        let gpu = name("gpu");
        let id = db.enqueue(NewJob { route: gpu.clone(), ..job() }).await;
        let node = db.node("a").await;
        assert_eq!(db.take(node, 10).await.len(), 0);
        assert_eq!(db.store.dispatch(Dispatch::new(gpu.clone(), 10)).await.unwrap(), [id]);
        assert_eq!(db.store.claim(main_route(), 10, lease(node)).await.unwrap(), []);
        assert_eq!(db.store.claim(gpu, 10, lease(node)).await.unwrap().len(), 1);
    }

    pgbouncer async fn dispatchers_at_once_share_the_work(db) {
        db.store.enqueue_many(vec![job(); 200]).await.unwrap();
        let (a, b) = (db.store.clone(), db.another_store().await);
        let (one, two) = (db.node("a").await, db.node("b").await);
        let drain = async |store: lineclear::Store, node| {
            let mut taken = Vec::new();
            loop {
                let claims = store.dispatch_into_lease(Dispatch::new(main_route(), 7), lease(node)).await.unwrap();
                if claims.is_empty() {
                    return taken;
                }
                taken.extend(claims.into_iter().map(|c| c.job));
            }
        };
        let (mut jobs, others) = tokio::join!(drain(a, one), drain(b, two));
        jobs.extend(others);
        assert_eq!(jobs.len(), 200);
        assert_eq!(jobs.iter().collect::<HashSet<_>>().len(), 200, "none was taken twice");
    }

    pgbouncer async fn a_row_that_cannot_be_read_is_buried_and_does_not_hold_up_the_rest(db) {
        let ids = db.store.enqueue_many(vec![job(); 3]).await.unwrap();
        // As another program could write it.
        db.sql(&format!("update {{t}}work_queue set input = '{{broken' where id = {}", ids[1].id)).await;
        let node = db.node("a").await;
        let taken: Vec<_> = db.take(node, 10).await.iter().map(|claim| claim.job).collect();
        assert_eq!(taken, [ids[0].id, ids[2].id]);
        assert_eq!(db.state(ids[1].id).await, Some(JobState::Dead));

        let id = db.enqueue(job()).await;
        db.sql(&format!("update {{t}}work_queue set kind = 'No Name' where id = {id}")).await;
        db.store.dispatch(Dispatch::new(main_route(), 10)).await.unwrap();
        assert_eq!(db.store.claim(main_route(), 10, lease(node)).await.unwrap(), []);
        assert_eq!(db.count("dead_letter").await, 2);
        assert_eq!(db.state(id).await, Some(JobState::Dead), "and it can be looked at");
    }
}
