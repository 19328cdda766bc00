//! Cleaner against settle; retry against the next tick; cancel against dispatch; pause against unparking.

use crate::tests::races::*;

#[tokio::test]
async fn the_cleaner_neither_waits_for_a_settle_nor_takes_the_history_of_its_job() {
    let pg = Pg::open().await;
    pg.store.enqueue_many(vec![job(); 2]).await.unwrap();
    let claims = pg.take(1, 2).await;
    let retry = Settlement::new(&claims[1], Outcome::TimedOut, Verdict::Retry { after: Duration::ZERO });
    pg.store.settle(NodeId(1), vec![complete(&claims[0]), retry]).await.unwrap();
    pg.sql("update lineclear.execution set finished_at = now() - interval '1 year'").await;
    let again = pg.take(1, 1).await.remove(0);
    let (_, open) = pg.begin(&settle_verb(&again)).await;
    assert_eq!(pg.store.clean(&Retention::default(), 100).await.unwrap().executions, 1, "the other job's");
    open.commit().await;
    assert_eq!(pg.number("select count(*) from lineclear.execution").await, 2, "both tries of this one");
}

#[tokio::test]
async fn a_retry_that_is_being_written_counts_as_the_job_that_it_is() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], ChangeSource::Declaration).await.unwrap();
    due(&pg).await;
    pg.store.plan(UNLED).await.unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    let retry = Verdict::Retry { after: Duration::from_secs(60) };
    let settlement = Settlement::new(&claim, Outcome::Failed(Failure::new("x", "y")), retry);
    let (_, open) = pg.begin(&Settle { node: NodeId(1), settlements: vec![settlement] }).await;
    pg.sql("update lineclear.tick set tick_at = tick_at - interval '1 day'").await;
    due(&pg).await;
    let planned = pg.store.plan(UNLED).await.unwrap();
    assert!(matches!(planned, Planned::Led { queued: 0, skipped: 1, .. }), "{planned:?}");
    open.commit().await;
    assert_eq!(pg.number("select count(*) from lineclear.work_queue").await, 1);
}

#[tokio::test]
async fn a_retry_does_not_wait_for_a_planner_that_is_queueing_the_next_tick() {
    let pg = Pg::open().await;
    pg.store
        .upsert_manifests(
            [Manifest { overlap: Some(Overlap::QueueOne), ..daily("m") }],
            ChangeSource::Declaration,
        )
        .await
        .unwrap();
    due(&pg).await;
    pg.store.plan(UNLED).await.unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    pg.sql("update lineclear.tick set tick_at = tick_at - interval '1 day'").await;
    due(&pg).await;
    let (planned, open) = pg.begin(&plan_verb()).await;
    assert!(matches!(planned, Planned::Led { queued: 1, .. }));
    let retry = Verdict::Retry { after: Duration::from_secs(60) };
    let settlement = Settlement::new(&claim, Outcome::Failed(Failure::new("x", "y")), retry);
    assert_eq!(pg.store.settle(NodeId(1), vec![settlement]).await.unwrap(), [FencedWrite::Recorded]);
    open.commit().await;
    assert_eq!(pg.number("select count(*) from lineclear.work_queue").await, 2);
}

#[tokio::test]
async fn a_cancel_finds_a_job_that_is_being_dispatched() {
    let pg = Pg::open().await;
    let id = pg.store.enqueue(job()).await.unwrap().id;
    let (_, open) = pg.begin(&DispatchOpen(wants(10))).await;
    let store = pg.store.clone();
    let cancelled = tokio::spawn(async move { store.cancel(id).await.unwrap() });
    pg.until_a_session_waits().await;
    open.commit().await;
    assert_eq!(cancelled.await.unwrap(), Cancelled::Asked(NodeId(1)));
}

