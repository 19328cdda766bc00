//! clean: removes history that is old enough, and nothing else.

use lineclear::model::{Failure, Outcome};
use lineclear::store::{NewJob, Retention, UniqueKey};

use crate::kit::{completed, daily, failed, job, payload};

const DAYS_8: i64 = 8 * 86_400;
const DAYS_31: i64 = 31 * 86_400;

conformance! {
    async fn a_key_whose_time_is_over_holds_while_its_job_waits_and_no_longer(db) {
        let keyed = || NewJob { unique_key: Some(UniqueKey::new("u").keep(std::time::Duration::from_secs(60))), ..job() };
        let first = db.enqueue(keyed()).await;
        db.age("job_key", "until", 3600).await;
        for _ in 0..2 {
            assert!(db.store.clean(&Retention::default(), 100).await.unwrap().is_nothing());
            assert_eq!(db.count("job_key where until is null").await, 1, "it is not read again by every cleaning");
            assert_eq!(db.enqueue(keyed()).await, first);
        }
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        assert_eq!(db.count("job_key").await, 0);
        assert_ne!(db.enqueue(keyed()).await, first);
    }

    pgbouncer async fn the_cleaner_removes_keys_whose_job_is_nowhere(db) {
        let keyed = |key: &str| NewJob { unique_key: Some(UniqueKey::new(key)), ..job() };
        for key in ["a", "b", "c", "d"] {
            db.enqueue(keyed(key)).await;
        }
        let node = db.node("a").await;
        let claims = db.take(node, 2).await;
        db.settle(node, &claims[1], Outcome::DeadLetter(Failure::new("x", "y"))).await;
        // By hand.
        db.sql("delete from {t}work_queue where unique_key = 'c'").await;
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().keys, 1);
        let left = db.sql("select key from {t}job_key order by key").await;
        assert_eq!(left, ["a", "b", "d"].map(|key| vec![Some(key.to_owned())]), "one runs, one is dead, one waits");
        assert!(db.store.clean(&Retention::default(), 100).await.unwrap().is_nothing());
        db.sql("delete from {t}work_queue").await;
        db.sql("delete from {t}job_key").await;
    }

    pgbouncer async fn the_cleaner_reads_keys_page_by_page(db) {
        // More than a page, and all in use but the last one.
        let keyed = |n: u32| NewJob { unique_key: Some(UniqueKey::new(format!("u{n:04}"))), ..job() };
        db.store.enqueue_many((0..300).map(keyed).collect()).await.unwrap();
        db.sql("delete from {t}work_queue where unique_key = 'u0299'").await;
        assert!(db.store.clean(&Retention::default(), 100).await.unwrap().is_nothing(), "it is not on the first page");
        db.sql("delete from {t}work_queue where unique_key = 'u0000'").await;
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().keys, 1);
        assert_eq!(db.count("job_key").await, 299);
        db.sql("delete from {t}job_key where key = 'u0299'").await;
    }

    async fn completed_jobs_go_after_a_week_with_their_payload(db) {
        let long = payload(&format!("{{\"text\":\"{}\"}}", "x".repeat(2000)));
        db.enqueue(NewJob { input: long, ..job() }).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, failed("first")).await;
        db.let_later_come().await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;

        assert!(db.store.clean(&Retention::default(), 100).await.unwrap().is_nothing());
        db.age("execution", "finished_at", DAYS_8).await;
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().executions, 2, "both of its tries");
        assert_eq!((db.count("execution").await, db.count("job_payload").await), (0, 0));
        assert!(db.store.clean(&Retention::default(), 100).await.unwrap().is_nothing(), "again changes nothing");
    }

    async fn cancelled_jobs_are_kept_longer(db) {
        let id = db.enqueue(job()).await;
        db.store.cancel(id).await.unwrap();
        db.age("execution", "finished_at", DAYS_8).await;
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().executions, 0);
        db.age("execution", "finished_at", DAYS_31).await;
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().executions, 1);
    }

    async fn live_work_and_awaiting_dead_letters_are_never_touched(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 4]).await.unwrap();
        let claims = db.take(node, 3).await;
        db.settle(node, &claims[0], failed("will retry")).await;
        db.settle(node, &claims[1], Outcome::DeadLetter(Failure::new("x", "y"))).await;
        for (table, column) in [("execution", "finished_at"), ("dead_letter", "dead_at"), ("work_queue", "created_at")] {
            db.age(table, column, DAYS_31 * 12).await;
        }
        assert!(db.store.clean(&Retention::default(), 100).await.unwrap().is_nothing());
        assert_eq!(db.count("execution").await, 2);
    }

    async fn the_last_success_of_a_manifest_is_kept(db) {
        db.declare(daily("m")).await;
        let node = db.node("a").await;
        for _ in 0..2 {
            db.store.trigger(crate::kit::name("m"), Default::default()).await.unwrap();
            let claim = db.take_one(node).await;
            db.settle(node, &claim, completed()).await;
        }
        db.age("execution", "finished_at", DAYS_31).await;
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().executions, 1);
        let last = db.store.manifests(None, 10).await.unwrap().items[0].last_success_job.unwrap();
        assert!(db.store.job(last).await.unwrap().is_some());
    }

    async fn resolved_dead_letters_go_after_a_month(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 2]).await.unwrap();
        for claim in db.take(node, 2).await {
            db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "y"))).await;
        }
        let letters = db.store.dead_letters(None, None, 10).await.unwrap().items;
        db.store.acknowledge(vec![letters[0].id], "ann", None).await.unwrap();
        db.store.revive(vec![letters[1].id], Default::default()).await.unwrap();
        db.age("dead_letter", "resolved_at", DAYS_31).await;
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().dead_letters, 2);
        assert_eq!(db.count("execution").await, 1, "the acknowledged job is gone, the revived one lives on");
    }

    async fn old_ticks_keys_and_nodes_go(db) {
        db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await.0, 1);
        db.node("a").await;
        let kept = Some(UniqueKey::new("k").keep(std::time::Duration::from_secs(60)));
        let id = db.enqueue(NewJob { unique_key: kept, ..job() }).await;
        db.store.cancel(id).await.unwrap();

        for (table, column) in [("tick", "tick_at"), ("node", "seen_at"), ("job_key", "until")] {
            db.age(table, column, DAYS_31).await;
        }
        let cleaned = db.store.clean(&Retention::default(), 100).await.unwrap();
        assert_eq!((cleaned.ticks, cleaned.nodes, cleaned.keys), (1, 1, 1));
    }

    async fn a_pass_takes_no_more_than_asked(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 5]).await.unwrap();
        for claim in db.take(node, 5).await {
            db.settle(node, &claim, completed()).await;
        }
        db.age("execution", "finished_at", DAYS_8).await;
        let mut passes = Vec::new();
        for _ in 0..4 {
            passes.push(db.store.clean(&Retention::default(), 2).await.unwrap().executions);
        }
        assert_eq!(passes, [2, 2, 1, 0]);
    }

    pgbouncer async fn two_cleaners_at_once_both_succeed(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 100]).await.unwrap();
        for claim in db.take(node, 100).await {
            db.settle(node, &claim, completed()).await;
        }
        db.age("execution", "finished_at", DAYS_8).await;
        let other = db.another_store().await;
        let drain = async |store: lineclear::Store| {
            let mut sum = 0;
            loop {
                match store.clean(&Retention::default(), 7).await.unwrap().executions {
                    0 => return sum,
                    n => sum += n,
                }
            }
        };
        let (one, two) = tokio::join!(drain(db.store.clone()), drain(other));
        // One of them may end while the other still holds the last rows.
        drain(db.store.clone()).await;
        assert_eq!(db.count("execution").await, 0);
        assert!(one + two <= 100);
    }
}
