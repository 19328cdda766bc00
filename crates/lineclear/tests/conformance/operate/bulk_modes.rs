//! Bulk operations that do not release all jobs at once: spread over a period, or a canary first and the rest if it completes.

use std::time::Duration;

use lineclear::model::query::Query;
use lineclear::model::{DeadReason, Failure, JobState, Outcome, Verdict};
use lineclear::store::{
    BulkAction, BulkMode, BulkOperation, BulkStatus, Cancelled, NewBulkOperation, PORTION, SPREAD_MAX,
    Settlement, StoreError,
};

use crate::kit::{TestDb, completed, failed, job};
use crate::operate::bulk_operations::{add, add_in, dead, work};

/// A bulk operation that waits for its canary.
async fn with_canary(db: &TestDb, action: BulkAction, q: &str) -> BulkOperation {
    let batch = add_in(db, action, q, BulkMode::Canary).await.unwrap();
    assert_eq!((batch.mode, batch.canary), (BulkMode::Canary, None));
    assert_eq!(work(db, "one").await, 1, "one job is released, and the server does not wait for it");
    let batch = now(db, &batch).await;
    assert_eq!((batch.status, batch.done, batch.waits_for_canary), (BulkStatus::Running, 1, true));
    batch
}

async fn now(db: &TestDb, batch: &BulkOperation) -> BulkOperation {
    db.store.bulk_operation(batch.id).await.unwrap().unwrap()
}

/// Makes the next check of the canary due.
async fn look_again(db: &TestDb) {
    db.age("bulk_operation", "look_at", 60).await;
}

/// How far apart the waiting jobs become due, in tenths of a second after the first, in order.
async fn dues(db: &TestDb) -> Vec<i64> {
    let at = if db.url().starts_with("postgres") {
        "(extract(epoch from due_at) * 1000000)::bigint"
    } else {
        "due_at"
    };
    let rows = db.sql(&format!("select {at} from {{t}}work_queue order by due_at")).await;
    let all: Vec<i64> = rows.iter().map(|row| row[0].as_deref().unwrap().parse().unwrap()).collect();
    all.iter().map(|due| (due - all[0]) / 100_000).collect()
}