#[tokio::test]
async fn a_job_of_an_unknown_kind_that_is_brought_back_sees_the_pause_that_just_comes() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], ChangeSource::Declaration).await.unwrap();
    due(&pg).await;
    pg.store.plan(UNLED).await.unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    let park = Settlement::new(&claim, Outcome::Released, Verdict::Park);
    pg.store.settle(NodeId(1), vec![park]).await.unwrap();
    let (_, open) = pg.begin(&SetEnabled { keys: vec![name("m")], enabled: false }).await;
    let unpark = async || pg.store.unpark_kinds(vec![name("work")], 10).await.unwrap();
    assert_eq!(unpark().await, 0, "it is left alone while its manifest changes");
    open.commit().await;
    assert_eq!(unpark().await, 1);
    assert_eq!(pg.take(1, 1).await.len(), 0, "its manifest is paused");
}

/// A pause locks the manifest and then its waiting jobs. A retry that held such a job while it waits for the manifest would deadlock with it.
#[tokio::test]
async fn a_retry_holds_no_waiting_job_while_it_waits_for_a_manifest() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], ChangeSource::Declaration).await.unwrap();
    let first = pg.store.trigger(name("m"), TriggerOptions::default()).await.unwrap().unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    pg.store.settle(NodeId(1), vec![complete(&claim)]).await.unwrap();
    due(&pg).await;
    pg.store.plan(UNLED).await.unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    let later = Verdict::Retry { after: Duration::from_secs(60) };
    let failed = Settlement::new(&claim, Outcome::Failed(Failure::new("x", "y")), later);
    pg.store.settle(NodeId(1), vec![failed]).await.unwrap();

    let pause = SetEnabled { keys: vec![name("m")], enabled: false };
    let mut session = Session::Postgres(pg.db().session(true).await.expect("a connection"));
    crate::manifests::stored::lock_states(&mut session, pause.keys.iter()).await.unwrap();
    crate::manifests::stored::read(&mut session, pause.keys.iter()).await.unwrap();
    let store = pg.store.clone();
    let retry = crate::operate::retry::Retry {
        jobs: vec![claim.job, first],
        options: RetryOptions { by: "ann".to_owned(), ..RetryOptions::default() },
    };
    let retried = tokio::spawn(async move { store.run(retry).await });
    pg.until_a_session_waits().await;
    pause.run(&mut session).await.expect("the pause goes on: no job that it parks is held");
    Open(session).commit().await;
    let retried = retried.await.unwrap().unwrap();
    assert!(matches!(retried[1].1, Retried::Again(_)), "{retried:?}");
    assert_eq!(pg.deadlocks().await, 0);
}

#[tokio::test]
async fn retries_of_many_jobs_and_pauses_of_their_manifest_do_not_deadlock() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], ChangeSource::Declaration).await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..4 {
        let job = pg.store.trigger(name("m"), TriggerOptions::default()).await.unwrap().unwrap();
        let claim = pg.take(1, 1).await.remove(0);
        pg.store.settle(NodeId(1), vec![complete(&claim)]).await.unwrap();
        jobs.push(job);
    }
    due(&pg).await;
    pg.store.plan(UNLED).await.unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    let later = Verdict::Retry { after: Duration::from_secs(60) };
    let failed = Settlement::new(&claim, Outcome::Failed(Failure::new("x", "y")), later);
    pg.store.settle(NodeId(1), vec![failed]).await.unwrap();
    jobs.push(claim.job);

    let mut all = tokio::task::JoinSet::new();
    for who in 0..4 {
        let (store, jobs) = (pg.store.clone(), jobs.clone());
        all.spawn(async move {
            for _ in 0..40 {
                if who % 2 == 0 {
                    let retry =
                        crate::operate::retry::Retry { jobs: jobs.clone(), options: RetryOptions::default() };
                    store.run(retry).await.unwrap();
                } else {
                    store.pause(vec![name("m")]).await.unwrap();
                    store.resume(vec![name("m")]).await.unwrap();
                }
            }
        });
    }
    all.join_all().await;
    assert_eq!(pg.deadlocks().await, 0);
}
