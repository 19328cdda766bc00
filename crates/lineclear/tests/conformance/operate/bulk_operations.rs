//! Bulk operations: one action on many jobs, portion by portion, each job once.

use std::time::Duration;

use lineclear::model::query::Query;
use lineclear::model::{DeadReason, Failure, JobState, Outcome, Verdict};
use lineclear::store::{
    BulkAction, BulkMode, BulkOperation, BulkStatus, NewBulkOperation, NewJob, PORTION, Settlement,
    StoreResult,
};

use crate::kit::{TestDb, completed, job, name};

pub(crate) async fn add(db: &TestDb, action: BulkAction, q: &str) -> BulkOperation {
    add_in(db, action, q, BulkMode::All).await.unwrap()
}

pub(crate) async fn add_in(
    db: &TestDb,
    action: BulkAction,
    q: &str,
    mode: BulkMode,
) -> StoreResult<BulkOperation> {
    let (reason, by) = (Some("a test".to_owned()), "ann".to_owned());
    let query = Query::parse(q).unwrap();
    db.store
        .add_bulk_operation(NewBulkOperation { action, query, reason, by, starts_in: Duration::ZERO, mode })
        .await
}

/// Works until nothing is left to do.
pub(crate) async fn work(db: &TestDb, holder: &str) -> u32 {
    let mut portions = 0;
    while db.store.work_on_bulk_operation(holder).await.unwrap().is_some() {
        portions += 1;
    }
    portions
}

/// Makes this many dead letters.
pub(crate) async fn dead(db: &TestDb, count: usize) {
    dead_because(db, count, DeadReason::Permanent).await;
}

/// Makes dead letters with one error, for this reason.
async fn dead_because(db: &TestDb, count: usize, reason: DeadReason) {
    let node = db.node("a").await;
    db.store.enqueue_many(vec![job(); count]).await.unwrap();
    let claims = db.take(node, 5000).await;
    let settle = |claim| {
        let outcome = Outcome::Failed(Failure::new("x", "broken").permanent());
        Settlement::new(claim, outcome, Verdict::Bury { reason })
    };
    db.store.settle(node, claims.iter().map(settle).collect()).await.unwrap();
}

/// Runs a bulk operation to its end; returns its total, done and skipped jobs.
async fn worked(db: &TestDb, action: BulkAction, q: &str) -> (u64, u64, u64) {
    let batch = add(db, action, q).await;
    work(db, "one").await;
    let done = db.store.bulk_operation(batch.id).await.unwrap().unwrap();
    assert_eq!(done.status, BulkStatus::Done);
    (done.total, done.done, done.skipped)
}

