//! Running handlers: steps and progress, and the end of trust in their lease.

mod hooks;
#[cfg(feature = "outbound")]
mod http;
#[cfg(feature = "logs")]
mod logs;
mod secrets;
#[cfg(feature = "otel")]
mod trace;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use lineclear::model::{ExecutionOutcome, JobState};
use lineclear::read::StepView;
use lineclear::store::{JobId, Revival};
use lineclear::{
    Cancel, Ctx, Done, HandlerError, JobInfo, KindOptions, Lineclear, Node, NodeOptions, Permanent, Progress,
    State, WhenTrustEnds,
};

use super::{Calls, impatient};
use crate::kit::{TestStore, quick, until};

async fn steps(node: &Node, job: JobId) -> Vec<StepView> {
    node.store().job(job).await.unwrap().unwrap().steps
}

async fn is(db: &TestStore, node: &Node, job: JobId, state: JobState) {
    until("it has come so far", async || db.state(node, job).await == Some(state)).await;
}

on_each_store! {
    async fn a_finished_step_is_not_done_again_and_answers_with_its_result(db) {
        #[derive(Default)]
        struct Counts { extract: Calls, load: Calls }
        async fn etl(ctx: Ctx, counts: State<Arc<Counts>>) -> Result<Done<Vec<u32>>, HandlerError> {
            let rows: Vec<u32> = ctx.step("extract", async { Ok(vec![counts.extract.add(), 2, 3]) }).await?;
            let sum = ctx.step("load", async {
                if counts.load.add() < 3 {
                    return Err("no route".into());
                }
                Ok(rows.iter().sum::<u32>())
            }).await?;
            Ok(Done(vec![sum]))
        }
        let counts = Arc::new(Counts::default());
        let node = Lineclear::builder().store(&db.url).options(quick()).state(counts.clone())
            .kind_with("etl", impatient(5), etl).start().await.unwrap();
        let job = node.enqueue("etl", &()).await.unwrap().id;
        is(db, &node, job, JobState::Completed).await;
        assert_eq!((counts.extract.count(), counts.load.count()), (1, 3));
        let detail = node.store().job(job).await.unwrap().unwrap();
        assert_eq!(detail.executions.last().unwrap().output.as_deref(), Some("[6]"), "1 + 2 + 3: of the first try");
        assert_eq!(detail.executions[0].error_message.as_deref(), Some("no route"), "the step's error is the job's");
        let seen: Vec<_> = detail.steps.iter().map(|s| (s.name.as_str(), s.claim_no, s.output.as_deref())).collect();
        assert_eq!(seen, [("extract", 1, Some("[1,2,3]")), ("load", 3, Some("6"))]);
        node.stop().await;
    }

    async fn a_name_used_twice_in_one_run_is_a_permanent_failure(db) {
        async fn twice(ctx: Ctx) -> Result<(), HandlerError> {
            ctx.step("same", async { Ok(1) }).await?;
            ctx.step("same", async { Ok(2) }).await?;
            Ok(())
        }
        async fn large(ctx: Ctx) -> Result<(), HandlerError> {
            ctx.step("large", async { Ok("x".repeat(65 * 1024)) }).await?;
            Ok(())
        }
        async fn permanent(ctx: Ctx) -> Result<(), HandlerError> {
            ctx.step("ask", async { Err::<(), _>(Permanent::new("no such customer").into()) }).await?;
            Ok(())
        }
        let node = Lineclear::builder().store(&db.url).options(quick()).kind("twice", twice).kind("large", large)
            .kind("permanent", permanent).start().await.unwrap();
        for (kind, says) in [("twice", "\"same\" was begun twice"), ("large", "cannot be recorded"), ("permanent", "no such customer")] {
            let job = node.enqueue(kind, &()).await.unwrap().id;
            is(db, &node, job, JobState::Dead).await;
            let detail = node.store().job(job).await.unwrap().unwrap();
            assert_eq!(detail.executions.len(), 1, "{kind}");
            assert!(detail.executions[0].error_message.as_deref().unwrap().contains(says), "{detail:?}");
        }
        node.stop().await;
    }

    async fn a_revived_job_goes_on_after_its_finished_steps_unless_its_input_was_edited(db) {
        async fn work(ctx: Ctx, calls: State<Arc<Calls>>) -> Result<(), HandlerError> {
            ctx.step("first", async { Ok(calls.add()) }).await?;
            Err("never".into())
        }
        let calls = Arc::new(Calls::default());
        let node = Lineclear::builder().store(&db.url).options(quick()).state(calls.clone())
            .kind_with("work", impatient(0), work).start().await.unwrap();
        let job = node.enqueue("work", &()).await.unwrap().id;
        for (revival, called) in [
            (Revival::default(), 1),
            (Revival { input: Some(lineclear::model::Payload::empty()), ..Revival::default() }, 2),
        ] {
            is(db, &node, job, JobState::Dead).await;
            let letter = node.store().dead_letters(Some("awaiting"), None, 1).await.unwrap().items[0].id;
            let before = node.store().job(job).await.unwrap().unwrap().executions.len();
            node.store().revive(vec![letter], revival).await.unwrap();
            until("it ran again", async || {
                node.store().job(job).await.unwrap().is_some_and(|detail| detail.executions.len() > before)
            }).await;
            assert_eq!(calls.count(), called);
        }
        node.stop().await;
    }

    async fn a_claim_that_was_lost_cannot_record_its_steps_and_is_told(db) {
        async fn slow(ctx: Ctx, job: JobInfo, go: State<Arc<tokio::sync::Notify>>, told: State<Arc<Calls>>) -> Result<(), HandlerError> {
            if job.claim_no == 1 {
                go.notified().await;
                if matches!(ctx.step("one", async { Ok(1) }).await, Err(lineclear::StepError::Lost { .. })) {
                    told.add();
                }
            }
            Ok(())
        }
        let (go, told) = (Arc::new(tokio::sync::Notify::new()), Arc::new(Calls::default()));
        let options = NodeOptions { lease: Duration::from_secs(3600), renewal: Duration::from_secs(1200), ..quick() };
        let builder = || Lineclear::builder().store(&db.url).state(go.clone()).state(told.clone());
        let node = builder().options(options).kind("slow", slow).start().await.unwrap();
        let job = node.enqueue("slow", &()).await.unwrap().id;
        is(db, &node, job, JobState::Running).await;
        // Another node finds the lease expired; this one trusts it for an hour.
        db.let_leases_end().await;
        let other = builder().options(NodeOptions { lease: Duration::from_secs(1), renewal: Duration::from_millis(300), ..quick() })
            .kind("slow", slow).start().await.unwrap();
        is(db, &other, job, JobState::Completed).await;
        go.notify_one();
        until("it is told", async || told.count() == 1).await;
        assert_eq!(steps(&node, job).await, []);
        node.stop().await;
        other.stop().await;
        let outcomes: Vec<_> = {
            let store = lineclear::Store::open(lineclear::StoreOptions::new(&db.url).unwrap()).await.unwrap();
            store.job(job).await.unwrap().unwrap().executions.iter().map(|execution| execution.outcome).collect()
        };
        assert_eq!(outcomes, [ExecutionOutcome::Lost, ExecutionOutcome::Completed]);
    }

    async fn progress_shows_while_the_job_runs(db) {
        async fn long(ctx: Ctx, progress: Progress, cancel: Cancel) {
            for n in 0..1000 {
                ctx.progress(f64::from(n) / 2000.0, "on its way");
            }
            progress.set(f64::NAN, "who knows");
            progress.set(7.0, "nearly there");
            cancel.requested().await;
        }
        let node = Lineclear::builder().store(&db.url).options(quick()).kind("long", long).start().await.unwrap();
        let job = node.enqueue("long", &()).await.unwrap().id;
        until("it shows", async || {
            let progress = node.store().job(job).await.unwrap().unwrap().job.progress;
            progress.is_some_and(|progress| (progress.fraction, progress.text.as_str()) == (1.0, "nearly there"))
        }).await;
        node.store().cancel(job).await.unwrap();
        is(db, &node, job, JobState::Completed).await;
        node.stop().await;
    }
}

