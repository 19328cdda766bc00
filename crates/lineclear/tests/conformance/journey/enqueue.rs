//! enqueue: a caller → work_queue.

use std::time::Duration;

use lineclear::model::{JobState, Micros};
use lineclear::store::{BATCH_MAX, EnqueueResult, NewJob, OnConflict, StoreError, TriggerOptions, UniqueKey};

use crate::kit::{completed, daily, failed, job, name, payload};

fn unique(key: &str) -> Option<UniqueKey> {
    Some(UniqueKey::new(key))
}

fn rule(result: Result<impl std::fmt::Debug, StoreError>) -> String {
    match result {
        Err(StoreError::Refused { rule, .. }) => rule,
        other => panic!("{other:?} is no refusal"),
    }
}

async fn rule_of_batch(db: &crate::kit::TestDb, jobs: Vec<NewJob>) -> String {
    rule(db.store.enqueue_many(jobs).await)
}

conformance! {
    pgbouncer async fn a_delay_is_added_to_the_databases_clock(db) {
        let delay = Some(Duration::from_secs(3600));
        let key = || Some(UniqueKey::new("k").on_conflict(OnConflict::Replace));
        let ids = [
            db.enqueue(NewJob { delay, ..job() }).await,
            db.store.enqueue_many(vec![NewJob { delay, ..job() }]).await.unwrap()[0].id,
            db.enqueue(NewJob { unique_key: key(), ..job() }).await,
        ];
        let (hour, more) = match db.is_sqlite() {
            true => ("3600000000", "60000000"),
            false => ("interval '1 hour'", "interval '1 minute'"),
        };
        for id in &ids[..2] {
            let exact = format!("work_queue where id = {id} and due_at = created_at + {hour} and phase = 'later'");
            assert_eq!(db.count(&exact).await, 1, "not the caller's clock plus an hour, which is never the same microsecond");
        }
        // A replacement begins anew, a minute at most after the first.
        assert_eq!(db.enqueue(NewJob { unique_key: key(), delay, ..job() }).await, ids[2]);
        let range = format!("due_at > created_at + {hour} and due_at < created_at + {hour} + {more} and phase = 'later'");
        assert_eq!(db.count(&format!("work_queue where id = {} and {range}", ids[2])).await, 1);
        // After a time that the caller names, it is added to that.
        let at = Micros::new(4_000_000_000_000_000);
        let id = db.enqueue(NewJob { due_at: at, delay, ..job() }).await;
        let due = db.store.job(id).await.unwrap().unwrap().job.due_at;
        assert_eq!(due, at.unwrap().offset(3_600_000_000));
        let long = NewJob { delay: Some(Duration::MAX), ..job() };
        assert!(matches!(db.store.enqueue(long).await, Err(StoreError::Refused { .. })));

        db.declare(daily("m")).await;
        let options = TriggerOptions { delay, ..TriggerOptions::default() };
        let id = db.store.trigger(name("m"), options).await.unwrap().unwrap();
        let exact = format!("work_queue where id = {id} and due_at = created_at + {hour} and phase = 'later'");
        assert_eq!(db.count(&exact).await, 1);
    }

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
        assert!(!first.existing() && second.existing());
        assert_eq!(first.id, second.id);

        let claim = db.take_one(node).await;
        assert!(db.store.enqueue(NewJob { unique_key: unique("k"), ..job() }).await.unwrap().existing(), "while it runs");
        db.settle(node, &claim, failed("no")).await;
        assert!(db.store.enqueue(NewJob { unique_key: unique("k"), ..job() }).await.unwrap().existing(), "while it retries");
        db.let_later_come().await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;

        let third = db.store.enqueue(NewJob { unique_key: unique("k"), ..job() }).await.unwrap();
        assert!(!third.existing() && third.id != first.id);
    }

    async fn an_idempotency_key_outlives_its_job(db) {
        let node = db.node("a").await;
        let kept = Some(UniqueKey::new("k").keep(Duration::from_secs(3600)));
        let first = db.store.enqueue(NewJob { unique_key: kept.clone(), ..job() }).await.unwrap();
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        let again = db.store.enqueue(NewJob { unique_key: kept.clone(), ..job() }).await.unwrap();
        assert_eq!((again.id, again.existing()), (first.id, true));

        db.age("job_key", "until", 7200).await;
        let anew = db.store.enqueue(NewJob { unique_key: kept, ..job() }).await.unwrap();
        assert!(!anew.existing() && anew.id != first.id);
    }

    async fn a_batch_with_the_same_key_twice_queues_one(db) {
        let jobs = ["k", "l", "k"].map(|key| NewJob { unique_key: unique(key), ..job() });
        let answers = db.store.enqueue_many(jobs.to_vec()).await.unwrap();
        assert_eq!(answers.iter().map(|e| e.existing()).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(answers[0].id, answers[2].id);
        assert_eq!(db.count("work_queue").await, 2);
    }

    async fn a_taken_key_can_refuse_and_names_the_job_that_has_it(db) {
        let strict = || NewJob { unique_key: Some(UniqueKey::new("k").on_conflict(OnConflict::Refuse)), ..job() };
        let first = db.store.enqueue(strict()).await.unwrap();
        assert_eq!(first.result, EnqueueResult::Inserted);
        let Err(StoreError::Refused { rule, why, .. }) = db.store.enqueue(strict()).await else { panic!("refused") };
        assert_eq!(rule, "unique_key_taken");
        assert!(why.contains(&format!("job {}", first.id)), "{why}");
        assert_eq!(rule_of_batch(db, vec![job(), strict()]).await, "unique_key_taken");
        assert_eq!(db.count("work_queue").await, 1, "all or none");
    }

    pgbouncer async fn a_job_that_still_waits_is_replaced(db) {
        let node = db.node("a").await;
        let long = payload(&format!("\"{}\"", "x".repeat(600)));
        let newest = |input: &lineclear::model::Payload, priority| NewJob {
            input: input.clone(), priority,
            unique_key: Some(UniqueKey::new("k").on_conflict(OnConflict::Replace)), ..job()
        };
        let far = Micros::new(4_102_444_800_000_000).unwrap();
        let first = db.store.enqueue(NewJob { due_at: Some(far), ..newest(&payload("1"), 0) }).await.unwrap();
        assert_eq!(first.result, EnqueueResult::Inserted);
        assert_eq!(db.state(first.id).await, Some(JobState::Scheduled));
        for input in [&long, &payload("2"), &long, &payload("3")] {
            let again = db.store.enqueue(newest(input, 7)).await.unwrap();
            assert_eq!((again.id, again.result), (first.id, EnqueueResult::Replaced));
            let detail = db.store.job(first.id).await.unwrap().unwrap();
            assert_eq!(detail.input.as_deref(), Some(input.as_str()));
            assert_eq!(db.count("job_payload").await, u64::from(input == &long));
        }
        assert_eq!(db.state(first.id).await, Some(JobState::Queued), "it is due now");
        let behind = db.enqueue(NewJob { priority: 3, ..job() }).await;
        let claims = db.take(node, 10).await;
        assert_eq!(claims.iter().map(|c| c.job).collect::<Vec<_>>(), [first.id, behind], "by its new priority");
        assert_eq!(claims[0].input, payload("3"));

        let too_late = db.store.enqueue(newest(&payload("4"), 0)).await.unwrap();
        assert_eq!((too_late.id, too_late.result), (first.id, EnqueueResult::Existing));
        db.settle(node, &claims[0], failed("no")).await;
        assert!(db.store.enqueue(newest(&payload("5"), 0)).await.unwrap().existing(), "it was claimed once");
        let another = NewJob { kind: name("other"), ..newest(&payload("6"), 0) };
        assert!(db.store.enqueue(another.clone()).await.unwrap().existing());
        db.store.cancel(first.id).await.unwrap();
        db.store.enqueue(newest(&payload("7"), 0)).await.unwrap();
        assert_eq!(rule(db.store.enqueue(another).await), "unique_key_taken", "a job does not change its kind");
    }

    async fn a_replaced_job_obeys_its_group_its_limit_and_its_time(db) {
        let node = db.node("a").await;
        db.group("vip", lineclear::model::GroupSpec { priority: 5, ..Default::default() }).await;
        let newest = |due_at| NewJob {
            group: Some(name("vip")), limit_key: Some("l".to_owned()), due_at,
            unique_key: Some(UniqueKey::new("k").on_conflict(OnConflict::Replace)), ..job()
        };
        db.enqueue(NewJob { limit_key: Some("l".to_owned()), ..job() }).await;
        let runs = db.take_one(node).await;
        let held = db.store.enqueue(newest(None)).await.unwrap();
        assert_eq!(db.take(node, 10).await.len(), 0);
        assert_eq!(db.state(held.id).await, Some(JobState::Held));
        assert_eq!(db.store.enqueue(newest(None)).await.unwrap().result, EnqueueResult::Replaced);
        assert_eq!(db.state(held.id).await, Some(JobState::Held), "its limit still holds it");
        let ranks = db.sql("select rank from {t}work_queue where group_id is not null").await;
        db.settle(node, &runs, completed()).await;
        let plain = db.enqueue(NewJob { priority: 4, ..job() }).await;
        let behind = db.sql(&format!("select rank from {{t}}work_queue where id = {}", plain.0)).await;
        let number = |rows: &[Vec<Option<String>>]| rows[0][0].as_deref().unwrap().parse::<i64>().unwrap();
        assert!(number(&ranks) < number(&behind), "five steps of its group weigh more than four of its own");
        let far = Micros::new(4_102_444_800_000_000).unwrap();
        assert_eq!(db.store.enqueue(newest(Some(far))).await.unwrap().result, EnqueueResult::Replaced);
        assert_eq!(db.take_one(node).await.job, plain);
        assert_eq!(db.state(held.id).await, Some(JobState::Scheduled));
    }

    async fn an_idempotency_key_with_another_body_is_refused(db) {
        let node = db.node("a").await;
        let call = |input: &str| NewJob {
            input: payload(input), unique_key: Some(UniqueKey::idempotency("k", Duration::from_secs(3600))), ..job()
        };
        let first = db.store.enqueue(call(r#"{"n":1}"#)).await.unwrap();
        let again = db.store.enqueue(call(r#"{ "n": 1 }"#)).await.unwrap();
        assert_eq!((again.id, again.result), (first.id, EnqueueResult::Existing));
        assert_eq!(rule(db.store.enqueue(call(r#"{"n":2}"#)).await), "unique_key_conflict");
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        assert_eq!(db.store.enqueue(call(r#"{"n":1}"#)).await.unwrap().id, first.id, "after its end as well");
        assert_eq!(rule(db.store.enqueue(call(r#"{"n":2}"#)).await), "unique_key_conflict");
        let other = NewJob { kind: name("other"), ..call(r#"{"n":1}"#) };
        assert_eq!(rule(db.store.enqueue(other).await), "unique_key_conflict");
        // What was replaced counts, not what was there before.
        let newest = |n: &str| NewJob {
            input: payload(n), unique_key: Some(UniqueKey::new("l").on_conflict(OnConflict::Replace)), ..job()
        };
        db.store.enqueue(newest("1")).await.unwrap();
        db.store.enqueue(newest("2")).await.unwrap();
        let same = |n: &str| NewJob {
            input: payload(n), unique_key: Some(UniqueKey::new("l").on_conflict(OnConflict::Same)), ..job()
        };
        assert_eq!(rule(db.store.enqueue(same("1")).await), "unique_key_conflict");
        assert!(db.store.enqueue(same("2")).await.unwrap().existing());
    }

    async fn the_same_key_twice_in_a_batch_follows_the_rule_too(db) {
        let with = |n: &str, rule| NewJob {
            input: payload(n), unique_key: Some(UniqueKey::new("k").on_conflict(rule)), ..job()
        };
        assert_eq!(rule_of_batch(db, vec![with("1", OnConflict::Refuse), with("1", OnConflict::Refuse)]).await, "unique_key_taken");
        assert_eq!(rule_of_batch(db, vec![with("1", OnConflict::Same), with("2", OnConflict::Same)]).await, "unique_key_conflict");
        assert_eq!(db.count("work_queue").await + db.count("job_key").await, 0);
        let newest = vec![with("1", OnConflict::Replace), with("2", OnConflict::Replace)];
        let answers = db.store.enqueue_many(newest.clone()).await.unwrap();
        assert_eq!(answers.iter().map(|e| e.result).collect::<Vec<_>>(), [EnqueueResult::Inserted, EnqueueResult::Replaced]);
        let answers = db.store.enqueue_many(newest).await.unwrap();
        assert_eq!(answers.iter().map(|e| e.result).collect::<Vec<_>>(), [EnqueueResult::Replaced; 2]);
        assert_eq!(db.take_one(db.node("a").await).await.input, payload("2"), "the last one counts");
    }

    async fn bad_jobs_are_refused_and_nothing_is_written(db) {
        let refused = |bad: NewJob| async { rule(db.store.enqueue_many(vec![job(), bad]).await) };
        assert_eq!(refused(NewJob { priority: 32, ..job() }).await, "priority");
        assert_eq!(refused(NewJob { group: Some(name("missing")), ..job() }).await, "group_unknown");
        assert_eq!(refused(NewJob { unique_key: unique(""), ..job() }).await, "key");
        assert_eq!(refused(NewJob { unique_key: unique("a\0b"), ..job() }).await, "key");
        assert_eq!(refused(NewJob { limit_key: Some("k".repeat(256)), ..job() }).await, "key");
        assert_eq!(refused(NewJob { tags: Some("a\0b".to_owned()), ..job() }).await, "text");
        assert_eq!(refused(NewJob { timeout: Some(Duration::ZERO), ..job() }).await, "timeout");
        assert_eq!(refused(NewJob { timeout: Some(Duration::MAX), ..job() }).await, "timeout");
        assert_eq!(refused(NewJob { retries: Some(u32::MAX), ..job() }).await, "retries");
        assert_eq!(refused(NewJob { due_at: Micros::new(-1), ..job() }).await, "due_at");
        assert_eq!(rule(db.store.enqueue_many(vec![job(); BATCH_MAX + 1]).await), "batch_max");
        assert_eq!(db.count("work_queue").await, 0);
        assert_eq!(db.store.enqueue_many(Vec::new()).await.unwrap(), Vec::new());
    }

    async fn an_awaiting_dead_letter_keeps_its_key_also_when_its_time_is_over(db) {
        let kept = Some(UniqueKey::new("k").keep(Duration::from_secs(60)));
        let id = db.enqueue(NewJob { unique_key: kept.clone(), ..job() }).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let outcome = lineclear::model::Outcome::DeadLetter(lineclear::model::Failure::new("x", "y"));
        db.settle(node, &claim, outcome).await;
        db.age("job_key", "until", 3600).await;
        let again = db.store.enqueue(NewJob { unique_key: kept, ..job() }).await.unwrap();
        assert_eq!((again.id, again.existing()), (id, true));
    }
}
