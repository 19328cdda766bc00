//! A job runs again because somebody said so, in the way that its state allows.

use lineclear::model::{Failure, JobState, Micros, Outcome};
use lineclear::store::{JobId, NewJob, Retried, RetryOptions};

use crate::kit::{TestDb, completed, daily, failed, job, name, payload};

async fn retry(db: &TestDb, job: JobId) -> Retried {
    let options = RetryOptions { by: "ann".to_owned(), note: Some("fixed".to_owned()), route: None };
    db.store.retry(job, options).await.unwrap()
}

conformance! {
    async fn a_job_that_waits_for_its_next_try_is_due_now(db) {
        let node = db.node("a").await;
        let id = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, failed("no")).await;
        assert!(db.take(node, 10).await.is_empty());
        assert_eq!(retry(db, id).await, Retried::Due);
        let again = db.take_one(node).await;
        assert_eq!((again.job, again.failures, again.no), (id, 1, 2), "its failures still count");
    }

    async fn a_dead_letter_is_revived(db) {
        let node = db.node("a").await;
        let id = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "broken"))).await;
        let letter = db.store.dead_letters(None, None, 1).await.unwrap().items[0].id;
        assert_eq!(retry(db, id).await, Retried::Revived(letter));
        assert_eq!(retry(db, id).await, Retried::NotOver(JobState::Queued));
        let letter = db.store.dead_letters(None, None, 1).await.unwrap().items.remove(0);
        assert_eq!((letter.resolved_by.as_deref(), letter.note.as_deref()), (Some("ann"), Some("fixed")));
        assert_eq!(db.take_one(node).await.failures, 0);
    }

    async fn what_is_over_runs_again_as_a_new_job_with_the_same_input(db) {
        let node = db.node("a").await;
        db.declare(daily("m")).await;
        let long = payload(&format!("{:?}", "x".repeat(2000)));
        let adhoc = db.enqueue(NewJob { input: long.clone(), ..job() }).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        let Retried::Again(new) = retry(db, adhoc).await else { panic!("it is over") };
        let claim = db.take_one(node).await;
        assert_eq!((claim.job, claim.input.clone()), (new, long));
        db.settle(node, &claim, completed()).await;

        let input = Some(payload(r#"{"day":7}"#));
        let options = lineclear::store::TriggerOptions { input: input.clone(), ..Default::default() };
        let of_manifest = db.store.trigger(name("m"), options).await.unwrap().unwrap();
        db.store.cancel(of_manifest).await.unwrap();
        let Retried::Again(_) = retry(db, of_manifest).await else { panic!("it is over") };
        let claim = db.take_one(node).await;
        assert_eq!((claim.manifest.is_some(), Some(claim.input)), (true, input));

        let dead = db.enqueue(NewJob { route: name("gpu"), ..job() }).await;
        let lease = crate::kit::lease(node);
        let claim = db.store.dispatch_into_lease(name("gpu"), 1, lease).await.unwrap().remove(0);
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "broken"))).await;
        let letter = db.store.dead_letters(Some("awaiting"), None, 1).await.unwrap().items[0].id;
        db.store.acknowledge(vec![letter], "ann", None).await.unwrap();
        assert!(matches!(retry(db, dead).await, Retried::Again(_)));
        assert_eq!(db.store.dispatch_into_lease(name("gpu"), 1, lease).await.unwrap().len(), 1, "on its route");
    }

    async fn what_is_not_over_is_not_tried_again(db) {
        let node = db.node("a").await;
        let runs = db.enqueue(job()).await;
        db.take_one(node).await;
        let queued = db.enqueue(job()).await;
        let later = db.enqueue(NewJob { due_at: Micros::new(4_102_444_800_000_000), ..job() }).await;
        for (id, state) in [(runs, JobState::Running), (queued, JobState::Queued), (later, JobState::Scheduled)] {
            assert_eq!(retry(db, id).await, Retried::NotOver(state));
        }
        assert_eq!(retry(db, JobId(999)).await, Retried::Unknown);
        assert_eq!(db.count("work_queue").await, 2);
    }
}