/// The database is silent for three leases. The handler of one kind is told to stop; that of the other goes on, and its result
/// counts, because no other node could reclaim the job either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_chooses_to_go_on_when_trust_in_its_lease_ends() {
    #[derive(Default)]
    struct Seen {
        told: Calls,
        go: tokio::sync::Notify,
    }
    async fn work(cancel: Cancel, seen: State<Arc<Seen>>) -> Result<(), HandlerError> {
        tokio::select! {
            () = cancel.requested() => {
                seen.told.add();
                Err("told to stop".into())
            }
            () = seen.go.notified() => Ok(()),
        }
    }
    let database = crate::kit::migrated().await;
    let proxy = lineclear_testkit::Proxy::to_url(database.url()).await.unwrap();
    let seen = Arc::new(Seen::default());
    let lease = Duration::from_millis(1500);
    let node = Lineclear::builder()
        .store(proxy.url_for(database.url()))
        .options(NodeOptions { lease, renewal: lease / 4, ..quick() })
        .state(seen.clone())
        .kind("stops", work)
        .kind_with(
            "goes-on",
            KindOptions { when_trust_ends: WhenTrustEnds::GoOn, ..KindOptions::default() },
            work,
        )
        .start()
        .await
        .unwrap();
    let stops = node.enqueue("stops", &()).await.unwrap().id;
    let goes_on = node.enqueue("goes-on", &()).await.unwrap().id;
    let state = async |job| node.store().job(job).await.ok().flatten().map(|detail| detail.job.state);
    until("both run", async || {
        state(stops).await == Some(JobState::Running) && state(goes_on).await == Some(JobState::Running)
    })
    .await;
    proxy.silence();
    until("one is told", async || seen.told.count() == 1).await;
    tokio::time::sleep(lease * 2).await;
    assert_eq!(seen.told.count(), 1, "and only one");
    // The one that goes on is the only one that still waits.
    seen.go.notify_waiters();
    proxy.heal();
    until("its result counts", async || state(goes_on).await == Some(JobState::Completed)).await;
    let detail = node.store().job(goes_on).await.unwrap().unwrap();
    let outcomes: Vec<_> = detail.executions.iter().map(|execution| execution.outcome).collect();
    assert_eq!(outcomes, [ExecutionOutcome::Completed], "by its first claim");
    until("the other is given back", async || {
        let detail = node.store().job(stops).await;
        detail.is_ok_and(|detail| detail.is_some_and(|detail| !detail.executions.is_empty()))
    })
    .await;
    let detail = node.store().job(stops).await.unwrap().unwrap();
    assert_eq!(detail.executions[0].outcome, ExecutionOutcome::Released);
    seen.go.notify_one();
    node.stop().await;
}
