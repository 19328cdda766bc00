//! Leases: renew, lose, reclaim.

use lineclear::model::{Failure, JobState, Outcome, Verdict};
use lineclear::store::{
    Cancelled, Dispatch, Fate, FencedWrite, NewJob, RenewalStatus, Settlement, main_route,
};

use crate::kit::{completed, job, lease, name};

conformance! {
    async fn a_lease_is_renewed_while_it_is_ours(db) {
        db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.age("background_job", "due_at", 20).await;
        let renewals = db.store.renew(lease(node), vec![claim.reference()]).await.unwrap();
        assert_eq!((renewals[0].status, renewals[0].cancel_requested), (RenewalStatus::Renewed, false));
        assert_eq!(db.store.reclaim(10, 3).await.unwrap(), [], "it is good for another while");
        assert_eq!(db.store.renew(lease(node), Vec::new()).await.unwrap(), []);
    }

    async fn an_expired_lease_that_was_not_reclaimed_is_renewed(db) {
        db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.let_leases_end().await;
        let renewals = db.store.renew(lease(node), vec![claim.reference()]).await.unwrap();
        assert_eq!(renewals[0].status, RenewalStatus::Renewed);
    }

    async fn renewing_tells_of_a_request_to_cancel(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        assert_eq!(db.store.cancel(id).await.unwrap(), Cancelled::Asked(node));
        let renewals = db.store.renew(lease(node), vec![claim.reference()]).await.unwrap();
        assert!(renewals[0].cancel_requested);
    }

    /// Worker A is paused past its lease; B takes the job; A wakes up.
    pgbouncer async fn a_late_worker_can_neither_renew_nor_settle(db) {
        let id = db.enqueue(job()).await;
        let (a, b) = (db.node("a").await, db.node("b").await);
        let of_a = db.take_one(a).await;
        db.let_leases_end().await;
        let lost = db.store.reclaim(10, 3).await.unwrap();
        assert_eq!((lost[0].claim, lost[0].node, lost[0].fate), (of_a.reference(), a, Fate::Requeued));
        let of_b = db.take_one(b).await;
        assert_eq!((of_b.job, of_b.no, of_b.crashes), (id, of_a.no + 1, 1));

        let renewals = db.store.renew(lease(a), vec![of_a.reference()]).await.unwrap();
        assert_eq!(renewals[0].status, RenewalStatus::Lost);
        assert_eq!(db.settle(a, &of_a, completed()).await, FencedWrite::Stale);
        assert_eq!(db.state(id).await, Some(JobState::Running), "A changed nothing");
        assert_eq!(db.settle(b, &of_b, completed()).await, FencedWrite::Recorded);
        assert_eq!(db.state(id).await, Some(JobState::Completed));
    }

    async fn a_result_after_the_lease_is_recorded_until_another_claim(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.let_leases_end().await;
        assert_eq!(db.settle(node, &claim, completed()).await, FencedWrite::Recorded);
        assert_eq!(db.state(id).await, Some(JobState::Completed));
    }

    async fn between_reclaim_and_claim_a_late_result_is_stale(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.let_leases_end().await;
        db.store.reclaim(10, 3).await.unwrap();
        assert_eq!(db.settle(node, &claim, completed()).await, FencedWrite::Stale, "history says lost, not settled");
        assert_eq!(db.state(id).await, Some(JobState::Queued));
    }

    async fn a_job_of_a_dead_worker_goes_before_fresh_work(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        db.take_one(node).await;
        db.enqueue(NewJob { priority: 31, ..job() }).await;
        db.let_leases_end().await;
        db.store.reclaim(10, 3).await.unwrap();
        assert_eq!(db.take(node, 1).await[0].job, id);
    }

    async fn a_job_that_kills_its_workers_is_buried(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        for fate in [Fate::Requeued, Fate::Requeued, Fate::Buried] {
            let claim = db.take_one(node).await;
            assert!(db.store.mark_started(claim.reference()).await.unwrap());
            db.let_leases_end().await;
            assert_eq!(db.store.reclaim(10, 3).await.unwrap()[0].fate, fate);
        }
        assert_eq!(db.state(id).await, Some(JobState::Dead));
        let letters = db.store.dead_letters(Some("awaiting"), None, 10).await.unwrap().items;
        assert_eq!((letters[0].job, letters[0].reason.as_str(), letters[0].crashes), (id, "worker_lost", 3));
        assert_eq!(db.store.job(id).await.unwrap().unwrap().executions.len(), 3, "each vanished claim is in history");
    }

    async fn a_cancelled_job_of_a_dead_worker_is_over(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        db.take_one(node).await;
        db.store.cancel(id).await.unwrap();
        db.let_leases_end().await;
        assert_eq!(db.store.reclaim(10, 3).await.unwrap()[0].fate, Fate::Cancelled);
        assert_eq!(db.state(id).await, Some(JobState::Cancelled));
    }

    async fn only_so_many_leases_are_given_up_at_once(db) {
        db.store.enqueue_many(vec![job(); 5]).await.unwrap();
        let node = db.node("a").await;
        db.take(node, 5).await;
        db.let_leases_end().await;
        assert_eq!(db.store.reclaim(3, 3).await.unwrap().len(), 3);
        assert_eq!(db.store.reclaim(3, 3).await.unwrap().len(), 2);
        assert_eq!(db.store.reclaim(3, 3).await.unwrap().len(), 0);
    }

    async fn a_dispatched_job_that_was_not_claimed_does_not_count_as_a_crash(db) {
        let id = db.enqueue(job()).await;
        db.store.dispatch(Dispatch::new(main_route(), 10)).await.unwrap();
        db.let_leases_end().await;
        assert_eq!(db.store.reclaim(10, 3).await.unwrap(), []);
        assert_eq!(db.state(id).await, Some(JobState::Ready));
    }

    async fn a_job_given_back_unstarted_is_not_charged(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let settlement = Settlement::new(&claim, Outcome::Released, Verdict::Release);
        db.store.settle(node, vec![settlement]).await.unwrap();
        let again = db.take_one(node).await;
        assert_eq!((again.job, again.no, again.failures, again.crashes), (id, 2, 0, 0));
    }

    async fn claims_of_jobs_with_other_kinds_tell_them_apart(db) {
        db.enqueue(NewJob { kind: name("import"), ..job() }).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        assert_eq!(claim.kind, name("import"));
        let failure = Outcome::Failed(Failure::new("io", "no route to host"));
        db.settle(node, &claim, failure).await;
    }

    async fn an_old_claim_renewed_beside_the_nodes_own_new_one_is_lost(db) {
        db.enqueue(job()).await;
        let node = db.node("a").await;
        let old = db.take_one(node).await;
        db.let_leases_end().await;
        db.store.reclaim(10, 3).await.unwrap();
        let new = db.take_one(node).await;
        let renewals = db.store.renew(lease(node), vec![old.reference(), new.reference()]).await.unwrap();
        let of = |no| renewals.iter().find(|renewal| renewal.claim.no == no).unwrap().status;
        assert_eq!((of(old.no), of(new.no)), (RenewalStatus::Lost, RenewalStatus::Renewed));
    }

    async fn a_job_of_a_paused_manifest_whose_worker_died_is_parked(db) {
        db.declare(crate::kit::daily("m")).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.store.pause(vec![name("m")]).await.unwrap();
        db.let_leases_end().await;
        db.store.reclaim(10, 3).await.unwrap();
        assert_eq!(db.state(claim.job).await, Some(JobState::Parked));
    }

    async fn a_node_that_slept_does_not_call_itself_dead(db) {
        let ids = db.store.enqueue_many(vec![job(); 2]).await.unwrap();
        let node = db.node("a").await;
        db.take(node, 2).await;
        db.let_leases_end().await;
        let lost = db.store.reclaim_except(10, 3, vec![ids[0].id]).await.unwrap();
        assert_eq!(lost.iter().map(|lost| lost.claim.job).collect::<Vec<_>>(), [ids[1].id]);
    }
}