conformance! {
    async fn the_rest_follows_when_the_canary_completed(db) {
        dead(db, 450).await;
        let batch = with_canary(db, BulkAction::Revive, "state:dead").await;
        assert_eq!(db.count("work_queue").await, 1, "nothing else is touched");
        look_again(db).await;
        assert_eq!(work(db, "one").await, 1, "it still waits");
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        assert_eq!(Some(claim.job), batch.canary);
        look_again(db).await;
        work(db, "one").await;
        assert!(now(db, &batch).await.waits_for_canary, "it runs");
        db.settle(node, &claim, completed()).await;
        assert_eq!(work(db, "one").await, 0, "looked at again only after a while");
        look_again(db).await;
        assert_eq!(work(db, "one").await, 1 + 449_u32.div_ceil(PORTION));
        let done = now(db, &batch).await;
        assert_eq!((done.status, done.done, done.skipped, done.stopped_because), (BulkStatus::Done, 450, 0, None));
        assert_eq!((done.canary, done.waits_for_canary), (batch.canary, false));
        assert_eq!(db.count("work_queue").await, 449);
        assert_eq!(db.count("dead_letter where status = 'revived' and resolved_by = 'ann'").await, 450);
    }

    async fn nothing_follows_a_canary_that_dies_again(db) {
        dead(db, 5).await;
        let batch = with_canary(db, BulkAction::Revive, "state:dead").await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let outcome = Outcome::Failed(Failure::new("x", "still broken").permanent());
        db.store.settle(node, vec![Settlement::new(&claim, outcome, Verdict::Bury { reason: DeadReason::Permanent })]).await.unwrap();
        look_again(db).await;
        assert_eq!(work(db, "one").await, 1);
        let stopped = now(db, &batch).await;
        let because = format!("its canary, job {}, died again", claim.job);
        assert_eq!((stopped.status, stopped.done, stopped.stopped_because), (BulkStatus::Cancelled, 1, Some(because)));
        assert!(stopped.finished_at.is_some() && !stopped.waits_for_canary);
        assert_eq!(db.count("work_queue").await, 0);
        assert_eq!(db.count("dead_letter where status = 'awaiting'").await, 5);
        look_again(db).await;
        assert_eq!(work(db, "one").await, 0, "it is over");
    }

    async fn nothing_follows_a_canary_that_is_cancelled(db) {
        dead(db, 5).await;
        let batch = with_canary(db, BulkAction::Revive, "state:dead").await;
        assert_eq!(db.store.cancel(batch.canary.unwrap()).await.unwrap(), Cancelled::Over);
        look_again(db).await;
        work(db, "one").await;
        let stopped = now(db, &batch).await;
        assert_eq!(stopped.status, BulkStatus::Cancelled);
        assert!(stopped.stopped_because.unwrap().ends_with("was cancelled"));
        assert_eq!(db.count("dead_letter where status = 'awaiting'").await, 4);
    }

    async fn nothing_follows_a_canary_of_which_nothing_is_kept(db) {
        dead(db, 2).await;
        let batch = with_canary(db, BulkAction::Revive, "state:dead").await;
        db.sql("delete from {t}work_queue").await;
        look_again(db).await;
        work(db, "one").await;
        let because = now(db, &batch).await.stopped_because.unwrap();
        assert!(because.ends_with("was cleaned before its result was seen"), "{because}");
        assert_eq!(db.count("dead_letter where status = 'awaiting'").await, 1);
    }

    async fn a_canary_that_fails_and_waits_for_its_next_try_is_waited_for_up_to_a_day(db) {
        dead(db, 5).await;
        let batch = with_canary(db, BulkAction::Revive, "state:dead").await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, failed("not yet")).await;
        assert_eq!(db.state(claim.job).await, Some(JobState::Retrying));
        db.age("bulk_operation", "begun_at", 86_000).await;
        look_again(db).await;
        work(db, "one").await;
        assert!(now(db, &batch).await.waits_for_canary, "it may still complete");
        db.age("bulk_operation", "begun_at", 500).await;
        look_again(db).await;
        work(db, "one").await;
        let stopped = now(db, &batch).await;
        assert_eq!(stopped.status, BulkStatus::Cancelled);
        assert!(stopped.stopped_because.unwrap().ends_with("did not end within a day"));
        assert_eq!(db.count("dead_letter where status = 'awaiting'").await, 4);
    }

    async fn another_goes_on_with_a_canary_when_the_one_who_let_it_go_is_gone(db) {
        dead(db, 250).await;
        let batch = with_canary(db, BulkAction::Revive, "state:dead").await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        look_again(db).await;
        // "one" is never seen again; of the others one looks, and then each portion is done by one of them.
        let mut at_once = Vec::new();
        for holder in ["two", "three", "four"] {
            let store = db.another_store().await;
            at_once.push(tokio::spawn(async move {
                while store.work_on_bulk_operation(holder).await.unwrap().is_some() {}
            }));
        }
        for one in at_once {
            one.await.unwrap();
        }
        work(db, "five").await;
        db.age("bulk_operation", "lease_ends_at", 60).await;
        work(db, "five").await;
        let done = now(db, &batch).await;
        assert_eq!((done.status, done.done, done.skipped), (BulkStatus::Done, 250, 0), "each once");
        assert_eq!(db.count("work_queue").await, 249);
        assert_eq!(db.count("dead_letter where status = 'revived'").await, 250);
    }

    async fn a_batch_that_was_taken_to_let_a_canary_go_is_left_to_others_when_its_server_dies(db) {
        dead(db, 5).await;
        let batch = add_in(db, BulkAction::Revive, "state:dead", BulkMode::Canary).await.unwrap();
        // What is left when a server dies between taking the batch and letting the canary go.
        db.sql("update {t}bulk_operation set status = 'running', leased_by = 'gone', lease_ends_at = starts_at").await;
        assert_eq!(work(db, "one").await, 1);
        let batch = now(db, &batch).await;
        assert_eq!((batch.done, batch.waits_for_canary, db.count("work_queue").await), (1, true, 1));
    }

    async fn others_do_not_wait_for_a_canary_that_is_not_theirs(db) {
        dead(db, 450).await;
        let waiting = with_canary(db, BulkAction::Revive, "state:dead").await;
        let other = add(db, BulkAction::Acknowledge, "state:dead id:<100").await;
        assert_eq!(work(db, "one").await, 1, "by the same server, at once");
        assert_eq!(now(db, &other).await.status, BulkStatus::Done);
        assert!(now(db, &waiting).await.waits_for_canary);
        assert_eq!(db.store.work_on_bulk_operation("one").await.unwrap(), None, "and the server may rest");
    }

    pgbouncer async fn a_canary_can_be_taken_back_before_it_starts_and_stopped_while_it_is_waited_for(db) {
        dead(db, 5).await;
        let query = Query::parse("state:dead").unwrap();
        let starts_in = Duration::from_secs(60);
        let new = NewBulkOperation { action: BulkAction::Revive, query, reason: None, by: "ann".to_owned(), starts_in, mode: BulkMode::Canary };
        let batch = db.store.add_bulk_operation(new).await.unwrap();
        assert_eq!(work(db, "one").await, 0, "its time has not come");
        let undone = db.store.cancel_bulk_operation(batch.id).await.unwrap().unwrap();
        assert_eq!((undone.done, undone.canary, undone.stopped_because), (0, None, None), "a person said so");
        db.age("bulk_operation", "starts_at", 120).await;
        assert_eq!(work(db, "one").await, 0);
        assert_eq!(db.count("dead_letter where status = 'awaiting'").await, 5);

        let batch = with_canary(db, BulkAction::Revive, "state:dead").await;
        let stopped = db.store.cancel_bulk_operation(batch.id).await.unwrap().unwrap();
        assert_eq!((stopped.status, stopped.waits_for_canary), (BulkStatus::Cancelled, false));
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        look_again(db).await;
        assert_eq!(work(db, "one").await, 0, "although it completed");
        assert_eq!(db.count("dead_letter where status = 'awaiting'").await, 4);
    }

    pgbouncer async fn the_canary_of_jobs_that_are_over_is_the_new_job(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 3]).await.unwrap();
        for claim in db.take(node, 3).await {
            db.settle(node, &claim, completed()).await;
        }
        let batch = with_canary(db, BulkAction::Retry, "state:over").await;
        let claim = db.take_one(node).await;
        assert_eq!(Some(claim.job), batch.canary, "not the one that had completed before");
        db.settle(node, &claim, completed()).await;
        look_again(db).await;
        work(db, "one").await;
        let done = now(db, &batch).await;
        assert_eq!((done.status, done.done, db.count("work_queue").await), (BulkStatus::Done, 3, 2));
    }

    async fn a_canary_that_is_the_only_job_is_waited_for_and_none_at_all_is_no_reason_to_wait(db) {
        dead(db, 1).await;
        let batch = with_canary(db, BulkAction::Revive, "state:dead").await;
        let none = add_in(db, BulkAction::Revive, "state:dead", BulkMode::Canary).await.unwrap();
        work(db, "one").await;
        let none = now(db, &none).await;
        assert_eq!((none.status, none.canary, none.done), (BulkStatus::Done, None, 0));
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        look_again(db).await;
        work(db, "one").await;
        assert_eq!(now(db, &batch).await.status, BulkStatus::Done);
    }

    async fn revived_jobs_become_due_one_after_the_other(db) {
        dead(db, 450).await;
        let over = BulkMode::Spread(Duration::from_secs(4500));
        let batch = add_in(db, BulkAction::Revive, "state:dead", over).await.unwrap();
        assert_eq!(batch.mode, over);
        assert_eq!(work(db, "one").await, 450_u32.div_ceil(PORTION));
        let done = now(db, &batch).await;
        assert_eq!((done.status, done.done), (BulkStatus::Done, 450));
        assert_eq!(dues(db).await, (0..450).map(|turn| turn * 100).collect::<Vec<i64>>(), "one every ten seconds");
        let node = db.node("a").await;
        assert_eq!(db.take(node, 5000).await.len(), 1, "the others are not due");
        db.let_later_come().await;
        assert_eq!(db.take(node, 5000).await.len(), 449);
    }

    pgbouncer async fn jobs_that_are_retried_become_due_one_after_the_other_in_whatever_way_they_run_again(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 4]).await.unwrap();
        let claims = db.take(node, 4).await;
        db.settle(node, &claims[0], completed()).await;
        db.settle(node, &claims[1], failed("later")).await;
        let outcome = Outcome::Failed(Failure::new("x", "broken").permanent());
        let bury = Settlement::new(&claims[2], outcome, Verdict::Bury { reason: DeadReason::Permanent });
        db.store.settle(node, vec![bury]).await.unwrap();
        db.store.cancel(claims[3].job).await.unwrap();
        db.settle(node, &claims[3], Outcome::Cancelled).await;
        let batch = add_in(db, BulkAction::Retry, "kind:work", BulkMode::Spread(Duration::from_secs(8))).await.unwrap();
        assert_eq!(batch.total, 4);
        work(db, "one").await;
        assert_eq!(now(db, &batch).await.done, 4);
        assert_eq!(dues(db).await, [0, 20, 40, 60]);
    }

    async fn more_jobs_than_were_counted_go_round_again(db) {
        dead(db, 6).await;
        add_in(db, BulkAction::Revive, "state:dead", BulkMode::Spread(Duration::from_secs(30))).await.unwrap();
        db.sql("update {t}bulk_operation set total = 3").await;
        work(db, "one").await;
        assert_eq!(dues(db).await, [0, 0, 100, 100, 200, 200]);
    }

    async fn what_cannot_follow_anything_is_refused(db) {
        let rule = async |action, mode| match add_in(db, action, "id:>0", mode).await {
            Err(StoreError::Refused { rule, .. }) => rule,
            other => panic!("{other:?}"),
        };
        for action in [BulkAction::Cancel, BulkAction::Acknowledge] {
            assert_eq!(rule(action, BulkMode::Canary).await, "mode");
            assert_eq!(rule(action, BulkMode::Spread(Duration::from_secs(1))).await, "mode");
        }
        assert_eq!(rule(BulkAction::Revive, BulkMode::Spread(Duration::ZERO)).await, "over");
        assert_eq!(rule(BulkAction::Revive, BulkMode::Spread(SPREAD_MAX + Duration::from_secs(1))).await, "over");
        assert_eq!(db.count("bulk_operation").await, 0);
    }
}
