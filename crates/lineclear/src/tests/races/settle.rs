//! A late settle, after a re-claim and at the same instant.

use crate::journey::claim::reclaim::Reclaim;
use crate::tests::races::*;

fn reclaim() -> Reclaim {
    Reclaim {
        most: 10,
        crash_budget: 3,
        except: Vec::new(),
        ended_before: Micros::EPOCH.offset(i64::MAX / 2),
        ended_since: None,
    }
}

async fn expired(pg: &Pg) -> Claim {
    pg.store.enqueue(job()).await.unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    pg.sql("update lineclear.background_job set due_at = now() - interval '1 hour'").await;
    claim
}

#[tokio::test]
async fn a_job_that_is_being_settled_is_not_given_up_for_lost() {
    let pg = Pg::open().await;
    let claim = expired(&pg).await;
    let (_, open) = pg.begin(&settle_verb(&claim)).await;
    assert_eq!(pg.store.reclaim(10, 3).await.unwrap(), []);
    open.commit().await;
    assert_eq!(pg.store.job(claim.job).await.unwrap().unwrap().job.state.as_str(), "completed");
}

#[tokio::test]
async fn a_settle_that_meets_a_reclaim_is_stale() {
    let pg = Pg::open().await;
    let claim = expired(&pg).await;
    let (lost, open) = pg.begin(&reclaim().query(&[])).await;
    assert_eq!(lost.len(), 1);
    let (store, late) = (pg.store.clone(), complete(&claim));
    let settled = tokio::spawn(async move { store.settle(NodeId(1), vec![late]).await.unwrap() });
    pg.let_it_try().await;
    open.commit().await;
    assert_eq!(settled.await.unwrap(), [FencedWrite::Stale]);
    assert_eq!(pg.store.job(claim.job).await.unwrap().unwrap().job.state.as_str(), "queued");
}

#[tokio::test]
async fn a_settle_that_meets_a_reclaim_that_rolls_back_is_recorded() {
    let pg = Pg::open().await;
    let claim = expired(&pg).await;
    let (_, open) = pg.begin(&reclaim().query(&[])).await;
    let (store, late) = (pg.store.clone(), complete(&claim));
    let settled = tokio::spawn(async move { store.settle(NodeId(1), vec![late]).await.unwrap() });
    pg.let_it_try().await;
    open.roll_back().await;
    assert_eq!(settled.await.unwrap(), [FencedWrite::Recorded]);
}

#[tokio::test]
async fn a_renewal_skips_a_row_that_is_being_reclaimed_and_does_not_call_it_lost() {
    let pg = Pg::open().await;
    let claim = expired(&pg).await;
    let (_, open) = pg.begin(&reclaim().query(&[])).await;
    let status = async || pg.store.renew(lease(1), vec![claim.reference()]).await.unwrap()[0].status;
    assert_eq!(status().await, RenewalStatus::Skipped);
    open.commit().await;
    assert_eq!(status().await, RenewalStatus::Lost);
}

#[tokio::test]
async fn a_retry_that_meets_a_pause_is_parked_and_one_that_meets_a_resume_is_not() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], ChangeSource::Declaration).await.unwrap();
    for enabled in [false, true] {
        pg.sql("delete from lineclear.work_queue; delete from lineclear.tick").await;
        due(&pg).await;
        pg.sql("update lineclear.manifest set enabled = true").await;
        pg.store.plan(UNLED).await.unwrap();
        let claim = pg.take(1, 1).await.remove(0);
        if enabled {
            pg.store.pause(vec![name("m")]).await.unwrap();
        }
        let switch = SetEnabled { keys: vec![name("m")], enabled };
        let (_, open) = pg.begin(&switch).await;
        let retry = Verdict::Retry { after: Duration::ZERO };
        let settlement = Settlement::new(&claim, Outcome::Failed(Failure::new("x", "y")), retry);
        let store = pg.store.clone();
        let settled = tokio::spawn(async move { store.settle(NodeId(1), vec![settlement]).await.unwrap() });
        pg.let_it_try().await;
        open.commit().await;
        settled.await.unwrap();
        let state = pg.store.job(claim.job).await.unwrap().unwrap().job.state;
        assert_eq!(state.as_str(), if enabled { "queued" } else { "parked" });
    }
}
