//! cancel: in each table a job can be in.

use lineclear::model::{JobState, Micros};
use lineclear::store::{Cancelled, Dispatch, JobId, NewJob, UniqueKey, main_route};

use crate::kit::{completed, failed, job};

conformance! {
    async fn a_waiting_job_is_over(db) {
        let queued = db.enqueue(job()).await;
        let later = db.enqueue(NewJob { due_at: Micros::new(4_102_444_800_000_000), ..job() }).await;
        for id in [queued, later] {
            assert_eq!(db.store.cancel(id).await.unwrap(), Cancelled::Over);
            assert_eq!(db.state(id).await, Some(JobState::Cancelled));
            assert_eq!(db.store.cancel(id).await.unwrap(), Cancelled::Before(JobState::Cancelled));
        }
        assert_eq!(db.count("work_queue").await, 0);
    }

    async fn a_dispatched_job_is_over(db) {
        let id = db.enqueue(job()).await;
        db.store.dispatch(Dispatch::new(main_route(), 1)).await.unwrap();
        assert_eq!(db.store.cancel(id).await.unwrap(), Cancelled::Over);
        assert_eq!(db.state(id).await, Some(JobState::Cancelled));
    }

    pgbouncer async fn a_running_job_is_asked(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        db.take_one(node).await;
        assert_eq!(db.store.cancel(id).await.unwrap(), Cancelled::Asked(node));
        assert_eq!(db.state(id).await, Some(JobState::Running));
        assert_eq!(db.store.cancel(id).await.unwrap(), Cancelled::Asked(node), "asking twice is asking once");
    }

    async fn a_job_that_waits_for_its_retry_is_over_and_keeps_its_history(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, failed("no")).await;
        assert_eq!(db.store.cancel(id).await.unwrap(), Cancelled::Over);
        let detail = db.store.job(id).await.unwrap().unwrap();
        let history: Vec<_> = detail.executions.iter().map(|e| (e.claim_no, e.outcome.as_str(), e.is_final)).collect();
        assert_eq!(history, [(1, "failed", false), (2, "cancelled", true)]);
    }

    async fn a_job_that_is_over_stays_as_it_was(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        assert_eq!(db.store.cancel(id).await.unwrap(), Cancelled::Before(JobState::Completed));
        assert_eq!(db.store.cancel(JobId(123_456)).await.unwrap(), Cancelled::Unknown);
    }

    async fn a_cancelled_job_frees_its_unique_key(db) {
        let with_key = NewJob { unique_key: Some(UniqueKey::new("k")), ..job() };
        let id = db.enqueue(with_key.clone()).await;
        db.store.cancel(id).await.unwrap();
        assert!(!db.store.enqueue(with_key).await.unwrap().existing());
    }
}
