//! Two planners on one tick, the advisory lock switched off.

use crate::tests::races::*;

#[tokio::test]
async fn a_second_planner_skips_manifests_that_the_first_is_planning() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], ChangeSource::Declaration).await.unwrap();
    due(&pg).await;
    let (first, open) = pg.begin(&plan_verb()).await;
    assert!(matches!(first, Planned::Led { queued: 1, .. }));
    let second = pg.store.plan(UNLED).await.unwrap();
    assert!(matches!(second, Planned::Led { due: 0, queued: 0, .. }), "{second:?}");
    open.commit().await;
    let third = pg.store.plan(UNLED).await.unwrap();
    assert!(matches!(third, Planned::Led { due: 0, .. }), "{third:?}");
    assert_eq!(pg.number("select count(*) from lineclear.work_queue").await, 1);
}

#[tokio::test]
async fn a_planner_that_dies_leaves_the_tick_to_the_next() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], ChangeSource::Declaration).await.unwrap();
    due(&pg).await;
    let (_, open) = pg.begin(&plan_verb()).await;
    open.roll_back().await;
    assert!(matches!(pg.store.plan(UNLED).await.unwrap(), Planned::Led { queued: 1, .. }));
}

/// Both planners have read the manifest as due and decided on the same tick: no row lock stands between them.
struct TakeTurn {
    manifest: i64,
    tick_at: Micros,
    overlap: Overlap,
}

impl Verb for TakeTurn {
    type Answer = Fired;

    async fn run(&self, session: &mut Session) -> StoreResult<Fired> {
        let template = JobTemplate {
            id: self.manifest,
            kind: "work".to_owned(),
            route: "main".to_owned(),
            input: "{}".to_owned(),
            group_id: None,
            overlap: self.overlap,
            priority: 0,
            retries: None,
            timeout_ms: None,
            tags: None,
        };
        let firing = Firing {
            template,
            origin: Origin::Tick,
            tick_at: self.tick_at,
            due_at: self.tick_at,
            skip: None,
        };
        firing::fire(session, vec![firing], Vec::new()).await
    }
}

#[tokio::test]
async fn the_ledger_alone_makes_a_tick_once_even_if_the_first_job_has_gone_already() {
    let pg = Pg::open().await;
    let take = || TakeTurn { manifest: 1, tick_at: Micros::EPOCH, overlap: Overlap::Allow };
    let (first, open) = pg.begin(&take()).await;
    assert_eq!(first.queued, 1);
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.run(take()).await.unwrap() });
    pg.until_a_session_waits().await;
    open.commit().await;
    assert_eq!(second.await.unwrap(), Fired { skipped: 0, ..Fired::default() });

    assert_eq!(pg.take(1, 10).await.len(), 1);
    assert_eq!(pg.store.run(take()).await.unwrap().queued, 0, "dispatched, and still not planned again");
}

#[tokio::test]
async fn two_ticks_for_one_waiting_place_make_one_job_and_one_recorded_skip() {
    let pg = Pg::open().await;
    let take = |at| TakeTurn { manifest: 1, tick_at: Micros::new(at).unwrap(), overlap: Overlap::Skip };
    let (_, open) = pg.begin(&take(1)).await;
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.run(take(2)).await.unwrap() });
    pg.until_a_session_waits().await;
    open.commit().await;
    assert_eq!(second.await.unwrap(), Fired { skipped: 1, ..Fired::default() });
    let skipped = "select count(*) from lineclear.tick where skip_reason = 'overlap' and job_id is null";
    assert_eq!(pg.number(skipped).await, 1);
}
