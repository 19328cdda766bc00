//! Exact limits: global, per group, per key.

use lineclear::model::{GroupSpec, JobState};
use lineclear::store::{Dispatch, GLOBAL_GROUP, NewJob, main_route};

use crate::kit::{completed, job, name};

fn limit(max: u32) -> GroupSpec {
    GroupSpec { limit: Some(max), ..GroupSpec::default() }
}

fn of(group: &str) -> NewJob {
    NewJob { group: Some(name(group)), ..job() }
}

fn keyed(key: &str) -> NewJob {
    NewJob { limit_key: Some(key.to_owned()), ..job() }
}

conformance! {
    pgbouncer async fn a_group_never_has_more_active_than_its_limit(db) {
        db.group("etl", limit(3)).await;
        db.store.enqueue_many(vec![of("etl"); 10]).await.unwrap();
        let node = db.node("a").await;
        let first = db.take(node, 10).await;
        assert_eq!(first.len(), 3);
        assert_eq!(db.take(node, 10).await.len(), 0, "full");
        assert_eq!(db.store.dispatch(Dispatch::new(main_route(), 10)).await.unwrap().len(), 0, "handing over counts too");

        db.settle(node, &first[0], completed()).await;
        assert_eq!(db.take(node, 10).await.len(), 1, "one place became free");
    }

    async fn a_full_group_does_not_hold_up_the_others(db) {
        db.group("full", limit(1)).await;
        db.group("free", limit(5)).await;
        db.store.enqueue_many(vec![of("full"); 5]).await.unwrap();
        let node = db.node("a").await;
        assert_eq!(db.take(node, 10).await.len(), 1);
        let free = db.enqueue(of("free")).await;
        let plain = db.enqueue(job()).await;
        let mut taken: Vec<_> = db.take(node, 10).await.iter().map(|c| c.job).collect();
        taken.sort();
        assert_eq!(taken, [free, plain]);
    }

    async fn one_look_finds_what_fits_in_all_groups(db) {
        for group in ["g1", "g2", "g3", "g4", "g5", "g6"] {
            db.group(group, limit(1)).await;
            db.store.enqueue_many(vec![of(group); 2]).await.unwrap();
        }
        let node = db.node("a").await;
        assert_eq!(db.take(node, 10).await.len(), 6, "free slots do not wait for the next look");
        assert_eq!(db.take(node, 10).await.len(), 0);
    }

    async fn a_backlog_of_one_key_does_not_hold_up_the_others(db) {
        db.group("etl", limit(100)).await;
        db.store.enqueue_many(vec![keyed("busy"); 500]).await.unwrap();
        db.store.enqueue_many(vec![NewJob { group: Some(name("etl")), ..keyed("busy in its group") }; 500]).await.unwrap();
        let other = db.enqueue(keyed("other")).await;
        let grouped = db.enqueue(NewJob { group: Some(name("etl")), ..keyed("other in its group") }).await;
        let node = db.node("a").await;
        let taken: Vec<_> = db.take(node, 4).await.iter().map(|claim| claim.job).collect();
        assert_eq!(taken.len(), 4, "one of each key");
        assert!(taken.contains(&other) && taken.contains(&grouped), "{taken:?}");
    }

    pgbouncer async fn the_global_limit_counts_everything(db) {
        db.group("etl", limit(2)).await;
        db.group(GLOBAL_GROUP, limit(3)).await;
        db.store.enqueue_many(vec![of("etl"), of("etl"), of("etl"), job(), job(), job()]).await.unwrap();
        let node = db.node("a").await;
        let taken = db.take(node, 10).await;
        assert_eq!(taken.len(), 3);
        assert_eq!(db.take(node, 10).await.len(), 0);
        db.settle(node, &taken[0], completed()).await;
        assert_eq!(db.take(node, 10).await.len(), 1);

        db.group(GLOBAL_GROUP, GroupSpec::default()).await;
        assert_eq!(db.take(node, 10).await.len(), 2, "no global limit any more; the group's still holds");
    }

    async fn a_group_that_is_switched_off_waits(db) {
        db.group("etl", GroupSpec::default()).await;
        let id = db.enqueue(of("etl")).await;
        db.group("etl", GroupSpec { enabled: false, ..GroupSpec::default() }).await;
        let node = db.node("a").await;
        assert_eq!(db.take(node, 10).await.len(), 0);
        db.group("etl", GroupSpec::default()).await;
        assert_eq!(db.take_one(node).await.job, id);
    }

    async fn everything_waits_while_the_global_switch_is_off(db) {
        db.enqueue(job()).await;
        db.group(GLOBAL_GROUP, GroupSpec { enabled: false, ..GroupSpec::default() }).await;
        let node = db.node("a").await;
        assert_eq!(db.take(node, 10).await.len(), 0);
        db.group(GLOBAL_GROUP, GroupSpec::default()).await;
        db.take_one(node).await;
    }

    async fn a_limit_binds_jobs_that_were_queued_before_it(db) {
        db.group("etl", GroupSpec::default()).await;
        db.store.enqueue_many(vec![of("etl"); 5]).await.unwrap();
        db.group("etl", limit(2)).await;
        let node = db.node("a").await;
        let mut taken = db.take(node, 10).await.len();
        taken += db.take(node, 10).await.len();
        assert_eq!(taken, 2, "rows that lay in the open lane are put right, and counted");
    }

    async fn a_limit_of_none_lets_all_go_on(db) {
        db.group("etl", limit(0)).await;
        db.store.enqueue_many(vec![of("etl"); 5]).await.unwrap();
        let node = db.node("a").await;
        assert_eq!(db.take(node, 10).await.len(), 0);
        db.group("etl", GroupSpec::default()).await;
        assert_eq!(db.take(node, 10).await.len(), 5);
    }

    async fn jobs_with_a_key_in_a_group_without_a_limit_run(db) {
        db.group("etl", GroupSpec::default()).await;
        let in_group = || NewJob { group: Some(name("etl")), ..keyed("customer:7") };
        let (first, second) = (db.enqueue(in_group()).await, db.enqueue(in_group()).await);
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        assert_eq!(claim.job, first);
        assert_eq!(db.take(node, 10).await.len(), 0, "the key's limit holds");
        db.settle(node, &claim, completed()).await;
        assert_eq!(db.take_one(node).await.job, second);
    }

    pgbouncer async fn jobs_with_a_key_run_one_at_a_time(db) {
        let ids = db.store.enqueue_many(vec![keyed("customer:7"); 3]).await.unwrap();
        let other = db.enqueue(keyed("customer:8")).await;
        let node = db.node("a").await;
        let mut taken = db.take(node, 10).await;
        taken.sort_by_key(|claim| claim.job);
        assert_eq!(taken.iter().map(|c| c.job).collect::<Vec<_>>(), [ids[0].id, other]);
        assert_eq!(db.state(ids[1].id).await, Some(JobState::Held));

        for expected in [ids[1].id, ids[2].id] {
            let claim = taken.remove(0);
            db.settle(node, &claim, completed()).await;
            taken.insert(0, db.take_one(node).await);
            assert_eq!(taken[0].job, expected, "settling one lets the next go");
        }
    }

    async fn a_key_has_the_limit_that_was_set(db) {
        db.store.set_limit("k", 2).await.unwrap();
        db.store.enqueue_many(vec![keyed("k"); 5]).await.unwrap();
        let node = db.node("a").await;
        assert_eq!(db.take(node, 10).await.len(), 2);
        db.store.set_limit("k", 4).await.unwrap();
        assert_eq!(db.take(node, 10).await.len(), 2);
    }

    pgbouncer async fn a_key_inside_a_limited_group_keeps_both_limits(db) {
        db.group("etl", limit(2)).await;
        let job = |key: &str| NewJob { limit_key: Some(key.to_owned()), ..of("etl") };
        db.store.enqueue_many(vec![job("a"), job("a"), job("b"), job("c")]).await.unwrap();
        let node = db.node("a").await;
        // The second job with key a had the group's place in the first pass, and was held.
        let taken = [db.take(node, 10).await, db.take(node, 10).await].concat();
        let mut keys: Vec<_> = taken.iter().map(|c| c.limit_key.clone().unwrap()).collect();
        keys.sort();
        assert_eq!(keys, ["a", "b"], "two of the group, and never two of a key");
    }

    async fn a_place_that_a_cancelled_job_would_have_had_goes_to_the_next(db) {
        let ids = db.store.enqueue_many(vec![keyed("k"); 3]).await.unwrap();
        let node = db.node("a").await;
        let running = db.take_one(node).await;
        db.settle(node, &running, completed()).await;
        // Woken, and then cancelled before it was claimed.
        db.store.cancel(ids[1].id).await.unwrap();
        assert_eq!(db.take_one(node).await.job, ids[2].id);
    }

    async fn the_cleaner_wakes_jobs_that_a_dead_node_did_not_wake(db) {
        let ids = db.store.enqueue_many(vec![keyed("k"); 2]).await.unwrap();
        let node = db.node("a").await;
        db.take_one(node).await;
        // As if the node had died between settling and waking.
        db.sql("delete from {t}background_job").await;
        assert_eq!(db.take(node, 10).await.len(), 0);
        db.store.clean(&lineclear::store::Retention::default(), 100).await.unwrap();
        assert_eq!(db.take_one(node).await.job, ids[1].id);
    }

    async fn a_job_that_its_group_holds_up_takes_no_place_under_its_key(db) {
        db.group("full", limit(0)).await;
        let blocked = NewJob { limit_key: Some("k".to_owned()), priority: 5, ..of("full") };
        db.enqueue(blocked).await;
        let free = db.enqueue(keyed("k")).await;
        let node = db.node("a").await;
        assert_eq!(db.take_one(node).await.job, free);
    }

    async fn a_held_job_whose_key_was_forgotten_is_woken_all_the_same(db) {
        let ids = db.store.enqueue_many(vec![keyed("k"); 2]).await.unwrap();
        let node = db.node("a").await;
        let first = db.take_one(node).await;
        db.sql("delete from {t}limit_key").await;
        db.settle(node, &first, completed()).await;
        assert_eq!(db.take_one(node).await.job, ids[1].id);
    }

    async fn a_limit_that_no_database_can_hold_is_refused(db) {
        use lineclear::store::{StoreError, ChangeSource};
        let refused = |error: StoreError| matches!(error, StoreError::Refused { rule, .. } if rule == "limit");
        assert!(refused(db.store.set_limit("k", u32::MAX).await.unwrap_err()));
        let groups = std::collections::BTreeMap::from([("g".to_owned(), limit(u32::MAX))]);
        assert!(refused(db.store.upsert_groups(groups, ChangeSource::Edit).await.unwrap_err()));
    }
}
