//! enqueue: a caller → work_queue.

use std::time::Duration;

use lineclear::model::{JobState, Micros};
use lineclear::store::{BATCH_MAX, NewJob, StoreError, UniqueKey};

use crate::kit::{completed, failed, job, name, payload};

fn unique(key: &str) -> Option<UniqueKey> {
    Some(UniqueKey { key: key.to_owned(), keep: None })
}

fn rule(result: Result<impl std::fmt::Debug, StoreError>) -> String {
    match result {
        Err(StoreError::Refused { rule, .. }) => rule,
        other => panic!("{other:?} is no refusal"),
    }
}

conformance! {
    async fn a_job_is_queued_with_all_it_was_given(db) {
        let input = payload(r#"{"text":"für Ümit 🚂","list":[1,2.50,null]}"#);
        let id = db.enqueue(NewJob {
            input: input.clone(),
            priority: 7,
            retries: Some(5),
            timeout: Some(Duration::from_millis(1500)),
            trace: Some("00-abc".to_owned()),
            tags: Some("a b".to_owned()),
            ..job()
        }).await;
        assert_eq!(db.state(id).await, Some(JobState::Queued));

        let claim = db.take_one(db.node("a").await).await;
        assert_eq!((claim.job, claim.no, claim.input, claim.kind), (id, 1, input, name("work")));
        assert_eq!((claim.retries, claim.timeout), (Some(5), Some(Duration::from_millis(1500))));
        assert_eq!((claim.failures, claim.crashes, claim.trace.as_deref()), (0, 0, Some("00-abc")));
    }

    async fn many_jobs_are_queued_in_their_order(db) {
        let jobs: Vec<NewJob> =
            (0..500).map(|n| NewJob { input: payload(&format!("{{\"n\":{n}}}")), ..job() }).collect();
        let ids = db.store.enqueue_many(jobs).await.unwrap();
        let node = db.node("a").await;
        let claims = db.take(node, 500).await;
        assert_eq!(claims.iter().map(|c| c.job).collect::<Vec<_>>(), ids.iter().map(|e| e.id).collect::<Vec<_>>());
        assert_eq!(claims[499].input.as_str(), r#"{"n":499}"#);
    }

    async fn a_long_input_lies_apart_and_comes_back_whole(db) {
        let long = payload(&format!("{{\"text\":\"{}\"}}", "ü".repeat(100_000)));
        db.enqueue(NewJob { input: long.clone(), ..job() }).await;
        assert_eq!(db.count("job_payload").await, 1);
        assert_eq!(db.take_one(db.node("a").await).await.input, long);
    }

    async fn a_job_for_later_waits_for_its_time(db) {
        let far = Micros::new(4_102_444_800_000_000).unwrap();
        let id = db.enqueue(NewJob { due_at: Some(far), priority: 31, ..job() }).await;
        assert_eq!(db.state(id).await, Some(JobState::Scheduled));
        assert_eq!(db.store.promote(100).await.unwrap(), 0);
        let node = db.node("a").await;
        assert_eq!(db.take(node, 10).await.len(), 0);

        db.sql("update {t}work_queue set due_at = created_at").await;
        assert_eq!(db.store.promote(100).await.unwrap(), 1);
        assert_eq!(db.take_one(node).await.job, id);
    }

    async fn a_unique_key_is_taken_until_its_job_is_over(db) {
        let node = db.node("a").await;
        let first = db.store.enqueue(NewJob { unique_key: unique("k"), ..job() }).await.unwrap();
        let second = db.store.enqueue(NewJob { unique_key: unique("k"), ..job() }).await.unwrap();
        assert!(!first.existing && second.existing);
        assert_eq!(first.id, second.id);

        let claim = db.take_one(node).await;
        assert!(db.store.enqueue(NewJob { unique_key: unique("k"), ..job() }).await.unwrap().existing, "while it runs");
        db.settle(node, &claim, failed("no")).await;
        assert!(db.store.enqueue(NewJob { unique_key: unique("k"), ..job() }).await.unwrap().existing, "while it retries");
        db.let_later_come().await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;

        let third = db.store.enqueue(NewJob { unique_key: unique("k"), ..job() }).await.unwrap();
        assert!(!third.existing && third.id != first.id);
    }

    async fn an_idempotency_key_outlives_its_job(db) {
        let node = db.node("a").await;
        let kept = Some(UniqueKey { key: "k".to_owned(), keep: Some(Duration::from_secs(3600)) });
        let first = db.store.enqueue(NewJob { unique_key: kept.clone(), ..job() }).await.unwrap();
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        let again = db.store.enqueue(NewJob { unique_key: kept.clone(), ..job() }).await.unwrap();
        assert_eq!((again.id, again.existing), (first.id, true));

        db.age("job_key", "until", 7200).await;
        let anew = db.store.enqueue(NewJob { unique_key: kept, ..job() }).await.unwrap();
        assert!(!anew.existing && anew.id != first.id);
    }

    async fn a_batch_with_the_same_key_twice_queues_one(db) {
        let jobs = ["k", "l", "k"].map(|key| NewJob { unique_key: unique(key), ..job() });
        let answers = db.store.enqueue_many(jobs.to_vec()).await.unwrap();
        assert_eq!(answers.iter().map(|e| e.existing).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(answers[0].id, answers[2].id);
        assert_eq!(db.count("work_queue").await, 2);
    }

    async fn bad_jobs_are_refused_and_nothing_is_written(db) {
        let refused = |bad: NewJob| async { rule(db.store.enqueue_many(vec![job(), bad]).await) };
        assert_eq!(refused(NewJob { priority: 32, ..job() }).await, "priority");
        assert_eq!(refused(NewJob { group: Some(name("nobody")), ..job() }).await, "group_unknown");
        assert_eq!(refused(NewJob { unique_key: unique(""), ..job() }).await, "key");
        assert_eq!(refused(NewJob { unique_key: unique("a\0b"), ..job() }).await, "key");
        assert_eq!(refused(NewJob { limit_key: Some("k".repeat(256)), ..job() }).await, "key");
        assert_eq!(refused(NewJob { tags: Some("a\0b".to_owned()), ..job() }).await, "text");
        assert_eq!(refused(NewJob { timeout: Some(Duration::ZERO), ..job() }).await, "timeout");
        assert_eq!(refused(NewJob { retries: Some(u32::MAX), ..job() }).await, "retries");
        assert_eq!(refused(NewJob { due_at: Micros::new(-1), ..job() }).await, "due_at");
        assert_eq!(rule(db.store.enqueue_many(vec![job(); BATCH_MAX + 1]).await), "batch_max");
        assert_eq!(db.count("work_queue").await, 0);
        assert_eq!(db.store.enqueue_many(Vec::new()).await.unwrap(), Vec::new());
    }

    async fn an_awaiting_dead_letter_keeps_its_key_also_when_its_time_is_over(db) {
        let kept = Some(UniqueKey { key: "k".to_owned(), keep: Some(Duration::from_secs(60)) });
        let id = db.enqueue(NewJob { unique_key: kept.clone(), ..job() }).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let outcome = lineclear::model::Outcome::DeadLetter(lineclear::model::Failure::new("x", "y"));
        db.settle(node, &claim, outcome).await;
        db.age("job_key", "until", 3600).await;
        let again = db.store.enqueue(NewJob { unique_key: kept, ..job() }).await.unwrap();
        assert_eq!((again.id, again.existing), (id, true));
    }
}
