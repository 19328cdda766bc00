//! settle: background_job → history, another try, or the dead letters.

use std::time::Duration;

use lineclear::model::{ExecutionOutcome, Failure, JobState, Outcome, Verdict, judge};
use lineclear::store::{Claim, FencedWrite, JobId, Settlement};

use crate::kit::{completed, failed, job, payload, policy};

conformance! {
    async fn a_completed_job_is_over_with_its_output_in_history(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let output = Some(payload(r#"{"rows":12}"#));
        assert_eq!(db.settle(node, &claim, Outcome::Completed { output }).await, FencedWrite::Recorded);

        let detail = db.store.job(id).await.unwrap().unwrap();
        assert_eq!(detail.job.state, JobState::Completed);
        let execution = &detail.executions[0];
        assert_eq!((execution.claim_no, execution.is_final, execution.outcome), (1, true, ExecutionOutcome::Completed));
        assert_eq!((execution.output.as_deref(), execution.node), (Some(r#"{"rows":12}"#), Some(node)));
        assert_eq!(db.count("background_job").await, 0);
    }

    async fn a_failed_job_waits_for_its_retry_and_then_dies(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        for no in 1..=4 {
            let claim = db.take_one(node).await;
            assert_eq!((claim.no, claim.failures), (no, no - 1));
            db.settle(node, &claim, failed(&format!("try {no}"))).await;
            let state = if no < 4 { JobState::Retrying } else { JobState::Dead };
            assert_eq!(db.state(id).await, Some(state));
            assert_eq!(db.take(node, 10).await.len(), 0, "not before its time");
            db.let_later_come().await;
        }
        let letters = db.store.dead_letters(None, None, 10).await.unwrap().items;
        assert_eq!(letters.len(), 1);
        assert_eq!((letters[0].failures, letters[0].reason.as_str()), (4, "retries_used_up"));
        assert_eq!(letters[0].last_error.as_deref(), Some("try 4"));
        assert!(letters[0].fingerprint.is_some());
        let executions = db.store.job(id).await.unwrap().unwrap().executions;
        assert_eq!(executions.len(), 4);
        assert!(executions.iter().all(|e| !e.is_final && e.outcome == ExecutionOutcome::Failed));
    }

    async fn a_permanent_error_dies_at_once(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::Failed(Failure::new("input", "no such customer").permanent())).await;
        assert_eq!(db.state(id).await, Some(JobState::Dead));
    }

    async fn a_snoozed_job_comes_back_uncharged(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::Snoozed { after: Duration::from_secs(60) }).await;
        assert_eq!(db.take(node, 1).await.len(), 0);
        db.let_later_come().await;
        let again = db.take_one(node).await;
        assert_eq!((again.job, again.no, again.failures), (id, 2, 0));
    }

    async fn a_job_asked_to_stop_gets_no_further_try(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.store.cancel(id).await.unwrap();
        db.settle(node, &claim, failed("interrupted")).await;
        assert_eq!(db.state(id).await, Some(JobState::Cancelled));
        assert_eq!(db.count("work_queue").await, 0);
    }

    async fn a_job_asked_to_stop_that_completed_is_completed(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.store.cancel(id).await.unwrap();
        db.settle(node, &claim, completed()).await;
        assert_eq!(db.state(id).await, Some(JobState::Completed));
    }

    /// A server gives back the claim of a remote worker that hung up; that worker may have got the claim with another answer.
    async fn settling_a_claim_that_was_given_back_is_stale(db) {
        db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        for _ in 0..2 {
            let given_back = db.settle(node, &claim, Outcome::Released).await;
            assert_eq!(given_back, FencedWrite::Recorded, "also when the answer was lost");
        }
        assert_eq!(db.settle(node, &claim, completed()).await, FencedWrite::Stale);
    }

    pgbouncer async fn settling_again_after_a_lost_answer_is_recorded_not_stale(db) {
        db.enqueue(job()).await;
        let (a, b) = (db.node("a").await, db.node("b").await);
        let claim = db.take_one(a).await;
        assert_eq!(db.settle(a, &claim, completed()).await, FencedWrite::Recorded);
        assert_eq!(db.settle(a, &claim, completed()).await, FencedWrite::Recorded, "by the same node: the answer was lost");
        assert_eq!(db.settle(b, &claim, completed()).await, FencedWrite::Stale, "by another node");
        assert_eq!(db.count("execution").await, 1);
    }

    async fn a_batch_has_an_answer_for_each(db) {
        db.store.enqueue_many(vec![job(); 4]).await.unwrap();
        let node = db.node("a").await;
        let claims = db.take(node, 4).await;
        let settlement = |claim: &Claim, outcome: Outcome| {
            let verdict = judge(&outcome, claim.failures, &policy());
            Settlement::new(claim, outcome, verdict)
        };
        let old = Claim { no: 9, ..claims[2].clone() };
        let unknown = Claim { job: JobId(999_999), ..claims[2].clone() };
        let batch = vec![
            settlement(&claims[0], completed()),
            settlement(&old, completed()),
            settlement(&claims[1], failed("no")),
            settlement(&unknown, completed()),
            settlement(&claims[3], Outcome::TimedOut),
        ];
        let answers = db.store.settle(node, batch).await.unwrap();
        use FencedWrite::{Recorded, Stale};
        assert_eq!(answers, [Recorded, Stale, Recorded, Stale, Recorded]);
        assert_eq!(db.state(claims[2].job).await, Some(JobState::Running));
        assert_eq!(db.store.settle(node, Vec::new()).await.unwrap(), []);
    }

    async fn a_wait_that_is_over_at_once_makes_the_job_ready(db) {
        db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let settlement = Settlement::new(&claim, failed("again"), Verdict::Retry { after: Duration::ZERO });
        db.store.settle(node, vec![settlement]).await.unwrap();
        assert_eq!(db.take_one(node).await.no, 2);
    }

    async fn a_claim_given_twice_is_settled_as_it_was_given_first(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let twice = vec![
            Settlement::new(&claim, completed(), Verdict::Complete),
            Settlement::new(&claim, failed("no"), Verdict::Retry { after: Duration::ZERO }),
        ];
        db.store.settle(node, twice).await.unwrap();
        assert_eq!(db.state(id).await, Some(JobState::Completed));
        let twice = vec![claim.reference(), claim.reference()];
        assert_eq!(db.store.renew(crate::kit::lease(node), twice).await.unwrap().len(), 1);
    }

    pgbouncer async fn an_outcome_that_cannot_be_recorded_does_not_hold_up_the_others(db) {
        db.store.enqueue_many(vec![job(); 5]).await.unwrap();
        let node = db.node("a").await;
        let claims = db.take(node, 5).await;
        let nul = Failure { error_type: "x".to_owned(), message: "a\0b".to_owned(), permanent: false };
        let outcome = |at: usize| if at == 3 { Outcome::Failed(nul.clone()) } else { completed() };
        let verdict = |at: usize| if at == 3 { Verdict::Retry { after: Duration::ZERO } } else { Verdict::Complete };
        let batch = claims.iter().enumerate().map(|(at, claim)| Settlement::new(claim, outcome(at), verdict(at)));
        assert_eq!(db.store.settle(node, batch.collect()).await.unwrap(), [FencedWrite::Recorded; 5]);
        let letters = db.store.dead_letters(None, None, 10).await.unwrap().items;
        assert_eq!((letters.len(), letters[0].job), (1, claims[3].job));
        assert!(letters[0].last_error.as_deref().unwrap().contains("could not be recorded"), "{letters:?}");
    }

    async fn for_ever_is_a_long_time_and_not_an_error(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let settlement = Settlement::new(&claim, failed("no"), Verdict::Retry { after: Duration::MAX });
        db.store.settle(node, vec![settlement]).await.unwrap();
        assert_eq!(db.state(id).await, Some(JobState::Retrying));
        let for_ever = lineclear::store::Retention {
            completed: Duration::MAX, failed: Duration::MAX, dead_letters: Duration::MAX, ticks: Duration::MAX, nodes: Duration::MAX,
            lock_events: Duration::MAX, audit: Duration::MAX, stats: Duration::MAX,
        };
        assert!(db.store.clean(&for_ever, 100).await.unwrap().is_nothing());
    }

    async fn the_highest_priorities_survive_a_retry_a_revival_and_a_change_of_the_group(db) {
        let highest = lineclear::model::GroupSpec { priority: 31, ..Default::default() };
        db.group("top", highest.clone()).await;
        let top = lineclear::store::NewJob { priority: 31, group: Some(crate::kit::name("top")), ..job() };
        let id = db.enqueue(top).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, failed("no")).await;
        db.group("top", lineclear::model::GroupSpec { priority: 30, ..highest.clone() }).await;
        db.group("top", highest).await;
        db.let_later_come().await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "y"))).await;
        let letter = db.store.dead_letters(None, None, 1).await.unwrap().items[0].id;
        db.store.revive(vec![letter], Default::default()).await.unwrap();
        db.enqueue(job()).await;
        assert_eq!(db.take(node, 1).await[0].job, id, "still before all others");
    }
}