conformance! {
    async fn waiting_jobs_are_cancelled_and_those_that_run_are_asked(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 450]).await.unwrap();
        db.enqueue(NewJob { kind: name("other"), ..job() }).await;
        assert_eq!(db.take(node, 10).await.len(), 10);
        let batch = add(db, BulkAction::Cancel, "kind:work").await;
        assert_eq!((batch.total, batch.total_is_exact, batch.status), (450, true, BulkStatus::Waiting));
        let late = db.enqueue(job()).await;
        assert_eq!(work(db, "one").await, 450_u32.div_ceil(PORTION));
        let done = db.store.bulk_operation(batch.id).await.unwrap().unwrap();
        assert_eq!((done.status, done.done, done.skipped), (BulkStatus::Done, 450, 0));
        assert!(done.finished_at.is_some());
        assert_eq!(db.count("execution where outcome = 'cancelled' and final").await, 440);
        assert_eq!(db.count("background_job where cancel_requested_at is not null").await, 10);
        assert_eq!(db.state(late).await, Some(JobState::Queued), "what came later is not meant");
        assert_eq!(db.count("work_queue").await, 2);
    }

    async fn dead_letters_are_revived_once_although_they_die_again(db) {
        dead(db, 450).await;
        let batch = add(db, BulkAction::Revive, "state:dead").await;
        db.store.work_on_bulk_operation("one").await.unwrap().unwrap();
        let node = db.node("a").await;
        let claims = db.take(node, 5000).await;
        assert_eq!(claims.len(), PORTION as usize);
        let settle = |claim| Settlement::new(claim, Outcome::DeadLetter(Failure::new("x", "again")), Verdict::Bury { reason: DeadReason::Permanent });
        db.store.settle(node, claims.iter().map(settle).collect()).await.unwrap();
        work(db, "one").await;
        let done = db.store.bulk_operation(batch.id).await.unwrap().unwrap();
        assert_eq!((done.done, done.skipped), (450, 0));
        assert_eq!(db.count("dead_letter where status = 'revived' and resolved_by = 'ann' and note = 'a test'").await, 450);
        add(db, BulkAction::Acknowledge, "error:again").await;
        work(db, "one").await;
        assert_eq!(db.count("dead_letter where status = 'acknowledged'").await, u64::from(PORTION));
    }

    // People saw "Revive 52 jobs?", and then "50 could not be treated any more".
    async fn dead_letters_that_rest_are_neither_counted_nor_treated_when_many_are_revived(db) {
        dead(db, 50).await;
        assert_eq!(worked(db, BulkAction::Acknowledge, "state:dead").await, (50, 50, 0));
        dead(db, 2).await;
        let listed = async |q: &str| db.store.count(&Query::parse(q).unwrap()).await.unwrap().count;
        assert_eq!(listed("state:dead").await, 52, "people may look at all of them");
        assert_eq!(worked(db, BulkAction::Revive, "state:dead").await, (2, 2, 0));
        assert_eq!(db.count("work_queue").await, 2);
        assert_eq!(worked(db, BulkAction::Revive, "kind:work").await, (0, 0, 0));
        assert_eq!(worked(db, BulkAction::Acknowledge, "state:dead").await, (0, 0, 0));
        assert_eq!(db.count("dead_letter where status = 'acknowledged'").await, 50);
        // A retry counts acknowledged ones, too: they run again as new jobs.
        assert_eq!(worked(db, BulkAction::Retry, "state:dead").await, (50, 50, 0));
        assert_eq!((db.count("work_queue").await, listed("state:dead").await), (52, 50));
    }

    // More of them than one search reads.
    async fn many_acknowledged_dead_letters_do_not_hide_the_few_that_await_a_person(db) {
        dead(db, 1).await;
        for _ in 0..3 {
            db.store.enqueue_many(vec![job(); 4_000]).await.unwrap();
            dead(db, 0).await;
        }
        db.sql("update {t}dead_letter set status = 'acknowledged' where id > (select min(id) from {t}dead_letter)").await;
        assert_eq!(db.count("dead_letter where status = 'acknowledged'").await, 12_000);
        let query = BulkAction::Revive.of(Query::parse("state:dead").unwrap());
        let found = db.store.search(&query, None, 50).await.unwrap();
        assert_eq!((found.items.len(), found.rows_scanned, found.next), (1, 1, None), "by index");
        assert_eq!(worked(db, BulkAction::Revive, "state:dead").await, (1, 1, 0));
    }

    async fn what_died_of_the_same_error_for_another_reason_is_treated_apart(db) {
        dead_because(db, 3, DeadReason::Permanent).await;
        dead_because(db, 2, DeadReason::RetriesUsedUp).await;
        let families = db.store.dead_families(&Default::default(), 10).await.unwrap().items;
        assert_eq!(families.iter().map(|family| family.count).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(families[0].fingerprint, families[1].fingerprint);
        let fingerprint = families[0].fingerprint.clone().unwrap();
        let of = |reason: DeadReason| format!("state:dead kind:work fingerprint:{fingerprint} reason:{reason}");
        assert_eq!(worked(db, BulkAction::Revive, &of(DeadReason::RetriesUsedUp)).await, (2, 2, 0));
        assert_eq!(db.count("dead_letter where status = 'awaiting' and reason = 'permanent'").await, 3);
        assert_eq!(worked(db, BulkAction::Acknowledge, &of(DeadReason::WorkerLost)).await, (0, 0, 0));
        assert_eq!(worked(db, BulkAction::Acknowledge, "-reason:worker_lost,retries_used_up").await, (3, 3, 0));
    }

    async fn retrying_many_runs_each_again_once(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 250]).await.unwrap();
        for claim in db.take(node, 240).await {
            db.settle(node, &claim, completed()).await;
        }
        let batch = add(db, BulkAction::Retry, "kind:work").await;
        assert_eq!(batch.total, 240, "those that wait are not meant");
        work(db, "one").await;
        let done = db.store.bulk_operation(batch.id).await.unwrap().unwrap();
        assert_eq!((done.done, done.skipped, db.count("work_queue").await), (240, 0, 250));
    }

    async fn a_batch_can_be_taken_back_before_it_starts_and_stopped_after(db) {
        dead(db, 450).await;
        let query = Query::parse("state:dead since:1h").unwrap();
        let new = NewBulkOperation { action: BulkAction::Revive, query, reason: None, by: "ann".to_owned(), starts_in: Duration::from_secs(60), mode: BulkMode::All };
        let batch = db.store.add_bulk_operation(new).await.unwrap();
        assert!(batch.q.contains("since:20"), "moments are fixed: {}", batch.q);
        assert_eq!(work(db, "one").await, 0, "its time has not come");
        assert_eq!(db.store.cancel_bulk_operation(batch.id).await.unwrap().unwrap().done, 0);
        assert_eq!(db.store.cancel_bulk_operation(batch.id).await.unwrap(), None);
        db.age("bulk_operation", "starts_at", 120).await;
        assert_eq!(work(db, "one").await, 0);

        let batch = add(db, BulkAction::Revive, "state:dead").await;
        db.store.work_on_bulk_operation("one").await.unwrap().unwrap();
        let stopped = db.store.cancel_bulk_operation(batch.id).await.unwrap().unwrap();
        assert_eq!((stopped.status, stopped.done), (BulkStatus::Cancelled, u64::from(PORTION)));
        assert_eq!(work(db, "one").await, 0);
        assert_eq!(db.count("work_queue").await, u64::from(PORTION));
        let listed = db.store.bulk_operations(None, 10).await.unwrap().items;
        assert_eq!(listed.iter().map(|batch| batch.status).collect::<Vec<_>>(), [BulkStatus::Cancelled, BulkStatus::Cancelled]);
    }

    pgbouncer async fn another_goes_on_when_the_one_who_worked_on_it_is_gone(db) {
        dead(db, 450).await;
        let batch = add(db, BulkAction::Revive, "state:dead").await;
        let other = db.another_store().await;
        db.store.work_on_bulk_operation("one").await.unwrap().unwrap();
        assert_eq!(other.work_on_bulk_operation("two").await.unwrap(), None, "one is at it");
        db.age("bulk_operation", "lease_ends_at", 60).await;
        let taken = other.work_on_bulk_operation("two").await.unwrap().unwrap();
        assert_eq!(taken.done, u64::from(PORTION) * 2);
        assert_eq!(db.store.work_on_bulk_operation("one").await.unwrap(), None, "two is at it");
        let (mut at_once, mut rounds) = (Vec::new(), 0);
        db.age("bulk_operation", "lease_ends_at", 60).await;
        for holder in ["one", "two", "three"] {
            let store = db.another_store().await;
            at_once.push(tokio::spawn(async move { store.work_on_bulk_operation(holder).await.unwrap() }));
        }
        for one in at_once {
            rounds += u32::from(one.await.unwrap().is_some());
        }
        assert_eq!(rounds, 1, "one of the three");
        let done = db.store.bulk_operation(batch.id).await.unwrap().unwrap();
        assert_eq!((done.status, done.done, done.skipped), (BulkStatus::Done, 450, 0));
        assert_eq!(db.count("work_queue").await, 450);
        assert_eq!(db.count("dead_letter where status = 'revived'").await, 450);
    }
}
